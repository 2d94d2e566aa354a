"""The cuts that ticks note and report."""

from __future__ import annotations

import dagster as dg
import pytest

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.tables.consistent_cuts import latest_cut
from sfcdc_assets.orchestration.sensors.due import LOOK_SECONDS
from sfcdc_assets_tests.orchestration.sensors.code_server import (
    CodeServer,
    jobs,
)
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream

pytestmark = pytest.mark.slow


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
