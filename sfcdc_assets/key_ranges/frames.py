"""Arrow tables: as polars frames, and small ones together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

import polars as pl
import pyarrow as pa


def arrow_frame(table: pa.Table) -> pl.DataFrame:
    """Return an Arrow table as polars."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


@lru_cache(maxsize=256)
def empty_rows(schema: pa.Schema) -> pl.DataFrame:
    """No rows, with the polars types of a table's Arrow schema: one frame for all who ask, as frames never change."""
    return arrow_frame(pa.Table.from_batches([], schema))  # an empty array is made by a look whether pandas has it


def gathered(tables: Iterable[pa.Table], rows: float = float("inf"), size: float = float("inf")) -> Iterator[pa.Table]:
    """Yield tables, small ones together: as soon as there are so many rows, or bytes. None without rows."""
    some: list[pa.Table] = []
    rows_left, bytes_left = rows, size
    for table in tables:
        if not table.num_rows:
            continue
        some.append(table)
        rows_left, bytes_left = rows_left - table.num_rows, bytes_left - table.nbytes
        if rows_left <= 0 or bytes_left <= 0:
            yield pa.concat_tables(some)
            some, rows_left, bytes_left = [], rows, size
    if some:
        yield pa.concat_tables(some)
