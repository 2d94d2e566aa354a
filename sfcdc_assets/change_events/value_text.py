"""The one text of a value: the same whichever way the value came, so that texts and hashes of it can be compared."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from sfcdc_assets.change_events.columns import ColumnType

_EPOCH = date(1970, 1, 1)
_EPOCH_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def value_text(column_type: ColumnType, value: Any) -> str:
    """The text of a cell's value (`CellValue`, not null): dates are days, timestamps microseconds of the epoch.

    `true`; `-12`; `0.1`; `3233` for 3233.0; `1969-12-31`; `2024-01-02T03:04:05.000Z`; a text is its own.
    """
    return _TEXTS[column_type](value)


def boolean_text(value: bool) -> str:
    """`true` or `false`."""
    return "true" if value else "false"


def number_text(value: float) -> str:
    """The shortest plain decimal: 3233.0 is "3233", 1e21 has all its zeros, and there is one zero."""
    text = format(Decimal(repr(value + 0.0)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def date_text(days: int) -> str:
    """`1969-12-31` for -1."""
    return (_EPOCH + timedelta(days=days)).isoformat()


def timestamp_text(microseconds: int) -> str:
    """In UTC, to the millisecond, as Salesforce writes it."""
    moment = _EPOCH_TIME + timedelta(microseconds=microseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_TEXTS: dict[ColumnType, Callable[[Any], str]] = {
    ColumnType.BOOLEAN: boolean_text,
    ColumnType.INT: str,
    ColumnType.DOUBLE: number_text,
    ColumnType.DATE: date_text,
    ColumnType.TIMESTAMP: timestamp_text,
    ColumnType.STRING: str,
}
