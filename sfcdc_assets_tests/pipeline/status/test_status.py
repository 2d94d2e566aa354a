"""What `sfcdc status` opens: logs of tables, each once, and no row, however many there are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sfcdc_assets.lake.delta.handles import Handles
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.clock import using
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.status.metrics import metrics_text
from sfcdc_assets.status.status import status_of
from sfcdc_assets.timeline.suspect import NewSuspect, Reason
from sfcdc_assets_tests.pipeline.apply.many_entities import BEGUN_MS, CHANNEL, EVENTS, Entities, catch_up
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import without_spark
from sfcdc_assets_tests.simulated_clock import SimulatedClock

NAMES = ("First__c", "Second__c")
LAYERS = ("snapshot", "text_fields", "gap_reconciliation", "history", "current_state")


@pytest.fixture
def entities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Entities:
    """Two, copied and up to date."""
    monkeypatch.chdir(tmp_path)
    without_spark(monkeypatch, Random(1))
    made = Entities(Warehouse(str(tmp_path / "warehouse")), NAMES, records=4)
    made.day_zero()
    made.land(1)
    catch_up(made)
    return made


def status(of: Entities, now_ms: int = BEGUN_MS) -> dict[str, Any]:
    with using(SimulatedClock(now_ms)):
        return status_of(of.warehouse, load_settings()).to_json()


def out_of_reach(of: Entities, *layers: str) -> None:
    """Data files keep their size, and nothing of them can be read."""
    for layer in layers:
        for path in Path(of.warehouse.uri(layer)).rglob("*.parquet"):
            if path.parent.name != "_delta_log":
                path.write_bytes(bytes(path.stat().st_size))


def test_no_row_is_read_of_any_table_that_grows(entities: Entities) -> None:
    now_ms = BEGUN_MS + 1_000_000
    before = status(entities, now_ms)
    assert before["damaged"] == ()
    assert [(each["entity"], each["rows"], each["up_to_date"]) for each in before["entities"]] == [
        (name, 4, True) for name in NAMES
    ]
    assert before["entities"][0]["snapshot"] == {"number": 1, "rows": 4, "complete": True}
    out_of_reach(entities, "raw_events", *LAYERS)
    assert status(entities, now_ms) == before


def test_how_many_events_wait_and_for_how_long_is_in_the_report_and_so_are_the_sizes_of_tables(
    entities: Entities,
) -> None:
    caught_up = status(entities)["entities"][0]
    assert (caught_up["waiting_events"], caught_up["lag_seconds"]) == (0, 0.0)
    assert caught_up["sizes"]["current_state"]["rows"] == 4
    first = entities.position + 1
    entities.land(1)
    now_ms = BEGUN_MS + first * 1000 + 90_000
    with using(SimulatedClock(now_ms)):
        report = status_of(entities.warehouse, load_settings())
    assert [(each.waiting_events, each.lag_seconds) for each in report.entities] == [(EVENTS, 90.0), (EVENTS, 89.0)]
    found = {
        sample.labels.get("entity", sample.labels.get("layer")): sample.value
        for family in text_string_to_metric_families(metrics_text(report))
        if family.name in ("sfcdc_entity_waiting_events", "sfcdc_layer_bytes")
        for sample in family.samples
    }
    assert found[NAMES[0]] == EVENTS
    for layer in (*LAYERS, "raw_events"):
        files = Path(entities.warehouse.uri(layer)).rglob("*.parquet")
        sizes = [path.stat().st_size for path in files if path.parent.name != "_delta_log"]
        assert 0 <= found.get(layer, 0) <= sum(sizes)
    assert found["raw_events"] > 0


def test_events_whose_times_cannot_be_read_wait_for_an_unknown_time_and_hide_nothing_else(entities: Entities) -> None:
    entities.land(1)
    out_of_reach(entities, "raw_events")
    (first, _) = status(entities)["entities"]
    assert (first["waiting_events"], first["lag_seconds"], first["rows"]) == (None, None, 4)


def test_each_table_of_an_entity_is_opened_once(entities: Entities, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Counter[str]()
    take = Handles.take

    def noted(handles: Handles, uri: str, log: Any) -> Any:
        opened[Path(uri).relative_to(entities.warehouse.folder).as_posix()] += 1
        return take(handles, uri, log)

    monkeypatch.setattr(Handles, "take", noted)
    status(entities)
    of_entities = {f"{layer}/{name}": 1 for layer in LAYERS for name in NAMES}
    assert {table: count for table, count in opened.items() if "/" in table} == of_entities
    assert opened["raw_events"] == 2, "how far it is, and whether its files are there: once for all entities"
    assert "schemas" in opened


def test_entries_are_read_only_where_one_is_open(entities: Entities) -> None:
    ledger = Ledger.open_or_create(entities.warehouse, NAMES[0])
    ledger.note(
        [NewSuspect("001", Reason.GAP_UPDATE, 3, None), NewSuspect("002", Reason.DRIFT, 4, None)], CHANNEL, 9, 1
    )
    (first, _) = status(entities)["entities"]
    assert first["open_suspects"] == {Reason.GAP_UPDATE: 1, Reason.DRIFT: 1}
    ledger = Ledger.open_or_create(entities.warehouse, NAMES[0])
    ledger.heal(ledger.open_suspects(), {"001": 5, "002": 5}, 2)
    out_of_reach(entities, "gap_reconciliation")
    found = status(entities)
    assert found["entities"][0]["open_suspects"] == {}
    assert found["damaged"] == ()


def test_what_an_older_release_noted_nothing_of_is_read(entities: Entities) -> None:
    before = status(entities)
    for name in NAMES:
        state, taken = CurrentState.open(entities.warehouse, name), Snapshots.open(entities.warehouse, name)
        assert state is not None
        assert taken is not None
        state.table.append(state.table.schema.empty_table(), {"counted batch": 0}, {})
        taken.table.append(taken.table.schema.empty_table(), {"whole": 0}, {})
    after = status(entities)
    versions = {each["entity"]: each["version"] + 1 for each in before["entities"]}
    assert [each | {"version": versions[each["entity"]]} for each in before["entities"]] == list(after["entities"])


def test_a_table_that_is_damaged_is_named_and_the_others_are_reported(entities: Entities) -> None:
    next(Path(entities.warehouse.uri(f"history/{NAMES[0]}")).glob("*.parquet")).unlink()
    found = status(entities)
    assert [each["table"] for each in found["damaged"]] == [f"history/{NAMES[0]}"]
    assert [(bool(each["damaged"]), each["rows"]) for each in found["entities"]] == [(True, 4), (False, 4)]
