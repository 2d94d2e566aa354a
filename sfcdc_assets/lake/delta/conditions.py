"""Values in the conditions that a table is asked with, which delta-rs reads as SQL of DataFusion."""

from __future__ import annotations

from datetime import UTC, datetime


def literal(text: str) -> str:
    """Write a text as a literal, whatever its characters."""
    return "'" + text.replace("'", "''") + "'"


def literal_time(moment: datetime) -> str:
    """Write a time as a literal of microseconds, as columns have it. SQL's own has nanoseconds: a time that these do
    not reach (before 1677, after 2262) is an error, and who deletes rows compares no statistics of a file with it."""
    return f"arrow_cast('{moment.astimezone(UTC).isoformat()}', 'Timestamp(Microsecond, Some(\"UTC\"))')"
