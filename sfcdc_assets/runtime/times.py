"""Milliseconds since 1970 and moments in UTC: either is exactly the other, in whole milliseconds.

Salesforce dates what it sends in milliseconds; tables hold moments. `datetime.timestamp()` is a float of seconds: times
1,000 and cut off it is one millisecond short of many a moment.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def utc(ms: int) -> datetime:
    """Return the moment, in UTC, of epoch milliseconds. Raises `OverflowError` outside of the years 1 to 9999."""
    return EPOCH + ms * _MILLISECOND


def utc_or_none(ms: int | None) -> datetime | None:
    """Return the moment as `utc` does, None for None."""
    return None if ms is None else utc(ms)


def epoch_ms(moment: datetime) -> int:
    """Return a moment, of whatever time zone, in whole epoch milliseconds; what is finer is cut off. One without a time
    zone is in UTC: what strangers write may lack it."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // _MILLISECOND


def seconds_text(moment: datetime) -> str:
    """Return a moment as reports write it: ISO 8601, to the second."""
    return moment.isoformat(timespec="seconds")


def duration_text(seconds: float) -> str:
    """Return a time span as people read it: `8 s`, `3 min`, `2 h 10 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
