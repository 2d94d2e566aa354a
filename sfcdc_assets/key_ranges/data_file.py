"""Data files as the tasks write them: their size, their encoding, and the statistics that the log keeps of them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from sfcdc_assets.key_ranges.key_ranges import MAX_BYTES, MAX_ROWS, TARGET_BYTES, TARGET_ROWS

if TYPE_CHECKING:
    import pyarrow.dataset as ds

STATISTICS = (
    *("Id", "_position", "_refetch", "_valid_from", "_valid_to", "_superseded_at", "_batch"),
    *("record_id", "position"),
)
"""Columns whose least and greatest value the log keeps for each file."""
ROWS_IN_A_GROUP, ROWS_IN_A_PAGE = 32_768, 4_096
"""Of pages without a row that is asked for nothing is decompressed: `rows_above` looks for a few in each file."""
LOOKED_AT, DISTINCT = 1_000, 250
"""A column gets a dictionary if so many of its values, from all over the file, have at most so many distinct ones."""
LARGE = 500
"""Texts of more bytes than that on average are not looked at: they do not repeat."""


@dataclass(frozen=True)
class WrittenKeyRange:
    """A Parquet file written for a key range and not committed yet; `statistics` in Delta's JSON form."""

    path: str
    size: int
    rows: int
    statistics: str


def rows_of_files(paths: Sequence[str], schema: pa.Schema, filesystem: fs.FileSystem) -> ds.Dataset:
    """Return the rows of data files, to be read in this schema: what a file lacks is null, and view types, with which
    delta-rs writes files again, are plain ones. What is named in a list is no folder: no store is asked for it."""
    import pyarrow.dataset as ds  # noqa: PLC0415 - takes pandas with it, 45 MB of each process that only asks or looks

    return ds.dataset(list(paths), schema=schema, filesystem=filesystem, format="parquet")


def rows_where(
    source: ds.Dataset, wanted: pc.Expression, columns: Sequence[str] | None = None, batch_size: int = 131_072
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of data files that a condition selects, in the wanted columns, one file after another.

    Arrow asks the statistics of a file first. Where the file has view types, it compares its least and greatest value
    with a plain one, and refuses; the rows of such a file are compared then.
    """
    chosen = list(columns) if columns is not None else None
    for fragment in source.get_fragments():
        is_begun = False
        try:
            for rows in fragment.to_batches(source.schema, columns=chosen, filter=wanted, batch_size=batch_size):
                is_begun = True
                yield rows
        except pa.ArrowNotImplementedError:
            if is_begun:
                raise
            for rows in fragment.to_batches(source.schema, batch_size=batch_size):
                kept = rows.filter(wanted)
                yield kept if chosen is None else kept.select(chosen)


def write_files(
    rows: pa.Table, filesystem: fs.FileSystem, token: str = "", piece_bytes: int | None = None, changed: int = 1
) -> list[WrittenKeyRange]:
    """Write sorted rows as one file, or as several when one would have over `MAX_ROWS` or `MAX_BYTES`; with
    `piece_bytes` in pieces of so many where these are more than twice the rows that have `changed`: most of fewer the
    next such batch would write again, and beside a small piece's rows its file costs twice what they do.

    Files have names of their own (uuid, after the token of an attempt), so a task that runs twice leaves at most an
    orphan.
    """
    if not rows.num_rows:
        return []
    written: list[WrittenKeyRange] = []
    most_in_one = 2 * max(1, changed) * piece_bytes if piece_bytes is not None else MAX_BYTES
    pieces = 1 if rows.num_rows <= MAX_ROWS else -(-rows.num_rows // TARGET_ROWS)
    for part in _parts(rows, -(-rows.num_rows // pieces)):
        file = write_table(part, filesystem, token)
        if file.size <= min(most_in_one, MAX_BYTES) or part.num_rows == 1:
            written.append(file)
            continue
        target = piece_bytes if piece_bytes is not None and file.size > most_in_one else TARGET_BYTES
        filesystem.delete_file(file.path)
        smaller = -(-part.num_rows // -(-file.size // target))
        written += [write_table(each, filesystem, token) for each in _parts(part, smaller)]
    return written


def _parts(rows: pa.Table, step: int) -> Iterator[pa.Table]:
    return (rows.slice(start, step) for start in range(0, rows.num_rows, step))


def write_table(table: pa.Table, filesystem: fs.FileSystem, token: str = "") -> WrittenKeyRange:
    """Write rows as one file, with the statistics that the log keeps of it. Of one that cannot be written nothing
    stays."""
    path = f"{token}-{uuid.uuid4()}.parquet" if token else f"{uuid.uuid4()}.parquet"
    measured = [name for name in STATISTICS if name in table.column_names]
    with deleted_on_failure(filesystem, path), filesystem.open_output_stream(path) as sink:
        pq.write_table(
            table,
            sink,
            compression="zstd",
            # Arrow's own schema says nothing that Parquet's does not, and was half of a file of few rows.
            store_schema=False,
            row_group_size=ROWS_IN_A_GROUP,
            max_rows_per_page=ROWS_IN_A_PAGE,
            write_statistics=measured,
            use_dictionary=_repeating(table),
        )
        size = sink.tell()
    ends = {name: pc.min_max(table.column(name)).as_py() for name in measured}
    statistics = {
        "numRecords": table.num_rows,
        "minValues": {name: delta_json(end["min"]) for name, end in ends.items() if end["min"] is not None},
        "maxValues": {name: delta_json(end["max"]) for name, end in ends.items() if end["max"] is not None},
        "nullCount": {name: table.column(name).null_count for name in measured},
    }
    return WrittenKeyRange(path, size, table.num_rows, json.dumps(statistics))


@contextmanager
def deleted_on_failure(filesystem: fs.FileSystem, path: str) -> Iterator[None]:
    """Delete a file whose writing fails: on a full disk its beginning would take what is left."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            filesystem.delete_file(path)
        raise


def _repeating(table: pa.Table) -> list[str]:
    """Return the columns, as Parquet calls them, whose values repeat. For the others a dictionary is only work
    (docs/storage-layout.md, "Writing a key range")."""
    places = pa.array(np.linspace(0, table.num_rows - 1, min(LOOKED_AT, table.num_rows)).astype(np.int64))
    found = []
    for field in table.schema:
        column = table.column(field.name)
        if pa.types.is_list(field.type):
            found.append(f"{field.name}.list.element")  # names of fields
        elif column.nbytes < LARGE * len(column) and pc.count_distinct(column.take(places)).as_py() <= DISTINCT:
            found.append(field.name)
    return found


def delta_json(value: object) -> object:
    """Return a statistic in Delta's JSON form: times as ISO 8601 with microseconds in UTC."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value
