"""Column types: what a table's column holds, and every form in which its values appear on their way there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Any, Literal

import pyarrow as pa

from sfcdc_assets.change_events.value_text import boolean_text, date_text, number_text, timestamp_text
from sfcdc_assets.runtime.foreign_text import unicode_text


class ColumnType(StrEnum):
    """What a table's column holds."""

    BOOLEAN = "boolean"
    INT = "int"
    """32 bits."""
    DOUBLE = "double"
    """double, currency, percent (50.0 is 50 %)."""
    DATE = "date"
    TIMESTAMP = "timestamp"
    """Microseconds, UTC."""
    STRING = "string"
    """Everything else: ids of 18 characters, multi-select `a;b`, time `HH:mm:ss.SSS`."""


@dataclass(frozen=True)
class Forms:
    """The forms of one type's values.

    `arrow`: in tables and files. `member`: which member of a cell (`state.changes.CELL`) has it: `s`tring, `d`ouble or
    `l`ong. `cell`: the Arrow type that its cells are cast to from `arrow`; dates are days, timestamps microseconds of
    the epoch. `text`: the one text of a cell's value. `from_json`: from REST's JSON to what `arrow` takes; raises
    `ValueError` or `OverflowError` for a value that is not of the type, or that no reader of a table could show.
    """

    arrow: pa.DataType
    member: Literal["s", "d", "l"]
    cell: pa.DataType
    text: Callable[[Any], str]
    from_json: Callable[[Any], Any]


def _json_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("not true or false")
    return value


def _json_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError("not a finite number")
    return float(value)


def _json_integer(value: Any) -> int:
    if _json_number(value) != value // 1:
        raise ValueError("not a whole number")
    return int(value)


def _json_timestamp(value: Any) -> dt.datetime:
    """2024-01-02T03:04:05.000+0000. Raises `OverflowError` for a moment outside of the years 1 to 9999 in UTC."""
    moment = dt.datetime.fromisoformat(str(value))
    return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)


def _json_text(value: Any) -> str:
    if isinstance(value, str):
        return unicode_text(value)
    if isinstance(value, bool):
        return boolean_text(value)
    if isinstance(value, int | float):
        return str(value) if isinstance(value, int) else number_text(_json_number(value))
    raise ValueError("not a text")


FORMS: Mapping[ColumnType, Forms] = {
    ColumnType.BOOLEAN: Forms(pa.bool_(), "l", pa.bool_(), boolean_text, _json_boolean),
    ColumnType.INT: Forms(pa.int32(), "l", pa.int32(), str, _json_integer),
    ColumnType.DOUBLE: Forms(pa.float64(), "d", pa.float64(), number_text, _json_number),
    ColumnType.DATE: Forms(pa.date32(), "l", pa.int32(), date_text, lambda value: dt.date.fromisoformat(str(value))),
    ColumnType.TIMESTAMP: Forms(pa.timestamp("us", tz="UTC"), "l", pa.int64(), timestamp_text, _json_timestamp),
    ColumnType.STRING: Forms(pa.string(), "s", pa.string(), str, _json_text),
}


def value_text(column_type: ColumnType, value: Any) -> str:
    """Return the text of a cell's value (not null): the same whichever way the value came.

    `true`; `-12`; `0.1`; `3233` for 3233.0; `1969-12-31`; `2024-01-02T03:04:05.000Z`; a text is its own.
    """
    return FORMS[column_type].text(value)
