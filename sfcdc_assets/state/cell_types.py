"""Which member of a cell holds a column's value, and what it becomes in the table."""

from __future__ import annotations

import polars as pl

from sfcdc_assets.change_events.columns import ColumnType

FROM_MEMBER: dict[ColumnType, tuple[str, pl.DataType]] = {
    ColumnType.STRING: ("s", pl.String()),
    ColumnType.DOUBLE: ("d", pl.Float64()),
    ColumnType.INT: ("l", pl.Int32()),
    ColumnType.BOOLEAN: ("l", pl.Boolean()),
    ColumnType.DATE: ("l", pl.Date()),
    ColumnType.TIMESTAMP: ("l", pl.Datetime("us", "UTC")),
}
"""Column type -> member of `changes.CELL`, polars type."""
