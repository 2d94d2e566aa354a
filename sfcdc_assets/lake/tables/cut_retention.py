"""Which consistent cuts are kept: all of them at first, and fewer the older they are.

A cut that is not kept once is never kept again. Its files go with the maintenance after the one that forgot it, and
that is `GRACE` later: whoever has the cut open goes on reading it for so long.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import polars as pl

GRACE = timedelta(minutes=8)
"""Between two times of maintenance that forget cuts, at least: a little less than its schedule's ten minutes."""

COLUMNS = ("channel", "position", "applied_at")
"""Of `consistent_cuts`: what decides which of them are kept."""


@dataclass(frozen=True)
class CutRetention:
    """Every cut of the last `all_hours`, the last one of each minute for `minutes_hours`, the last one of each hour for
    `hours_hours`, and the last one of each day (UTC) for `days`. The newest of each channel is kept however old it is.
    Ages are those of `applied_at`."""

    days: int = 7
    hours_hours: float = 24.0
    minutes_hours: float = 2.0
    all_hours: float = 1.0

    def kept(self, cuts: pl.DataFrame, at: datetime) -> pl.Series:
        """Return whether each of the cuts (`COLUMNS`, in any order) is kept at a time."""
        at = at.astimezone(UTC)
        age = at - pl.col("applied_at")
        ordered = cuts.with_columns(
            by_time=pl.struct("applied_at", "position").rank("ordinal"),
            by_position=pl.struct("position", "applied_at").rank("ordinal"),
        )

        def is_last_of(every: str) -> pl.Expr:
            within = ("channel", pl.col("applied_at").dt.truncate(every))
            return pl.col("by_time") == pl.col("by_time").max().over(*within)

        is_newest = pl.col("by_position") == pl.col("by_position").max().over("channel")
        is_kept = (
            is_newest
            | (age <= timedelta(hours=self.all_hours))
            | ((age <= timedelta(hours=self.minutes_hours)) & is_last_of("1m"))
            | ((age <= timedelta(hours=self.hours_hours)) & is_last_of("1h"))
            | ((age <= timedelta(days=self.days)) & is_last_of("1d"))
        )
        return ordered.select(is_kept.fill_null(value=True).alias("is_kept"))["is_kept"]
