"""What a run reports to Dagster of an entity's tables is looked at beside the commits, and is what the tables have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import dagster as dg
import pytest

from sfcdc_assets.apply.catch_up import Applied, ApplyListener
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.lake.delta.handles import Handles
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.assets import reports, tables_metadata
from sfcdc_assets.orchestration.assets.reports import RunReports, has_changed
from sfcdc_assets.orchestration.assets.tables_metadata import look_again
from sfcdc_assets.org_reads.read_back import ReadBackReport
from sfcdc_assets_tests.pipeline.apply.many_entities import CHANNEL, Entities, catch_up
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import without_spark

NAMES = ("First__c", "Second__c", "Third__c")
LAYERS = {
    ASSETS.keys.text_fields: "text_fields",
    ASSETS.keys.gap_reconciliation: "gap_reconciliation",
    ASSETS.keys.current_state: "current_state",
    ASSETS.keys.history: "history",
}


@pytest.fixture
def entities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Entities:
    """Three with events that are not applied yet."""
    without_spark(monkeypatch, Random(1))
    made = Entities(Warehouse(str(tmp_path)), NAMES, records=3)
    made.day_zero()
    made.land(1)
    return made


@pytest.fixture
def run_reports(entities: Entities) -> Iterator[RunReports]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield RunReports(ASSETS, instance, entities.warehouse, dict.fromkeys(NAMES, CHANNEL), with_columns=True)


class Kept(ApplyListener):
    """Keeps what is reported to it; of commits others hear."""

    def __init__(self, reports: RunReports) -> None:
        self.applied: dict[str, Applied] = {}
        self.committed = reports.committed  # type: ignore[method-assign]

    def brought_up_to_date(self, applied: Applied) -> None:
        self.applied[applied.report.entity] = applied


def reported(of: RunReports) -> Mapping[tuple[str, dg.AssetKey], Mapping[str, Any]]:
    return {
        (event.partition or "", event.asset_key): {name: value.value for name, value in event.metadata.items()}
        for event in of.take()
        if event.asset_key in ASSETS.keys.of_tables
    }


def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables that are opened from now on."""
    found: list[str] = []
    take = Handles.take

    def noted(handles: Handles, uri: str, log: Any) -> Any:
        found.append(uri)
        return take(handles, uri, log)

    monkeypatch.setattr(Handles, "take", noted)
    return found


def test_no_table_is_opened_again_to_report_a_batch_and_the_report_is_that_of_opened_tables(
    entities: Entities, run_reports: RunReports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_SAMPLE_ROWS", "3")
    kept = Kept(run_reports)
    catch_up(entities, listener=kept)
    assert list(kept.applied) == list(NAMES)
    with pytest.MonkeyPatch.context() as patch:
        again = opened(patch)
        for applied in kept.applied.values():
            run_reports.brought_up_to_date(applied)
        assert again == []
    looked = reported(run_reports)
    assert looked.keys() == {(name, key) for name in NAMES for key in ASSETS.keys.of_tables}
    rows = ASSETS.settings().sample_rows
    monkeypatch.setattr(RunReports, "_look", lambda of, applied: look_again(entities.warehouse, applied.report, rows))
    for applied in kept.applied.values():
        run_reports.brought_up_to_date(applied)
    assert reported(run_reports) == looked
    for name in NAMES:
        for key, layer in LAYERS.items():
            version = looked[name, key]["delta_version"]
            assert looked[name, key]["table"] == f"{layer}/{name}"
            assert version is not None
        state = CurrentState.open(entities.warehouse, name)
        assert state is not None
        assert looked[name, ASSETS.keys.current_state]["delta_version"] == state.table.version
        assert "sample" in looked[name, ASSETS.keys.current_state]
        assert "sample" in looked[name, ASSETS.keys.history]


def test_what_came_after_the_commit_is_looked_at_again(
    entities: Entities, run_reports: RunReports, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(run_reports)
    catch_up(entities, listener=kept)
    first, second, third = kept.applied.values()
    nothing_read = ReadBackReport(
        **{field: 0 for field in ReadBackReport.__dataclass_fields__ if field != "error"}, error=None
    )
    monkeypatch.setattr(reports, "look_again", lambda *given: looked.append(given[1].entity) or look_again(*given))
    looked: list[str] = []
    run_reports.brought_up_to_date(first)
    run_reports.brought_up_to_date(replace(second, read=nothing_read))
    run_reports.brought_up_to_date(replace(third, report=replace(third.report, version=third.report.version + 1)))
    assert looked == []
    run_reports.take()
    assert looked == [*NAMES[1:]]


def test_a_commit_stands_though_its_tables_cannot_be_looked_at(
    entities: Entities, run_reports: RunReports, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(run_reports)

    def fails(*_: object, **__: object) -> None:
        raise OSError("the store does not answer")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables_metadata.TableLook, "of", fails)
        catch_up(entities, listener=kept)
    assert entities.differences() == []
    for applied in kept.applied.values():
        run_reports.brought_up_to_date(applied)
    assert reported(run_reports).keys() == {(name, key) for name in NAMES for key in ASSETS.keys.of_tables}


def test_the_first_batch_reports_each_table_at_once_and_a_later_one_those_that_are_another(
    entities: Entities, run_reports: RunReports
) -> None:
    """A run goes on for ten minutes: until its end the graph showed tables that had been made as missing."""
    kept = Kept(run_reports)
    catch_up(entities, listener=kept)
    first = kept.applied[NAMES[0]]
    assert first.report.schema_before is None
    run_reports.brought_up_to_date(first)
    assert due(run_reports) == set(ASSETS.keys.of_tables)
    later = replace(first, report=replace(first.report, schema_before=first.report.schema))
    assert {key for key in ASSETS.keys.of_tables if has_changed(ASSETS.keys, key, later)} == {
        ASSETS.keys.current_state,
        ASSETS.keys.history,
    }


def due(of: RunReports) -> set[dg.AssetKey]:
    return {event.asset_key for event in of.take_due() if event.asset_key in ASSETS.keys.of_tables}
