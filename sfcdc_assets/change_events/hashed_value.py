"""Values of hashed columns: from any form a value comes in to the hash of its one text; null stays null."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from sfcdc_assets.change_events.column_types import FORMS, value_text
from sfcdc_assets.change_events.columns import Column


def hashed_cell(column: Column, value: Any) -> str | None:
    """Return the hash of a cell's value of the column's plain type (see `column_types.value_text`)."""
    if value is None or value == "":
        return None
    assert column.hash_key is not None
    return column.hash_key.digest(value_text(column.plain_type, value))


def hashing(column: Column, convert: Callable[[Any], Any]) -> Callable[[Any], str | None]:
    """`convert`, then the hash. What does not fit is reported without the value."""

    def hashed(value: Any) -> str | None:
        try:
            return hashed_cell(column, convert(value))
        except (ValueError, OverflowError):
            raise ValueError(f"its value is no {column.plain_type}") from None

    return hashed


def hashed_array(column: Column, values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Hashes of values of the column's plain type."""
    forms = FORMS[column.plain_type]
    listed = values.cast(forms.arrow).cast(forms.cell).to_pylist()
    return pa.array([hashed_cell(column, value) for value in listed], pa.string())


def plain_arrow_type(column: Column) -> pa.DataType:
    """Return the type that the column's values are read as before any is hashed."""
    return FORMS[column.plain_type].arrow
