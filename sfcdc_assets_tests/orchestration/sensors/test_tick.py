"""What a tick looks at, what it asks for, and when: most ticks come to nothing and must cost nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, cast

import dagster as dg
import pytest

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.entities.entities import entity_states
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.store.runs_at_work import note_at_work
from sfcdc_assets.lake.tables.consistent_cuts import latest_cut
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.landing.run_lander import LandedOnly
from sfcdc_assets.orchestration.jobs.lost_runs import SILENT_SECONDS
from sfcdc_assets.orchestration.org_assets import CONCURRENCY_TAG
from sfcdc_assets.orchestration.sensors.channel import tick
from sfcdc_assets.orchestration.sensors.due import LONGEST_RETRY_SECONDS, LOOK_SECONDS, RETRY_SECONDS
from sfcdc_assets.orchestration.sensors.open_channel import MEMBERS_SECONDS
from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets.salesforce.errors import OrgUnavailable
from sfcdc_assets.streams.pubsub.errors import PubSubUnavailable
from sfcdc_assets_tests.orchestration.sensors.code_server import (
    CodeServer,
    catch_up,
    code_servers,
    landed_through_ms,
    start_caught_up,
    want_a_copy,
)
from sfcdc_assets_tests.orchestration.sensors.dagster_runs import ends, run_of
from sfcdc_assets_tests.pipeline.fixtures import no_settings_but_the_tests_own
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import without_spark
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream, stream

__all__ = ["no_settings_but_the_tests_own"]

pytestmark = pytest.mark.slow


@pytest.fixture
def weather(tmp_path: Path) -> Iterator[Stream]:
    with stream(tmp_path, records=6) as opened:
        yield opened


@pytest.fixture
def server(weather: Stream, monkeypatch: pytest.MonkeyPatch) -> Iterator[CodeServer]:
    """One whose tables equal the org."""
    without_spark(monkeypatch, Random(5))
    with code_servers(weather) as start:
        yield start_caught_up(start)


class NotToBeAsked:
    """Stands for Dagster's instance where nobody is to ask it anything."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the instance was asked for {name}")


def jobs(results: list[dg.SensorResult]) -> list[str]:
    return [ASSETS.short(str(request.job_name)) for each in results for request in each.run_requests or ()]


# -- ticks to which nothing happened


