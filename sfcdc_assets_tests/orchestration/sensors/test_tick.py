"""What a tick looks at, and what it asks for: most ticks come to nothing and must cost nothing."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any, cast

import dagster as dg
import pytest

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.orchestration.sensors.channel import tick
from sfcdc_assets.orchestration.sensors.due import LOOK_SECONDS
from sfcdc_assets.orchestration.sensors.open_channel import MEMBERS_SECONDS
from sfcdc_assets.salesforce.errors import OrgUnavailable
from sfcdc_assets.streams.pubsub.errors import PubSubUnavailable
from sfcdc_assets_tests.orchestration.sensors.code_server import (
    CodeServer,
    code_servers,
    jobs,
    want_a_copy,
)
from sfcdc_assets_tests.orchestration.sensors.dagster_runs import ends, run_of, tags_of_channel
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import without_spark
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream

pytestmark = pytest.mark.slow


class NotToBeAsked:
    """Stands for Dagster's instance where nobody is to ask it anything."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the instance was asked for {name}")


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
        tags_of_channel(CHANNEL, "snapshot"),
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
