"""Functions of dates and moments, in GMT as the emulated org's users are. A null argument makes the result null."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Mapping
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TypeVar

from sfcdc_assets.emulator.formulas.value import FormulaError, Value, of_type

_DATE = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)")
_T = TypeVar("_T")
_MOMENT = re.compile(r"(\d{4})-(\d\d?)-(\d\d?) (\d\d):(\d\d):(\d\d)Z?")


def _day(value: Value) -> date:
    if isinstance(value, datetime):
        raise FormulaError("a date and time is no date")
    return of_type(date, value)


def _part(take: Callable[[date], int]) -> Callable[[Value], Value]:
    return lambda value: None if value is None else Decimal(take(_day(value)))


def _date(year: Value, month: Value, day: Value) -> Value:
    if year is None or month is None or day is None:
        return None
    return _made(date, *(int(of_type(Decimal, part)) for part in (year, month, day)))


def _date_value(value: Value) -> Value:
    if isinstance(value, datetime):
        return value.date()
    if value is None or isinstance(value, date):
        return value
    given = of_type(str, value)
    if not given:
        return None
    found = _DATE.fullmatch(given)
    if found is None:
        raise FormulaError(f"{given!r} is no date")
    return _made(date, *map(int, found.groups()))


def _moment_value(value: Value) -> Value:
    if value is None or isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    given = of_type(str, value).strip(" ")
    if not given:
        return None
    found = _MOMENT.fullmatch(given)
    if found is None:
        raise FormulaError(f"{given!r} is no date and time")
    return _made(datetime, *map(int, found.groups())).replace(tzinfo=UTC)


def _made(kind: Callable[..., _T], *parts: int) -> _T:
    try:
        return kind(*parts)
    except ValueError as error:
        raise FormulaError(str(error)) from error


def _add_months(value: Value, months: Value) -> Value:
    """Move a date by months; the last day of a month stays the last one (https://help.salesforce.com/s/articleView?
    id=sf.customize_functions_addmonths.htm)."""
    if value is None or months is None:
        return None
    start = of_type(date, value)
    if (start + timedelta(days=1)).day == 1:
        return _in_months(start + timedelta(days=1), months) - timedelta(days=1)
    return _in_months(start, months)


def _in_months(start: date, months: Value) -> date:
    year, month = divmod(start.year * 12 + start.month - 1 + int(of_type(Decimal, months)), 12)
    if not MINYEAR <= year <= MAXYEAR:
        raise FormulaError(f"there is no year {year}")
    return start.replace(year=year, month=month + 1, day=min(start.day, monthrange(year, month + 1)[1]))


DATE_FUNCTIONS: Mapping[str, tuple[int, int, Callable[..., Value]]] = {
    "DATE": (3, 3, _date),
    "DATEVALUE": (1, 1, _date_value),
    "DATETIMEVALUE": (1, 1, _moment_value),
    "YEAR": (1, 1, _part(lambda day: day.year)),
    "MONTH": (1, 1, _part(lambda day: day.month)),
    "DAY": (1, 1, _part(lambda day: day.day)),
    "WEEKDAY": (1, 1, _part(lambda day: day.isoweekday() % 7 + 1)),  # Sunday is 1
    "ADDMONTHS": (2, 2, _add_months),
}
"""By name: the least and the most arguments, and what computes it. TODAY and NOW are with what is evaluated."""
