"""When what failed is asked for again: after pauses that grow, while nothing else waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import dagster as dg
import pytest

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.entities.entities import entity_states
from sfcdc_assets.lake.store.runs_at_work import note_at_work
from sfcdc_assets.landing.run_lander import LandedOnly
from sfcdc_assets.orchestration.jobs.lost_runs import SILENT_SECONDS
from sfcdc_assets.orchestration.sensors.due import LONGEST_RETRY_SECONDS, LOOK_SECONDS, RETRY_SECONDS
from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets_tests.orchestration.sensors.code_server import (
    CodeServer,
    catch_up,
    code_servers,
    jobs,
    landed_through_ms,
    start_caught_up,
    want_a_copy,
)
from sfcdc_assets_tests.orchestration.sensors.dagster_runs import run_of, tags_of_channel
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import without_spark
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream, stream

pytestmark = pytest.mark.slow


def failed_run(weather: Stream, server: CodeServer) -> None:
    """A run of `sync` that a tick asks for fails."""
    weather.update(1)
    weather.update(2)
    (request,) = server.tick().run_requests or ()
    server.note(request, dg.DagsterEventType.RUN_FAILURE)


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_failed_run_is_asked_for_again_after_a_while_and_not_at_each_tick(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch, is_busy: bool
) -> None:
    failed_run(weather, server)
    failed_at = weather.clock.monotonic()
    asked_after = None
    for number in range(20):
        if is_busy:
            weather.update(number % 6)
        if jobs(server.ticks(5)):
            asked_after = weather.clock.monotonic() - failed_at
            break
    assert asked_after is not None
    assert RETRY_SECONDS <= asked_after <= (RETRY_SECONDS + 6 if is_busy else RETRY_SECONDS + LOOK_SECONDS + 6)


@pytest.fixture
def server_of_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CodeServer]:
    """One whose tables of two entities equal the org."""
    without_spark(monkeypatch, Random(5))
    with stream(tmp_path, records=6, entities=("Account", "Contact")) as weather, code_servers(weather) as start:
        yield start_caught_up(start)


class WithoutAccounts:
    """The sensor with the runs that it asks for, while each run of `sync` fails at accounts and applies all else."""

    def __init__(self, server: CodeServer) -> None:
        self._server = server
        self._contact = str(next(iter(server.stream.org.records("Contact")))["Id"])
        self.failed_at: list[float] = []

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds / 10)):
            for request in self._server.ticks(10, every=10)[0].run_requests or ():
                catch_up(self._server.stream, {"Contact": CHANNEL}, landed(self._server, request))
                self._server.note(request, dg.DagsterEventType.RUN_FAILURE)
                self.failed_at.append(self._server.stream.clock.monotonic())

    def change_a_contact(self) -> None:
        with self._server.stream.org.transaction() as work:
            work.update("Contact", self._contact, {"Title": str(self._server.stream.clock())})

    @property
    def contact_is_applied(self) -> bool:
        warehouse = self._server.stream.warehouse
        (state,) = entity_states(warehouse, {"Contact": CHANNEL}, self._server.stream.clock())
        return not state.has_work


def landed(server: CodeServer, request: dg.RunRequest) -> LandedOnly:
    return LandedOnly(server.stream.warehouse, {CHANNEL: landed_through_ms(request)})


def test_an_entity_that_fails_for_an_hour_is_asked_for_after_pauses_that_grow_though_it_changes_meanwhile(
    server_of_two: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = WithoutAccounts(server_of_two)
    for number in range(60):
        server_of_two.stream.update(number % 6)
        runs.pass_time(60)
    assert 5 < len(runs.failed_at) < 12
    assert LONGEST_RETRY_SECONDS <= runs.failed_at[-1] - runs.failed_at[-2] <= LONGEST_RETRY_SECONDS + LOOK_SECONDS + 20


def test_what_is_new_of_another_entity_does_not_wait_for_the_one_that_fails(
    server_of_two: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = WithoutAccounts(server_of_two)
    server_of_two.stream.update(1)
    runs.pass_time(1_200)
    runs.change_a_contact()
    runs.pass_time(RETRY_SECONDS + 30)
    assert runs.contact_is_applied
    before = len(runs.failed_at)
    runs.pass_time(120)
    assert len(runs.failed_at) == before, "and the entity that fails is not asked for more often because of it"
    runs.change_a_contact()
    runs.pass_time(20)
    assert runs.contact_is_applied
    assert len(runs.failed_at) == before + 1


def test_after_a_run_that_was_lost_its_work_is_asked_for_at_once_however_often_it_failed_before(
    server_of_two: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = server_of_two
    runs = WithoutAccounts(server)
    server.stream.update(1)
    runs.pass_time(1_200)
    tags = tags_of_channel(CHANNEL, "sync")
    run = run_of(server.instance, ASSETS.name("sync"), tags, dg.DagsterRunStatus.STARTED)
    note_at_work(server.stream.warehouse, run.run_id, round(Clock().now_ms() - (SILENT_SECONDS + 1) * 1000))
    server.stream.update(2)
    assert "sync" in jobs(server.ticks(15))


def test_copies_that_fail_again_and_again_are_asked_for_after_pauses_that_grow_and_what_is_new_is_not(
    server_of_two: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, weather = server_of_two, server_of_two.stream

    def asked_for(seconds: float) -> list[float]:
        """When copies were asked for, which fail at once."""
        moments = []
        for _ in range(round(seconds / 10)):
            weather.pass_time(10)
            for request in server.tick().run_requests or ():
                if request.job_name == ASSETS.name("snapshot"):
                    moments.append(weather.clock.monotonic())
                    server.note(request, dg.DagsterEventType.RUN_FAILURE)
                else:
                    server.do(request)
        return moments

    want_a_copy(weather, "Account")
    moments = asked_for(3_600)
    pauses = [later - earlier for earlier, later in pairwise(moments)]
    assert all(earlier < later for earlier, later in pairwise(pauses[:5]))
    assert RETRY_SECONDS <= pauses[0] <= RETRY_SECONDS + LOOK_SECONDS + 20
    assert LONGEST_RETRY_SECONDS <= pauses[-1] <= LONGEST_RETRY_SECONDS + LOOK_SECONDS + 20
    assert len(moments) < 12
    asked_for(moments[-1] + LONGEST_RETRY_SECONDS / 2 - weather.clock.monotonic())
    want_a_copy(weather, "Contact")
    assert len(asked_for(LOOK_SECONDS)) == 1, "and when it fails it has pauses of its own, which begin short"
