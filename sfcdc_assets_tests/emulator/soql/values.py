"""Single values by SOQL's documented semantics: how they compare, order, and are shown."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

from sfcdc_assets_tests.emulator.soql.org_facts import CHOICES, NOW, date_text
from sfcdc_assets_tests.emulator.soql.queries import Literal

_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def folded(value: Any) -> Any:
    """Text without case."""
    return value.lower() if isinstance(value, str) else value


def sort_key(kind: str, name: str, value: Any) -> Any:
    """English locales order by capitals; picklists by their list, what is not in it last."""
    if kind == "picklist":
        choices = CHOICES[name]
        return (choices.index(value) if value in choices else len(choices), value.upper())
    return value.upper() if isinstance(value, str) and kind not in {"id", "reference"} else value


def equals(value: Any, literal: Literal) -> bool:
    """`=`: no case, an empty text is null, a date literal means any moment of its span."""
    if literal.is_date_literal:
        return value is not None and span_order(value, literal.text) == 0
    return bool(folded(value) == (folded(literal.value) if literal.value != "" else None))


def compares(value: Any, operator: str, literal: Literal) -> bool:
    """`<`, `<=`, `>`, `>=` of what is not null."""
    if literal.is_date_literal:
        order = span_order(value, literal.text)
    else:
        left, right = (each.upper() if isinstance(each, str) else each for each in (value, literal.value))
        order = (left > right) - (left < right)
    return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[operator]


def span_order(value: Any, literal: str) -> int:
    """-1 before the span of a date literal, 0 in it, 1 after it: by numbering all periods of its unit."""
    name, _, count_text = literal.upper().replace("FISCAL_", "").partition(":")
    words = {"YESTERDAY": "N_DAYS_AGO:1", "TODAY": "N_DAYS_AGO:0", "TOMORROW": "NEXT_N_DAYS:1"}
    if name in words:
        return span_order(value, words[name])
    if "_90_" in name:
        name, count_text = name.replace("90", "N"), "90"
    unit = next(each for each in ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR") if each in name)
    count = int(count_text or 1)
    last = 0 if unit == "DAY" else -1
    if name.endswith("AGO"):
        first, last = -count, -count
    elif name.startswith("THIS"):
        first, last = 0, 0
    elif name.startswith("NEXT"):
        first, last = 1, count
    else:
        first = -count
    place = period(unit, day_of(value)) - period(unit, day_of(NOW))
    return (place > last) - (place < first)


def period(unit: str, day: date) -> int:
    """The number of the period a day is in; weeks begin on Sunday."""
    if unit in _MONTHS:
        return (day.year * 12 + day.month - 1) // _MONTHS[unit]
    return day.toordinal() // (7 if unit == "WEEK" else 1)


def day_of(value: str | int) -> date:
    """The day of a date or a moment."""
    return date.fromisoformat(value if isinstance(value, str) else date_text(value))


def part(function: str, value: str | int) -> int | str:
    """A date function."""
    day = day_of(value)
    number = day.timetuple().tm_yday
    hour = 0 if isinstance(value, str) else value % 86_400_000 // 3_600_000
    return {
        "CALENDAR_YEAR": day.year, "CALENDAR_QUARTER": (day.month + 2) // 3, "CALENDAR_MONTH": day.month,
        "FISCAL_YEAR": day.year, "FISCAL_QUARTER": (day.month + 2) // 3, "FISCAL_MONTH": day.month,
        "DAY_IN_MONTH": day.day, "DAY_IN_WEEK": day.isoweekday() % 7 + 1, "DAY_IN_YEAR": number,
        "DAY_ONLY": day.isoformat(), "HOUR_IN_DAY": hour, "WEEK_IN_MONTH": (day.day - 1) // 7 + 1,
        "WEEK_IN_YEAR": (number - 1) // 7 + 1,
    }[function]  # fmt: skip


def rest(kind: str, value: Any) -> Any:
    """A value as REST shows it."""
    if value is None:
        return None
    if kind == "datetime":
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "+0000")
    return f"{value}Z" if kind == "time" else value


def localized(kind: str, scale: int, value: Any) -> Any:
    """A value as FORMAT shows it to an American in Greenwich."""
    if value is None or kind not in {"int", "double", "currency", "percent", "date", "datetime", "time"}:
        return value
    if kind in {"date", "datetime"}:
        day = day_of(value)
        shown = f"{day.month}/{day.day}/{day.year}"
        return shown if kind == "date" else f"{shown}, {_clock(value // 60_000 % 1440)}"
    if kind == "time":
        hours, minutes = value.split(":")[:2]
        return _clock(int(hours) * 60 + int(minutes))
    number = format(abs(value), f",.{0 if kind == 'int' else scale}f")
    number = {"currency": f"${number}", "percent": f"{number}%"}.get(kind, number)
    return f"-{number}" if value < 0 else number


def _clock(minutes: int) -> str:
    half, rest_of_it = divmod(minutes, 720)
    return f"{rest_of_it // 60 or 12}:{minutes % 60:02d} {'PM' if half else 'AM'}"
