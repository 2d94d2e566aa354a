"""Arrow tables as polars frames."""

from __future__ import annotations

import polars as pl
import pyarrow as pa


def arrow_frame(table: pa.Table) -> pl.DataFrame:
    """Return an Arrow table as polars."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def empty_rows(schema: pa.Schema) -> pl.DataFrame:
    """No rows, with the polars types of a table's Arrow schema."""
    return arrow_frame(schema.empty_table())
