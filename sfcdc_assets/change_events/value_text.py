"""The one text of each kind of value, so that texts and hashes can be compared whichever way a value came."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

from sfcdc_assets.runtime.times import EPOCH

_EPOCH = date(1970, 1, 1)


def boolean_text(value: bool) -> str:  # noqa: FBT001 - a value, not a switch
    """Return `true` or `false`."""
    return "true" if value else "false"


def number_text(value: float) -> str:
    """Return the shortest plain decimal: 3233.0 is "3233", 1e21 has all its zeros, and there is one zero."""
    text = format(Decimal(repr(value + 0.0)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def bulk_number_text(value: float) -> str:
    """Return a number as Bulk API 2.0 writes it, which is how Java prints a double: 1.0, 0.001, 1.2345678E7, 1.0E-4."""
    if isinstance(value, int) or value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{int(exponent) + len(text) - 1}"


def date_text(days: int) -> str:
    """`1969-12-31` for -1."""
    return (_EPOCH + timedelta(days=days)).isoformat()


def timestamp_text(microseconds: int) -> str:
    """Return the time in UTC, to the millisecond, as Salesforce writes it."""
    moment = EPOCH + timedelta(microseconds=microseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
