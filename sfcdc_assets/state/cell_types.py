"""Which member of a cell holds a column's value, and what it becomes in the table."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.column_types import FORMS, ColumnType

FROM_MEMBER: Mapping[ColumnType, tuple[str, pl.DataType]] = {
    column_type: (forms.member, pl.DataFrame(pa.table({"_": pa.array([], forms.arrow)})).schema["_"])
    for column_type, forms in FORMS.items()
}
"""Column type -> member of `changes.CELL`, polars type."""
