"""Arrow tables as polars frames."""

from __future__ import annotations

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
