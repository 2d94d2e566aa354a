"""What SQLite has to know beside its own functions to compare, order and show an org's values.

`sf_fold(x)` is a text without case, for equality. `sf_sort(x)` is what a text is ordered by: English locales order by
the UTF-8 of the upper-case letters (https://developer.salesforce.com/docs/atlas.en-us.soql_sosl.meta/soql_sosl/
sforce_api_calls_soql_select_orderby.htm); the collation `sf` does so for MIN and MAX. What is no text stays as it is.
`sf_hash(text)` is a number that stays the same. `sf_format(type, scale, x)` is a value as a user of the locale en_US
sees it, in UTC. `sf_formula(formula, now, values ...)` is the value of a formula field. `sf_now()`, the org's time in
epoch ms, is the one function whose value changes (database.py).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time

from sfcdc_assets.emulator.formulas.evaluation import formula_value

SqlValue = str | int | float | None


def fold(value: SqlValue) -> SqlValue:
    """Return a text in lower case."""
    return value.lower() if isinstance(value, str) else value


def sort_key(value: SqlValue) -> SqlValue:
    """Return a text in upper case."""
    return value.upper() if isinstance(value, str) else value


def in_order(one: str, other: str) -> int:
    """Negative, zero or positive, as the first text comes before the second, is the same, or comes after it."""
    left, right = one.upper(), other.upper()
    return (left > right) - (left < right)


def stable_hash(value: str) -> int:
    """CRC-32 of the text."""
    return zlib.crc32(value.encode())


def localized(kind: str, scale: int, value: SqlValue) -> SqlValue:
    """`$44,000.00`, `4/10/2025, 3:31 PM`: the examples of https://developer.salesforce.com/docs/
    atlas.en-us.soql_sosl.meta/soql_sosl/sforce_api_calls_soql_select_format.htm. Texts stay as they are."""
    if isinstance(value, str):
        if kind == "date":
            return _day(date.fromisoformat(value))
        return _clock(time.fromisoformat(value)) if kind == "time" else value
    if value is None:
        return None
    if kind == "datetime":
        moment = datetime.fromtimestamp(value // 1000, UTC)
        return f"{_day(moment)}, {_clock(moment)}"
    number = f"{abs(value):,.{0 if kind == 'int' else scale}f}"
    sign = "-" if value < 0 else ""
    return f"{sign}${number}" if kind == "currency" else f"{sign}{number}%" if kind == "percent" else sign + number


def _day(day: date) -> str:
    return f"{day.month}/{day.day}/{day.year}"


def _clock(moment: datetime | time) -> str:
    return f"{(moment.hour - 1) % 12 + 1}:{moment.minute:02d} {'AM' if moment.hour < 12 else 'PM'}"


SQL_FUNCTIONS: Mapping[str, tuple[int, Callable[..., SqlValue]]] = {
    "sf_fold": (1, fold),
    "sf_sort": (1, sort_key),
    "sf_hash": (1, stable_hash),
    "sf_format": (3, localized),
    "sf_formula": (-1, formula_value),
}
"""By the name in SQL: the number of arguments (-1: any) and what computes it. Same arguments, same value."""
