"""Values in the conditions that a table is asked with, which delta-rs reads as SQL of DataFusion."""

from __future__ import annotations

from datetime import UTC, datetime


def literal(text: str) -> str:
    """Write a text as a literal, whatever its characters."""
    return "'" + text.replace("'", "''") + "'"


def literal_time(moment: datetime) -> str:
    """Write a time as a literal of microseconds. SQL's own has nanoseconds, with which no statistics of a file can be
    compared."""
    return f"arrow_cast('{moment.astimezone(UTC).isoformat()}', 'Timestamp(Microsecond, Some(\"UTC\"))')"