def test_a_tick_to_which_nothing_happened_opens_no_table_and_asks_the_instance_nothing(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    of_a_table = Table.open.__func__  # type: ignore[attr-defined]

    def counted(cls: type[Table], warehouse: Any, name: str, version: int | None = None) -> Table | None:
        opened.append(name)
        return cast("Table | None", of_a_table(cls, warehouse, name, version))

    monkeypatch.setattr(Table, "open", classmethod(counted))
    server.ticks(LOOK_SECONDS)
    nobody = cast(dg.DagsterInstance, NotToBeAsked())
    for _ in range(8):
        weather.pass_time(LOOK_SECONDS / 2)
        weather.wait_until_the_org_is_idle()
        opened.clear()
        description = tick(ASSETS, nobody, CHANNEL, server.open(), TICK)
        assert opened == []
        assert str(description.skip_reason.skip_message).endswith("nothing has changed.")  # type: ignore[union-attr]


def test_what_another_process_did_to_a_table_is_seen_by_the_next_look_although_nothing_was_landed(
    weather: Stream, server: CodeServer
) -> None:
    server.ticks(LOOK_SECONDS)
    want_a_copy(weather, "Account")
    assert "snapshot" in jobs(server.ticks(LOOK_SECONDS + 6))


def test_what_is_not_in_the_tables_is_looked_at_now_and_then(weather: Stream, server: CodeServer) -> None:
    server.ticks(LOOK_SECONDS)
    server.instance.delete_dynamic_partition("salesforce_entity", "Account")
    server.ticks(MEMBERS_SECONDS + LOOK_SECONDS)
    assert "Account" in server.instance.get_dynamic_partitions("salesforce_entity")


def events_reported(server: CodeServer, results: list[dg.SensorResult]) -> int:
    """How many landed events of accounts were reported to Dagster, by ticks that worked and by others."""
    stored = server.instance.fetch_materializations(ASSETS.keys.raw_events, limit=100).records
    by_others = [record.asset_materialization for record in stored]
    by_ticks = [event for each in results for event in each.asset_events]
    reports = [
        each
        for each in (*by_others, *by_ticks)
        if isinstance(each, dg.AssetMaterialization) and each.asset_key == ASSETS.keys.raw_events
    ]
    return sum(cast("int", each.metadata["events_landed"].value) for each in reports)


def test_what_has_landed_is_reported_although_the_stream_fails_when_that_is_due(
    weather: Stream, server: CodeServer
) -> None:
    results: list[dg.SensorResult] = []
    for number in range(1, 4):
        weather.update(number)
        results += server.ticks_and_runs(5)
    assert events_reported(server, results) < 3, "the stream goes on, so that some are held"
    with weather.server.outage():
        for _ in range(6):
            weather.clock.advance(5_000)
            with suppress(PubSubUnavailable):
                results.append(tick(ASSETS, server.instance, CHANNEL, server.open(), TICK))
                for request in results[-1].run_requests or ():
                    server.do(request)
        assert events_reported(server, results) == 3, "while it fails"
    weather.clock.advance(60_000)
    results += server.ticks_and_runs(60)
    assert events_reported(server, results) == 3, "and once"


def test_what_has_landed_is_reported_although_the_look_fails_when_that_is_due(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[dg.SensorResult] = []
    for number in range(1, 4):
        weather.update(number)
        results += server.ticks_and_runs(5)
    weather.pass_time(15)

    def unavailable(*arguments: object, **more: object) -> None:
        raise OrgUnavailable("https://localhost", 3, "down for maintenance")

    with monkeypatch.context() as patch:
        patch.setattr("sfcdc_assets.orchestration.sensors.due.entity_states", unavailable)
        with pytest.raises(OrgUnavailable):
            server.tick()
    assert events_reported(server, [*results, *server.ticks_and_runs(60)]) == 3


def test_a_look_that_failed_is_made_by_the_next_tick_and_not_half_a_minute_later(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    weather.update(1)
    weather.wait_until_the_org_is_idle()
    weather.pass_time(11)  # landed and complete in one tick, so that none after it brings anything

    def unavailable(*arguments: object) -> None:
        raise OrgUnavailable("https://localhost", 3, "down for maintenance")

    with monkeypatch.context() as patch:
        patch.setattr("sfcdc_assets.orchestration.sensors.due.claim_warehouse", unavailable)
        with pytest.raises(OrgUnavailable):
            server.tick()
    assert weather.checkpoint().position == 2  # landed all the same
    assert "sync" in jobs(server.ticks(15))


# -- while a run is queued or at work


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTED])
def test_ticks_land_while_their_run_is_queued_or_at_work_and_ask_for_nothing(
    weather: Stream, server: CodeServer, status: dg.DagsterRunStatus
) -> None:
    weather.update(1)
    weather.update(2)
    (request,) = server.tick().run_requests or ()
    run = run_of(server.instance, ASSETS.name("sync"), request.tags, status)
    before = weather.checkpoint().position
    results = []
    for number in range(8):
        weather.update(number % 6)
        results += server.ticks(10)
        assert weather.checkpoint().position == before + number + 1
    assert jobs(results) == []
    said = [str(each.skip_reason.skip_message) for each in results if each.skip_reason is not None]
    waits = [line.partition("; ")[2] for line in said if "nothing" not in line]
    assert set(waits) == {f"run {run.run_id} is at work on {CHANNEL}, and goes on with what lands (step follow)."}
    server.do(request)
    ends(server.instance, run, dg.DagsterEventType.RUN_SUCCESS)
    assert jobs(server.ticks(15)) == ["sync"]


def test_a_snapshot_that_is_queued_holds_up_no_sync(weather: Stream, server: CodeServer) -> None:
    run_of(
        server.instance,
        ASSETS.name("snapshot"),
        {CONCURRENCY_TAG: ASSETS.concurrency_key(CHANNEL, "snapshot")},
        dg.DagsterRunStatus.QUEUED,
    )
    weather.update(1)
    assert "sync" in jobs(server.ticks(15))


def test_what_was_copied_is_looked_at_by_the_next_tick_and_not_half_a_minute_later(
    weather: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever starts has nothing to look at before that."""
    without_spark(monkeypatch, Random(5))
    with code_servers(weather) as start:
        server = start()
        weather.update(0)
        asked = next(each for each in server.ticks(60) if each.run_requests)
        (request,) = asked.run_requests or ()
        assert request.job_name == ASSETS.name("snapshot")
        weather.pass_time(LOOK_SECONDS)
        run = run_of(server.instance, ASSETS.name("snapshot"), request.tags, dg.DagsterRunStatus.STARTED)
        (seen, *idle) = server.ticks(15)
        assert run.run_id in str(seen.skip_reason)
        assert all("nothing has changed" in str(each.skip_reason) for each in idle)
        server.do(request)
        ends(server.instance, run, dg.DagsterEventType.RUN_SUCCESS)
        assert jobs(server.ticks(5)) == ["sync"]


# -- after a run that failed


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
    tags = {CONCURRENCY_TAG: ASSETS.concurrency_key(CHANNEL, "sync")}
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


# -- cuts


def materialized_cuts(results: list[dg.SensorResult]) -> int:
    return sum(
        isinstance(event, dg.AssetMaterialization) and event.asset_key == ASSETS.keys.consistent_cuts
        for each in results
        for event in each.asset_events
    )


def test_a_cut_that_is_owed_because_a_row_was_read_back_is_noted_by_a_later_tick(
    weather: Stream, server: CodeServer
) -> None:
    before = latest_cut(weather.warehouse, CHANNEL)
    weather.server.faults.arm(Fault.INTERNAL_ERROR)
    weather.update(3)
    results = server.ticks_and_runs(30)
    assert "sync" in jobs(results)
    results += server.ticks_and_runs(60)
    cut = latest_cut(weather.warehouse, CHANNEL)
    assert cut is not None
    assert cut.position == weather.checkpoint().complete_position == weather.checkpoint().position
    assert before is None or before.position < cut.position
    assert materialized_cuts(results) == 1
    assert materialized_cuts(server.ticks_and_runs(90)) == 0


def test_a_cut_of_which_the_report_failed_is_reported_by_the_next_tick(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    weather.server.faults.arm(Fault.INTERNAL_ERROR)
    weather.update(3)

    def locked(*_: object) -> None:
        raise RuntimeError("database is locked")

    with monkeypatch.context() as patch:
        patch.setattr("sfcdc_assets.orchestration.sensors.due.UnreportedDoors", locked)
        with pytest.raises(RuntimeError, match="locked"):
            server.ticks_and_runs(100)
    assert materialized_cuts(server.ticks_and_runs(60)) == 1


def test_a_new_process_owes_no_cut_that_is_noted_already(weather: Stream, server: CodeServer) -> None:
    server.ticks_and_runs(60)
    server.die()
    again = CodeServer(weather, server.instance)
    try:
        assert materialized_cuts(again.ticks_and_runs(60)) == 0
    finally:
        again.die()


def test_an_entity_of_a_cut_whose_report_was_lost_with_its_process_is_reported_by_the_next_one_once(
    weather: Stream, server: CodeServer
) -> None:
    assert server.ticks_and_runs(60) is not None  # what these ticks report is lost: they die with their process
    server.die()
    door, reported = ASSETS.keys.of_entity("Account"), []
    for _ in range(2):
        again = CodeServer(weather, server.instance)
        try:
            events = [event for result in again.ticks(2 * LOOK_SECONDS) for event in result.asset_events]
        finally:
            again.die()
        reported.append([event.asset_key for event in events].count(door))
        for event in events:
            server.instance.report_runless_asset_event(event)
    assert reported == [1, 0]
