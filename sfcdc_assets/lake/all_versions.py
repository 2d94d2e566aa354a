"""All versions of an entity's records: the superseded ones of `history` and the current ones of `current_state`."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sfcdc_assets.lake import current_state, history
from sfcdc_assets.lake.checkpoint import Checkpoint
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse

IS_VERSION = "_change_type is not null"
"""Of a record that has none only the Id is known."""


def all_versions(
    warehouse: Warehouse, entity: str, predicate: str | None = None, columns: Sequence[str] | None = None
) -> pa.Table | None:
    """The versions that a predicate selects (on columns that both tables have), in no order, with the columns of
    `history` or these of them; `_valid_to` and `_superseded_at` are null for the current ones. None when the entity has
    no tables."""
    rows = Table.open(warehouse, current_state.name_of(entity))
    if rows is None:
        return None
    wanted = f" and ({predicate})" if predicate else ""
    of_rows = None if columns is None else [name for name in columns if name in rows.schema.names]
    current = rows.scan(of_rows, IS_VERSION + wanted)
    past = Table.open(warehouse, history.name_of(entity))
    if past is None:
        return current
    checkpoint = Checkpoint.of(rows, channel="")
    superseded = past.scan(columns, checkpoint.part(history.ENDS_AT) + wanted)
    arrays = [
        current[field.name] if field.name in current.column_names else pa.nulls(current.num_rows, field.type)
        for field in superseded.schema
    ]
    return pa.concat_tables([superseded, pa.table(arrays, schema=superseded.schema)])


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
