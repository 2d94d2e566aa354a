"""A warehouse with a cut over small tables of some entities: what needs names and columns, and no org."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from sfcdc_assets.change_events.columns import ID_COLUMN
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables import current_state, history
from sfcdc_assets.lake.tables.consistent_cuts import Cut, add_cut
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.open_cut import cuts_at
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.sql.dialects import Dialect, script
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts
from sfcdc_assets.timeline.version_columns import current_state_schema, history_schema

CHANNEL = "/data/ChangeEvents"


def small_warehouse(folder: Path, entities: Sequence[str]) -> Warehouse:
    """The warehouse, with one cut."""
    warehouse = Warehouse(str(folder))
    for entity in entities:
        CurrentState.open_or_create(warehouse, entity, [ID_COLUMN])
        Table.open_or_create(warehouse, history.name_of(entity), history_schema([ID_COLUMN]))
    note_cut(warehouse, entities, 1)
    return warehouse


def note_cut(warehouse: Warehouse, entities: Sequence[str], position: int) -> None:
    """Another cut over the tables as they are."""
    names = [name for entity in entities for name in (current_state.name_of(entity), history.name_of(entity))]
    opened = {name: Table.open(warehouse, name) for name in names}
    versions = {name: table.version for name, table in opened.items() if table is not None}
    now = datetime.fromtimestamp(clock.now_ms() / 1000 + 0.001, UTC)
    assert add_cut(warehouse, Cut(CHANNEL, position, None, versions), now)


def add_records(warehouse: Warehouse, entity: str, record_ids: Iterable[str]) -> None:
    """Live records that were made."""
    schema = current_state_schema([ID_COLUMN])
    same = {"_is_deleted": False, "_in_doubt": False, "_change_type": "CREATE", "_batch": 0}
    rows = pa.Table.from_pylist([{"Id": record_id, **same} for record_id in record_ids], schema)
    write_deltalake(warehouse.uri(current_state.name_of(entity)), rows, mode="append")


def tables_of(warehouse: Warehouse) -> TablesOfCuts:
    """Those of its newest cut."""
    return TablesOfCuts(warehouse, cuts_at(warehouse))


def statements(tables: TablesOfCuts, dialect: Dialect, schema: str) -> list[str]:
    """Those of a script, without comments; each is one line."""
    lines = script(tables, dialect, schema).split("\n")
    return [line.removesuffix(";") for line in lines if line and not line.startswith("--")]
