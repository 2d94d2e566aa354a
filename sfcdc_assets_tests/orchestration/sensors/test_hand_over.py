"""One run takes over from another before that one has ended, so that what lands meanwhile does not wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import dagster as dg
import pytest

from sfcdc_assets.apply.follow_run import FOLLOW_SECONDS
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.lake.store.runs_at_work import note_at_work
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.jobs.hand_over import AHEAD_SECONDS, hand_over, note_following, wait_for
from sfcdc_assets.orchestration.jobs.lost_runs import LOST_TAG, SILENT_SECONDS
from sfcdc_assets.orchestration.org_assets import CONCURRENCY_TAG
from sfcdc_assets.orchestration.sensors.due import RETRY_SECONDS
from sfcdc_assets.runtime.clock import Clock, using
from sfcdc_assets_tests.orchestration.dagster_instance import instance_in_memory
from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer, jobs, want_a_copy
from sfcdc_assets_tests.orchestration.sensors.dagster_runs import ends, run_of, tags_of_channel
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream

pytestmark = pytest.mark.slow


@pytest.fixture
def server(weather: Stream, server: CodeServer) -> CodeServer:
    """One whose tables equal the org, and which has landed what no run has applied."""
    weather.update(1)
    return server


def at_work(server: CodeServer, tags: Mapping[str, str] | None = None) -> dg.DagsterRun:
    """A run of the channel whose process lives."""
    of = {**tags_of_channel(CHANNEL, "sync"), **(tags or {})}
    return run_of(server.instance, ASSETS.name("sync"), of, dg.DagsterRunStatus.STARTED)


def asked_for(server: CodeServer, seconds: float) -> list[dg.RunRequest]:
    return [request for result in server.ticks(seconds) for request in result.run_requests or ()]


def test_the_next_run_is_asked_for_once_a_moment_before_the_one_at_work_ends(server: CodeServer) -> None:
    first = at_work(server)
    assert asked_for(server, 30) == [], "not before it follows"
    note_following(server.instance, first.run_id, FOLLOW_SECONDS)

    assert asked_for(server, FOLLOW_SECONDS - AHEAD_SECONDS - 5) == []
    asked, *_ = asked_for(server, 10)

    assert asked.tags[CONCURRENCY_TAG] != first.tags[CONCURRENCY_TAG]
    assert asked.run_config["ops"]["land"]["config"]["takes_over"] == first.run_id
    assert asked.run_config["ops"]["land"]["config"]["follow_seconds"] == FOLLOW_SECONDS


def test_while_both_are_at_work_and_when_the_first_has_ended_no_other_is_asked_for(server: CodeServer) -> None:
    first = at_work(server)
    note_following(server.instance, first.run_id, AHEAD_SECONDS + 2)
    (asked,) = asked_for(server, 5)
    second = at_work(server, asked.tags)

    assert asked_for(server, 10) == []
    ends(server.instance, first, dg.DagsterEventType.RUN_SUCCESS)
    assert asked_for(server, 20) == []

    note_following(server.instance, second.run_id, AHEAD_SECONDS + 2)
    (third,) = asked_for(server, 5)
    assert third.tags[CONCURRENCY_TAG] not in {run.tags[CONCURRENCY_TAG] for run in (first, second)}
    assert third.run_config["ops"]["land"]["config"]["takes_over"] == second.run_id


def test_one_that_fails_before_it_takes_over_is_asked_for_again_after_a_pause(server: CodeServer) -> None:
    first = at_work(server)
    note_following(server.instance, first.run_id, AHEAD_SECONDS + 2)
    (asked,) = asked_for(server, 5)
    server.note(asked, dg.DagsterEventType.RUN_FAILURE)

    assert asked_for(server, RETRY_SECONDS - 5) == []
    (again,) = asked_for(server, 10)[:1]
    assert again.tags == asked.tags


class Waited(Clock):
    """Moves when somebody waits; `meanwhile` is called first."""

    def __init__(self, meanwhile: Callable[[], object] = list) -> None:
        self.waited = 0.0
        self._meanwhile = meanwhile

    def monotonic(self) -> float:
        return self.waited

    def sleep(self, seconds: float) -> None:
        self._meanwhile()
        self.waited += seconds


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with instance_in_memory() as instance:
        yield instance


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path / "warehouse"))


@pytest.mark.parametrize("ended", [None, dg.DagsterEventType.RUN_FAILURE, dg.DagsterEventType.RUN_SUCCESS])
def test_a_run_waits_until_the_other_has_handed_over_or_has_ended_however_long_its_batch_is(
    ended: dg.DagsterEventType | None, instance: dg.DagsterInstance, warehouse: Warehouse
) -> None:
    first = run_of(instance, ASSETS.name("sync"), {}, dg.DagsterRunStatus.STARTED)

    def goes_on() -> None:
        if clock.waited < 1_000:
            return
        if ended is None:
            hand_over(instance, first.run_id)
        else:
            ends(instance, first, ended)

    clock = Waited(goes_on)
    with using(clock):
        wait_for(instance, warehouse, first.run_id)
    assert 1_000 <= clock.waited < 1_001


def test_a_run_does_not_wait_for_one_whose_process_is_gone(instance: dg.DagsterInstance, warehouse: Warehouse) -> None:
    tags = tags_of_channel(CHANNEL, "sync")
    first = run_of(instance, ASSETS.name("sync"), tags, dg.DagsterRunStatus.STARTED)
    note_at_work(warehouse, first.run_id, round(Clock().now_ms() - (SILENT_SECONDS + 1) * 1000))
    clock = Waited()
    with using(clock):
        wait_for(instance, warehouse, first.run_id)
    assert clock.waited < 10
    found = instance.get_run_by_id(first.run_id)
    assert found is not None
    assert (found.status, LOST_TAG in found.tags) == (dg.DagsterRunStatus.FAILURE, True)


def test_a_run_does_not_wait_for_one_that_dagster_has_forgotten(
    instance: dg.DagsterInstance, warehouse: Warehouse
) -> None:
    clock = Waited()
    with using(clock):
        wait_for(instance, warehouse, "00000000-0000-0000-0000-000000000000")
    assert clock.waited == 0


def test_what_a_run_noted_is_not_believed_of_one_that_has_its_tags_because_it_is_executed_again(
    server: CodeServer,
) -> None:
    first = at_work(server)
    note_following(server.instance, first.run_id, AHEAD_SECONDS)
    hand_over(server.instance, first.run_id)
    ends(server.instance, first, dg.DagsterEventType.RUN_SUCCESS)
    before = server.instance.get_run_by_id(first.run_id)
    assert before is not None

    again = at_work(server, before.tags)

    assert asked_for(server, 20) == [], "it is not ending, and it is at work"
    clock = Waited(lambda: clock.waited < 5 or ends(server.instance, again, dg.DagsterEventType.RUN_SUCCESS))
    with using(clock):
        wait_for(server.instance, server.stream.warehouse, again.run_id)
    assert clock.waited > 5


def test_nobody_takes_over_from_a_run_that_a_person_ends(server: CodeServer) -> None:
    first = at_work(server)
    note_following(server.instance, first.run_id, AHEAD_SECONDS)
    server.instance.report_run_canceling(first)
    assert asked_for(server, 20) == []


def test_a_run_that_has_handed_over_and_only_checks_keeps_no_new_one_from_being_asked_for(server: CodeServer) -> None:
    first = at_work(server)
    hand_over(server.instance, first.run_id)
    (asked, *_) = asked_for(server, 40)
    assert ASSETS.short(str(asked.job_name)) == "sync"
    assert "takes_over" not in asked.run_config["ops"]["land"]["config"]


def test_where_a_copy_is_due_nobody_takes_over_so_that_it_is_asked_for(server: CodeServer) -> None:
    first = at_work(server)
    note_following(server.instance, first.run_id, AHEAD_SECONDS + 2)
    want_a_copy(server.stream, "Account")
    assert asked_for(server, 15) == []
    ends(server.instance, first, dg.DagsterEventType.RUN_SUCCESS)
    assert "snapshot" in jobs(server.ticks(10))
