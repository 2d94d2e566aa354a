"""Date literals such as TODAY and LAST_N_DAYS:7: spans of whole days by the org's clock, in UTC; weeks start on Sunday.

All of https://developer.salesforce.com/docs/atlas.en-us.soql_sosl.meta/soql_sosl/
sforce_api_calls_soql_select_dateformats.htm. Fiscal periods are those of the calendar: the org's year starts
in January.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from sfcdc_assets.runtime.times import utc

_NAMED_DAYS = {"YESTERDAY": -1, "TODAY": 0, "TOMORROW": 1}
_PERIOD = re.compile(r"(LAST|THIS|NEXT)_(?:(\d+)_|(N)_)?(?:FISCAL_)?(DAY|WEEK|MONTH|QUARTER|YEAR)S?(?::(\d+))?")
_AGO = re.compile(r"N_(?:FISCAL_)?(DAY|WEEK|MONTH|QUARTER|YEAR)S_AGO:(\d+)")
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def date_span(literal: str, now: int) -> tuple[date, date]:
    """First day of the span and the first day after it; `now` is epoch ms. Raises ValueError beyond the calendar."""
    today = utc(now).date()
    try:
        unit, first, last = _periods(literal.upper())
        return _start(unit, today, first), _start(unit, today, last + 1)
    except OverflowError:
        raise ValueError(f"{literal} is beyond the calendar") from None


def midnight(day: date) -> int:
    """Epoch ms of the start of the day, UTC."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000


def _periods(literal: str) -> tuple[str, int, int]:
    """Return the unit of a literal, and its first and last period, counted from the current one."""
    if literal in _NAMED_DAYS:
        return "DAY", _NAMED_DAYS[literal], _NAMED_DAYS[literal]
    if found := _AGO.fullmatch(literal):
        return found[1], -int(found[2]), -int(found[2])
    if not (found := _PERIOD.fullmatch(literal)):
        raise ValueError(f"{literal} is no date literal")
    which, unit = found[1], found[4]
    count = int(found[2] or found[5] or 1)
    if which == "THIS":
        return unit, 0, 0
    if which == "NEXT":
        return unit, 1, count
    # The last n days have today among them; the last n weeks, months ... end before the current one.
    return unit, -count, 0 if unit == "DAY" else -1


def _start(unit: str, today: date, shift: int) -> date:
    """Return the first day of the period that is so many periods after the current one."""
    if unit == "DAY":
        return today + timedelta(days=shift)
    if unit == "WEEK":
        return today - timedelta(days=(today.weekday() + 1) % 7) + timedelta(weeks=shift)
    length = _MONTHS[unit]
    months = ((today.year * 12 + today.month - 1) // length + shift) * length
    return date(months // 12, months % 12 + 1, 1)
