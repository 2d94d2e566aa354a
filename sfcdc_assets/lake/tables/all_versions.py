"""All versions of an entity's records: the superseded ones of `history` and the current ones of `current_state`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import ConcurrentCommit, TableDamaged
from sfcdc_assets.lake.tables import current_state, history
from sfcdc_assets.lake.tables.consistent_cuts import newest_cuts, was_made_after
from sfcdc_assets.lake.tables.entity_checkpoint import Checkpoint
from sfcdc_assets.lake.warehouse import Warehouse

IS_VERSION = "_change_type is not null"
"""Of a record that has none only the Id is known."""


ATTEMPTS = 20
"""How often the tables may move on while both are opened; a batch takes longer than to open them."""


def all_versions(
    warehouse: Warehouse, entity: str, predicate: str | None = None, columns: Sequence[str] | None = None
) -> pa.Table | None:
    """Return the versions that a predicate selects (on columns that both tables have), in no order, with the columns of
    `history` or these of them; `_valid_to` and `_superseded_at` are null for the current ones. None when the entity has
    no tables. Whatever is committed meanwhile, both tables are of one moment: no version is missing or there twice.

    Raises `ConcurrentCommit` when others were faster `ATTEMPTS` times.
    """
    pair = _pair(warehouse, entity)
    if pair is None:
        return None
    rows, past = pair
    wanted = f" and ({predicate})" if predicate else ""
    of_rows = None if columns is None else [name for name in columns if name in rows.schema.names]
    current = rows.scan(of_rows, IS_VERSION + wanted)
    if past is None:
        return current
    checkpoint = Checkpoint.of(rows, channel="")
    superseded = past.scan(columns, checkpoint.part(history.ENDS_AT) + wanted)
    arrays = [
        current[field.name] if field.name in current.column_names else pa.nulls(current.num_rows, field.type)
        for field in superseded.schema
    ]
    return pa.concat_tables([superseded, pa.table(arrays, schema=superseded.schema)])


def _pair(warehouse: Warehouse, entity: str) -> tuple[Table, Table | None] | None:
    """`current_state` and `history` of one moment. A batch that goes back removes rows of `history` after its commit,
    and a rebuild replaces them before, so `history` goes with the `current_state` that was there before and after it
    was opened. Where a rebuild ended between its commits, the newest cut has both as they were before it."""
    name = current_state.name_of(entity)
    for _ in range(ATTEMPTS):
        rows = Table.open(warehouse, name)
        if rows is None:
            return None
        past = history.open_if_there(warehouse, entity)
        after = Table.open(warehouse, name)
        if after is None or after.version != rows.version:
            continue
        if past is None:
            return rows, None
        return (past.is_built and (rows, past.table)) or _of_newest_cut(warehouse, entity) or (rows, past.table)
    raise ConcurrentCommit(name, f"it moved on {ATTEMPTS} times while it was opened")


def _of_newest_cut(warehouse: Warehouse, entity: str) -> tuple[Table, Table] | None:
    names = (current_state.name_of(entity), history.name_of(entity))
    for cut in newest_cuts(warehouse):
        if all(name in cut.tables for name in names):
            with suppress(TableDamaged):
                found = [Table.open(warehouse, name, cut.tables[name]) for name in names]
                rows, past = found
                if rows is not None and past is not None and not was_made_after(cut, rows):
                    return rows, past
    return None


def open_history(warehouse: str, entity: str) -> pa.Table:
    """All versions of the entity's records in the warehouse at this root, `_valid_to` null for the current ones.

    Raises `LookupError` when it has no such tables.
    """
    checkpoint = Warehouse(warehouse)
    found = all_versions(checkpoint, entity)
    if found is None:
        known = ", ".join(checkpoint.entities(current_state.LAYER)) or "none yet"
        raise LookupError(f"{entity} has no tables in {warehouse}. Entities that have: {known}")
    return found
