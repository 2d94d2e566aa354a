"""What a table is goes into Dagster's event log when it changes, and now and then."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.orchestration.assets.column_reports import (
    BUSY_SECONDS,
    CALM_SECONDS,
    with_new_columns,
)
from sfcdc_assets.orchestration.table_metadata import COLUMNS, LINEAGE
from sfcdc_assets.runtime.clock import using
from sfcdc_assets_tests.orchestration.dagster_instance import instance_in_memory
from sfcdc_assets_tests.simulated_clock import SimulatedClock


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with instance_in_memory() as made:
        yield made


@pytest.fixture
def clock() -> Iterator[SimulatedClock]:
    clock = SimulatedClock()
    with using(clock):
        yield clock


def report(
    instance: dg.DagsterInstance,
    *columns: str,
    entity: str = "Account",
    within: float = BUSY_SECONDS,
    run_id: str = "r",
) -> dg.AssetMaterialization:
    """The next one of a partition."""
    lineage = {name: [dg.TableColumnDep(asset_key=ASSETS.keys.current_state, column_name=name)] for name in columns}
    event = dg.AssetMaterialization(
        ASSETS.keys.current_state,
        partition=entity,
        metadata={
            "rows": 7,
            COLUMNS: dg.TableSchema([dg.TableColumn(name) for name in columns]),
            LINEAGE: dg.TableColumnLineage(lineage),
        },
    )
    made = with_new_columns(instance, event, run_id, within)
    instance.report_runless_asset_event(made)
    return made


def has_columns(made: dg.AssetMaterialization) -> bool:
    assert made.metadata["rows"].value == 7
    assert (COLUMNS in made.metadata) == (LINEAGE in made.metadata)
    return COLUMNS in made.metadata


def test_columns_are_reported_when_they_change_and_in_between_where(
    instance: dg.DagsterInstance, clock: SimulatedClock
) -> None:
    assert has_columns(report(instance, "Id", run_id="first"))
    again = [report(instance, "Id", run_id=run_id) for run_id in ("second", "third")]
    assert not any(map(has_columns, again))
    assert [each.metadata["columns_reported_in"].value for each in again] == ["first", "first"]
    changed = report(instance, "Id", "Name", run_id="fourth")
    assert has_columns(changed)
    assert changed.metadata["columns_reported_in"].value == "fourth"
    assert not has_columns(report(instance, "Id", "Name"))
    assert has_columns(report(instance, "Id", "Name", entity="Contact")), "each partition has its own"


def test_the_event_log_is_not_asked_again_while_what_it_said_does(
    instance: dg.DagsterInstance, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, fetch = [0], dg.DagsterInstance.fetch_materializations

    def counting(self: dg.DagsterInstance, *given: object, **named: object) -> object:
        asked[0] += 1
        return fetch(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(dg.DagsterInstance, "fetch_materializations", counting)
    assert has_columns(report(instance, "Id"))
    assert [has_columns(report(instance, "Id")) for _ in range(5)] == [False] * 5
    assert asked == [2], "what a run was about to report may never have been stored"
    assert has_columns(report(instance, "Id", "Name"))
    assert asked == [3]
    clock.advance(int(BUSY_SECONDS * 1000) + 1000)
    assert has_columns(report(instance, "Id", "Name"))


def test_they_are_repeated_after_a_day_and_sooner_where_it_is_calm(
    instance: dg.DagsterInstance, clock: SimulatedClock
) -> None:
    assert has_columns(report(instance, "Id"))
    clock.advance(int(CALM_SECONDS * 1000) + 1000)
    assert not has_columns(report(instance, "Id"))
    assert has_columns(report(instance, "Id", within=CALM_SECONDS))
    assert not has_columns(report(instance, "Id", within=CALM_SECONDS))
    clock.advance(int(BUSY_SECONDS * 1000) + 1000)
    assert has_columns(report(instance, "Id"))
