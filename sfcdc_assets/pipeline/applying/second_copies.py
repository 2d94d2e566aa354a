"""Events that were published twice, by their headers.

Copies of an event have its uuid and its record ids; events ungrouped from one may share the uuid alone. Few events have
a copy, and texts of all of them side by side take most of what the driver holds of a large batch: so a number is made
of each, and only events with the same number are compared.
"""

from __future__ import annotations

import polars as pl

COLUMNS = ("position", "event_id", "record_ids")
_SAME = ["event_id", "records"]


def second_copies(events: pl.DataFrame, older: pl.DataFrame) -> frozenset[int]:
    """Positions of those of the events (`COLUMNS`) that are copies of an older one, or of one of them at a lower
    position."""
    numbers, known = _numbers(events), _numbers(older)
    alike = numbers.is_duplicated() | numbers.is_in(known.implode())
    if not alike.any():
        return frozenset()
    suspects = _named(events.filter(alike))
    seen = _named(older.filter(known.is_in(numbers.implode())))
    first = suspects.join(seen, on=_SAME, how="anti").unique(_SAME, keep="first", maintain_order=True)
    return frozenset(suspects.join(first, on="position", how="anti")["position"].to_list())


def _numbers(events: pl.DataFrame) -> pl.Series:
    """A hash of each event's uuid and record ids: equal ones have the same."""
    return events.select(pl.struct("event_id", _records()).hash().alias("number"))["number"]


def _named(events: pl.DataFrame) -> pl.DataFrame:
    return events.sort("position").select("position", "event_id", _records())


def _records() -> pl.Expr:
    return pl.col("record_ids").list.join(",").alias("records")
