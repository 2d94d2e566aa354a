"""Data files below a table that its newest version does not have: of older versions, or never committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from sfcdc_assets.lake.delta.commit_protocol import LOG
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.warehouse import Warehouse

_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def dead_files_with(
    warehouse: Warehouse,
    name: str,
    columns: Sequence[str] | None,
    holds: Callable[[pa.Table], bool],
    *,
    folder: str = "",
    since: float = 0.0,
) -> list[str]:
    """Return those in whose rows something is found, in order; memory holds a part of one.

    `columns`: what is read of them, None: all; a file without these is none. `folder`: below the table. `since`: those
    that were written then or later (epoch seconds by the clock of the files). One that cannot be read is still being
    written.
    """
    table = Table.open(warehouse, name)
    if table is None:
        return []
    filesystem = warehouse.filesystem(name)
    live = {unquote(file.path) for file in table.files()}
    below = fs.FileSelector(folder.rstrip("/"), recursive=True, allow_not_found=True)
    found = [
        info.path.lstrip("/")
        for info in filesystem.get_file_info(below)
        if info.type is fs.FileType.File and (info.mtime_ns is None or info.mtime_ns / 1e9 >= since)
    ]
    dead = [each for each in found if each.endswith(".parquet") and LOG not in each.split("/") and each not in live]
    return [each for each in sorted(dead) if _holds(filesystem, each, columns, holds)]


def _holds(
    filesystem: fs.FileSystem, path: str, columns: Sequence[str] | None, holds: Callable[[pa.Table], bool]
) -> bool:
    try:
        with filesystem.open_input_file(path) as source:
            parquet = pq.ParquetFile(source)
            present = parquet.schema_arrow.names
            if columns is not None and not set(columns) <= set(present):
                return False
            batches = parquet.iter_batches(columns=list(columns or present))
            return any(holds(_plain(pa.Table.from_batches([batch]))) for batch in batches)
    except (OSError, pa.ArrowException):
        return False


def _plain(rows: pa.Table) -> pa.Table:
    fields = [of.with_type(_VIEWS.get(of.type, of.type)) for of in rows.schema]
    return rows.cast(pa.schema(fields))


def delete_dead_files(warehouse: Warehouse, name: str, paths: Iterable[str]) -> int:
    """Delete them; returns how many were there."""
    filesystem, done = warehouse.filesystem(name), 0
    for path in paths:
        with suppress(FileNotFoundError):
            filesystem.delete_file(path)
            done += 1
    return done
