"""A value of one column type as another: what a field's older values become when its type is changed in the org.

A value converts when the new type holds all that it says; else it is refused, and kept where its own type is (see
`reshape`). Values are cells: dates are days since 1970-01-01, timestamps microseconds UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from math import isfinite
from typing import Any

from sfcdc_assets.change_events.column_types import ColumnType, value_text
from sfcdc_assets.runtime.times import EPOCH

CellValue = str | int | float | bool | None

_DAY_US = 86_400_000_000
_INT_LIMIT = 2**31
_EPOCH = date(1970, 1, 1)
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_BOOLEANS = {"true": True, "false": False}


def convert(value: Any, old: ColumnType, new: ColumnType) -> CellValue:
    """Return the value in the new type. Raises `ValueError` when it does not fit without loss."""
    same: CellValue = value
    if value is None or old is new:
        return same
    if new is ColumnType.STRING:
        return value_text(old, value)
    conversion = _CONVERSIONS.get((old, new))
    if conversion is None:
        raise ValueError(f"a {old} is no {new}")
    return conversion(value)


def widens(old: ColumnType, new: ColumnType) -> bool:
    """Return whether every value of the old type converts to the new one."""
    return (old, new) in _WIDENING or new is ColumnType.STRING


def int_of(value: int | float) -> int:
    """Return a whole number of 32 bits. Raises `ValueError`."""
    if value != value // 1 or not -_INT_LIMIT <= value < _INT_LIMIT:
        raise ValueError(f"{value} is not an integer of 32 bits")
    return int(value)


def _text_number(value: str) -> float:
    if not _NUMBER.fullmatch(value):
        raise ValueError("the text is no number")
    number = float(value)
    if not isfinite(number):
        raise ValueError("the text is a number too large")
    return number


def _text_boolean(value: str) -> bool:
    if value.lower() not in _BOOLEANS:
        raise ValueError("the text is neither true nor false")
    return _BOOLEANS[value.lower()]


def _text_date(value: str) -> int:
    return (date.fromisoformat(value) - _EPOCH).days


def _text_timestamp(value: str) -> int:
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError("the text is a time without its zone")
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("the text is a time outside of the years 1 to 9999") from None
    return (moment - EPOCH) // timedelta(microseconds=1)


def _day_of(value: int) -> int:
    if value % _DAY_US:
        raise ValueError("the time of day would be lost")
    return value // _DAY_US


_WIDENING = {(ColumnType.INT, ColumnType.DOUBLE), (ColumnType.DATE, ColumnType.TIMESTAMP)}
_CONVERSIONS: dict[tuple[ColumnType, ColumnType], Callable[[Any], CellValue]] = {
    (ColumnType.INT, ColumnType.DOUBLE): float,
    (ColumnType.DOUBLE, ColumnType.INT): int_of,
    (ColumnType.DATE, ColumnType.TIMESTAMP): lambda value: value * _DAY_US,
    (ColumnType.TIMESTAMP, ColumnType.DATE): _day_of,
    (ColumnType.STRING, ColumnType.INT): lambda value: int_of(_text_number(value)),
    (ColumnType.STRING, ColumnType.DOUBLE): _text_number,
    (ColumnType.STRING, ColumnType.BOOLEAN): _text_boolean,
    (ColumnType.STRING, ColumnType.DATE): _text_date,
    (ColumnType.STRING, ColumnType.TIMESTAMP): _text_timestamp,
}
