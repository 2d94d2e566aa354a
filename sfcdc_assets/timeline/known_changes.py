"""Changes that a read of their record has shown already, though their events come after it.

What was committed long before a record was read back is in what was read, and left out. An event of shortly before a
read may be of a transaction that ran on while it was made, so positions and times leave open which of the two is newer
(`apply/batch_events.py`). The record says it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from sfcdc_assets.timeline.suspect import Reason
from sfcdc_assets.timeline.version_columns import STANDS_AT


@dataclass(frozen=True)
class Known:
    """What a batch's changes are against the reads that their records' rows are of. `changes`: those that are left;
    `left_out`: an entry (`SUSPECTS`) for each that such a read has shown already; `if_blocked`: the same for those of
    `changes` that it has shown as well, unless one before them is applied."""

    changes: pl.DataFrame
    left_out: pl.DataFrame
    if_blocked: pl.DataFrame


def without_known(base: pl.DataFrame, changes: pl.DataFrame, perhaps_older: frozenset[int]) -> Known:
    """Tell the changes (`CHANGES`) apart that a read of their record has shown already.

    `base`: the key range's rows; `perhaps_older`: positions of events that came after a read of their entity or record
    and were committed shortly before it. A record is locked by the transaction that changes it, so one whose stamp is
    later than the commit of such an event holds what that one did, and on top of it the event would undo what no other
    one reports. Two times prove less than an order, so the record is read once more.

    After a change that is applied the row is of no read any more, and none that follows is compared. A row that is
    suspect stays what it is until it is read: of its changes all are, whatever batch they are in.
    """
    is_read = pl.col("_read_position") >= pl.col("_position")
    shown = base.filter(is_read).select(
        pl.col("Id").alias("record_id"),
        pl.col("_commit_timestamp").alias("stamp"),
        pl.col("_in_doubt").alias("is_suspect"),
        STANDS_AT.alias("stands_at"),
    )
    position = pl.col("position")
    is_known = position.is_in(list(perhaps_older)) & (pl.col("commit_timestamp") < pl.col("stamp"))
    met = (
        changes.sort("position", maintain_order=True)
        .join(shown, on="record_id", how="left", maintain_order="left")
        .with_columns(
            is_in_row=(position <= pl.col("stands_at")).fill_null(value=False), is_known=is_known.fill_null(value=False)
        )
    )
    is_first = (pl.col("is_known") | pl.col("is_in_row")).cast(pl.Int8).cum_min().over("record_id") == 1
    met = met.with_columns(
        is_known=pl.col("is_known") & ~pl.col("is_in_row"),
        is_first=is_first | pl.col("is_suspect").fill_null(value=False),
    )
    is_left_out = pl.col("is_known") & pl.col("is_first")
    detail = pl.format(
        "a read shows the record as of {}, which is later than the event", pl.col("stamp").dt.to_string("iso")
    )
    entry = (
        "record_id",
        pl.lit(Reason.SILENT_CHANGE.value).alias("reason"),
        "position",
        "commit_timestamp",
        detail.alias("detail"),
    )
    left_out, every = (met.filter(each).select(entry) for each in (is_left_out, pl.col("is_known")))
    if_blocked = every.join(left_out, on=["record_id", "position"], how="anti")
    return Known(met.filter(~is_left_out).select(changes.columns), left_out, if_blocked)


_READ = {"record_id": pl.String, "position": pl.Int64, "watermark": pl.Int64}


def without_read(base: pl.DataFrame, changes: pl.DataFrame, read: Sequence[tuple[str, int, int]]) -> pl.DataFrame:
    """Return the changes (`CHANGES`) but for those that a read-back stands for, each of which `read` names with its
    record, position and the watermark of the read-back. One that is not in the record's row of `base`, because the row
    was ahead of it, stands for nothing."""
    shown = base.select(pl.col("Id").alias("record_id"), pl.col("_read_position").alias("shown_at"))
    named = pl.DataFrame(read, schema=_READ, orient="row").join(shown, on="record_id")
    left_out = named.filter(pl.col("watermark") <= pl.col("shown_at"))
    return changes.join(left_out, on=["record_id", "position"], how="anti", maintain_order="left")
