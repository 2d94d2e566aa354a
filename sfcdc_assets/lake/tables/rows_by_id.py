"""Put rows in the place of others in a table with one row a record.

Its files cover ranges of Ids that do not overlap: a commit costs what it touches, and the Ids of new records lie
together.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import polars as pl
import pyarrow as pa
from pyarrow import fs

from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.key_ranges.key_ranges import IdRange, is_too_much, overlapping, to_look_into
from sfcdc_assets.key_ranges.sample import look_into_file
from sfcdc_assets.lake.delta.data_files import DataFile, NewFile
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.delta.written_file import write_file
from sfcdc_assets.lake.tables.current_state import id_ranges

ID = "Id"
WRITER = "rows by id"
"""Of two writers of a table that has no files yet, one is refused by this."""
ROWS_PER_FILE = 50_000
"""At most; a fuller file is cut in halves."""


def put_rows(
    table: Table,
    filesystem: fs.FileSystem,
    rows: pa.Table,
    gone: Sequence[str],
    transactions: Mapping[str, int],
    *,
    rows_per_file: int = ROWS_PER_FILE,
) -> None:
    """Put rows in the place of those with the same Id, add the others, and remove the records that are gone, in one
    commit with the transaction versions. `filesystem`: rooted at the table.

    Files that another client left overlapping are separated where they are touched. Where they are more than a task may
    hold, those are written again that hold one of the records, and maintenance separates them
    (`lake/maintenance/separate.py`). Memory holds the rows of one range, or of one such file. Raises `ConcurrentCommit`
    after any commit since the table was opened.
    """
    found = {file.path: file for file in table.files()}
    ranges = overlapping(id_ranges(list(found.values())))
    firsts = [files[0].first for files in ranges]
    new = arrow_frame(rows.select(table.schema.names))
    concerned: dict[int, list[str]] = defaultdict(list)
    for record_id in {*new[ID], *gone}:
        concerned[max(bisect_right(firsts, record_id) - 1, 0)].append(record_id)
    added: list[NewFile] = []
    removed: list[DataFile] = []
    with _deleted_on_failure(filesystem, added):
        for place, ids in sorted(concerned.items()):
            wanted = pl.Series(ID, ids, pl.String)
            put = new.filter(pl.col(ID).is_in(wanted.implode()))
            for files in _read_together(ranges[place] if ranges else (), filesystem, wanted):
                kept = arrow_frame(table.read_files([file.path for file in files], table.schema.names))
                range_rows = pl.concat([kept.filter(~pl.col(ID).is_in(wanted.implode())), put]).sort(ID)
                for piece in _pieces(range_rows, rows_per_file):
                    added.append(write_range(table, filesystem, piece))
                removed += [found[file.path] for file in files]
                put = put.clear()
        table.swap_files(added, removed, {WRITER: 1, **transactions}, {})


def _read_together(
    files: Sequence[IdRange], filesystem: fs.FileSystem, wanted: pl.Series
) -> Iterator[Sequence[IdRange]]:
    """Yield the files of a range that are read at a time, so that they can be written again without the `wanted`
    records: all of them, or one by one, if they are more than may be held, those that hold such a record. What is new
    goes with the first."""
    if not is_too_much(files) or len(files) == 1:
        yield files
        return
    may_hold = to_look_into(files, wanted)
    held = [file for file in may_hold if look_into_file(file.path, filesystem, wanted).concerned]
    yield from ([file] for file in held) if held else ((),)


def write_range(table: Table, filesystem: fs.FileSystem, rows: pl.DataFrame) -> NewFile:
    """Write rows of a table with one row a record, in the order of their Ids, as a file of it that no commit names
    yet."""
    plain = pa.schema([field.remove_metadata() for field in table.schema])
    path = f"range-{uuid.uuid4()}.parquet"
    return write_file(filesystem, path, rows.to_arrow().cast(plain), table.column_statistics())


def _pieces(rows: pl.DataFrame, most: int) -> Iterator[pl.DataFrame]:
    """Yield the rows in equal parts of `most` at most; none of no rows."""
    count = -(-rows.height // most)
    for number in range(count):
        start, end = rows.height * number // count, rows.height * (number + 1) // count
        yield rows.slice(start, end - start)


@contextmanager
def _deleted_on_failure(filesystem: fs.FileSystem, written: Sequence[NewFile]) -> Iterator[None]:
    """Delete files that no commit names."""
    try:
        yield
    except BaseException:
        for file in written:
            with suppress(OSError):
                filesystem.delete_file(file.path)
        raise
