"""Date literals such as TODAY and LAST_N_DAYS:7: spans of whole days by the org's clock, in UTC; weeks start on
Sunday."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta


def date_span(literal: str, now: int) -> tuple[date, date]:
    """First day of the span and the first day after it; `now` is epoch ms. Raises ValueError beyond the calendar."""
    today = datetime.fromtimestamp(now // 1000, UTC).date()
    name, _, count_text = literal.upper().partition(":")
    count = int(count_text or 90)
    day = timedelta(days=1)
    try:
        match name:
            case "YESTERDAY":
                return today - day, today
            case "TODAY":
                return today, today + day
            case "TOMORROW":
                return today + day, today + 2 * day
            case "LAST_90_DAYS" | "LAST_N_DAYS":
                return today - count * day, today + day
            case "NEXT_90_DAYS" | "NEXT_N_DAYS":
                return today + day, today + (count + 1) * day
            case "N_DAYS_AGO":
                return today - count * day, today - (count - 1) * day
        which, _, period = name.partition("_")
        shift = {"LAST": -1, "THIS": 0, "NEXT": 1}[which]
        if period == "WEEK":
            sunday = today - timedelta(days=(today.weekday() + 1) % 7) + 7 * shift * day
            return sunday, sunday + 7 * day
        months = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}[period]
        first = (today.year * 12 + today.month - 1) // months * months + shift * months
        return _month(first), _month(first + months)
    except OverflowError:
        raise ValueError(f"{literal} is beyond the calendar") from None


def midnight(day: date) -> int:
    """Epoch ms of the start of the day, UTC."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000


def _month(months: int) -> date:
    return date(months // 12, months % 12 + 1, 1)
