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
from sfcdc_assets.key_ranges.key_ranges import overlapping
from sfcdc_assets.lake.delta.data_files import NewFile
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

    Files that another client left overlapping are separated where they are touched. Memory holds the rows of one range.
    Raises `ConcurrentCommit` after any commit since the table was opened.
    """
    found = {file.path: file for file in table.files()}
    ranges = overlapping(id_ranges(list(found.values())))
    firsts = [files[0].first for files in ranges]
    new = arrow_frame(rows.select(table.schema.names))
    concerned: dict[int, list[str]] = defaultdict(list)
    for record_id in {*new[ID], *gone}:
        concerned[max(bisect_right(firsts, record_id) - 1, 0)].append(record_id)
    added: list[NewFile] = []
    with _deleted_on_failure(filesystem, added):
        for place, ids in sorted(concerned.items()):
            paths = [file.path for file in ranges[place]] if ranges else []
            wanted = pl.Series(ID, ids, pl.String)
            kept = arrow_frame(table.read_files(paths, table.schema.names)).filter(~pl.col(ID).is_in(wanted.implode()))
            range_rows = pl.concat([kept, new.filter(pl.col(ID).is_in(wanted.implode()))]).sort(ID)
            for piece in _pieces(range_rows, rows_per_file):
                path = f"range-{uuid.uuid4()}.parquet"
                plain = pa.schema([field.remove_metadata() for field in table.schema])
                added.append(write_file(filesystem, path, piece.to_arrow().cast(plain), table.column_statistics()))
        removed = [found[file.path] for place in concerned for file in (ranges[place] if ranges else ())]
        table.swap_files(added, removed, {WRITER: 1, **transactions}, {})


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
