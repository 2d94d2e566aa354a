"""What another engine needs to read one version of a table: exactly its files, and the columns that some of them lack.

A folder of Parquet files is not the table: it has files of earlier versions, of tasks that were killed, and rows of a
batch that was never committed. The log of the version and the entity's checkpoint say which rows count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from urllib.parse import unquote

import pyarrow as pa

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables import current_state, history, text_fields
from sfcdc_assets.lake.tables.entity_checkpoint import Checkpoint
from sfcdc_assets.lake.tables.open_cut import OpenCut
from sfcdc_assets.lake.warehouse import Warehouse

_ENDS_AT = {history.LAYER: history.ENDS_AT, text_fields.LAYER: "position"}
"""Tables that batches append to -> the column by which the checkpoint says which of their rows count."""


@dataclass(frozen=True)
class FilesOfPartition:
    """Files that share the values of the partition columns, which are in no file; their paths below the table."""

    values: Mapping[str, str | None]
    paths: tuple[str, ...]


@dataclass(frozen=True)
class ReadableTable:
    """One version of a table. `condition`: a row counts if this holds of it; None: every row does.

    `up_to`: of a table that batches append to, the checkpoint that the condition says; `ends_at`: the column by which.
    """

    name: str
    schema: pa.Schema
    files: tuple[FilesOfPartition, ...]
    condition: str | None = None
    up_to: Checkpoint | None = None
    ends_at: str | None = None


def readable(table: Table, condition: str | None = None) -> ReadableTable:
    """Return the version that a handle stands at. Raises `UnreadableTable` when files alone do not show its rows."""
    columns = table.partition_columns()
    by_values: dict[tuple[str | None, ...], list[str]] = defaultdict(list)
    for file in table.files():
        values = tuple(file.statistics.get(f"partition.{name}") for name in columns)
        by_values[tuple(None if value is None else str(value) for value in values)].append(unquote(file.path))
    files = tuple(
        FilesOfPartition(dict(zip(columns, values, strict=True)), tuple(paths)) for values, paths in by_values.items()
    )
    return ReadableTable(table.name, table.schema, files, condition)


def readable_of_cut(
    cut: OpenCut, entity: str, layers: Iterable[str], opened: Mapping[str, Table] = MappingProxyType({})
) -> dict[str, ReadableTable]:
    """Layer -> the entity's table at the cut's version. `opened`: layers that are open already.
    Raises `CutGone`, `UnreadableTable`."""
    name = current_state.name_of(entity)
    rows = opened.get(current_state.LAYER) or (Table(name, cut[name]) if name in cut else None)
    checkpoint = Checkpoint.of(rows, cut.cut.channel) if rows is not None else Checkpoint()
    found = {}
    for layer in layers:
        path = f"{layer}/{entity}"
        table = rows if rows is not None and path == name else opened.get(layer) or Table(path, cut[path])
        ends_at = _ENDS_AT.get(layer)
        if ends_at is None:
            found[layer] = readable(table)
        else:
            part = readable(table, checkpoint.part(ends_at))
            found[layer] = replace(part, up_to=checkpoint, ends_at=ends_at)
    return found


def readable_now(warehouse: Warehouse, name: str, condition: str | None = None) -> ReadableTable | None:
    """Return the newest version of a table that cuts do not name; None when there is no such table."""
    table = Table.open(warehouse, name)
    return readable(table, condition) if table is not None else None
