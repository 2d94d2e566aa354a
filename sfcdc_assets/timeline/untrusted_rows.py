"""Records that a snapshot asked for and whose rows are not believed.

They stand in the snapshot's own partition, in the commit that completes it, so that a rebuild finds them as the first
application did. Such a row has its Id, and in `_unread` first `SAYS_NOTHING`, then the reason and its detail: whatever
another row of the snapshot tells about the record, and that there is none, counts for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sfcdc_assets.timeline.suspect import SUSPECTS, Reason

SAYS_NOTHING = "*"
"""In the place of a column's name: the row says nothing about its record at all."""


@dataclass(frozen=True)
class UntrustedRecord:
    """A record of which a snapshot's row, or its absence, is not believed, and why."""

    record_id: str
    reason: Reason
    detail: str

    @property
    def unread(self) -> list[str]:
        """What stands in `_unread` for it."""
        return [SAYS_NOTHING, self.reason.value, self.detail]


def believed(reads: pl.DataFrame, position: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows of a snapshot with a watermark at `position` that count, and the entries (`SUSPECTS`) about its
    other records."""
    marks = reads.filter(pl.col("_unread").list.first() == SAYS_NOTHING).unique("Id", keep="first", maintain_order=True)
    suspects = marks.select(
        pl.col("Id").alias("record_id"),
        pl.col("_unread").list.get(1, null_on_oob=True).alias("reason"),
        pl.lit(position, pl.Int64).alias("position"),
        pl.lit(None, pl.Datetime("us", "UTC")).alias("commit_timestamp"),
        pl.col("_unread").list.get(2, null_on_oob=True).alias("detail"),
    )
    return reads.join(marks.select("Id"), on="Id", how="anti"), suspects.cast(SUSPECTS)


def marked(rows: pl.DataFrame, suspected: pl.DataFrame) -> pl.DataFrame:
    """All rows, those of the `suspected` (`record_id`, `position`) marked as suspect. A record that has no row gets one
    with its Id alone, as of `position`: its fields are unknown, not null."""
    if suspected.is_empty():
        return rows
    wanted = suspected.select(pl.col("record_id").alias("Id"), pl.col("position").alias("_position"))
    wanted = wanted.unique("Id", keep="first", maintain_order=True)
    known = rows.join(wanted, on="Id", how="semi").with_columns(pl.lit(True).alias("_in_doubt"))
    unknown = wanted.join(rows, on="Id", how="anti").with_columns(
        pl.lit(False).alias("_is_deleted"), pl.lit(True).alias("_in_doubt")
    )
    others = rows.join(wanted, on="Id", how="anti")
    return pl.concat([others, known, unknown], how="diagonal").select(rows.columns)


@dataclass(frozen=True)
class VanishLimits:
    """Both must be exceeded: a share of the living rows, and a number, for small tables."""

    percent: float = 10.0
    rows: int = 20

    def exceeded(self, vanished: float, living: int) -> bool:
        """Return whether so many of the living rows may not vanish by one read."""
        return vanished > self.rows and vanished * 100 > self.percent * living
