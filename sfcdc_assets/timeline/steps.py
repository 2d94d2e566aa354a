"""Steps: what happens to a key range's records one after another, each record's row first, as one frame.

A record's steps are in the order of positions; of one position, events come before reads. A step has a header (what
kind it is, when, by whom) and a place in the frame it comes from, where its values are.
"""

from __future__ import annotations

import polars as pl

from sfcdc_assets.timeline.version_columns import COMMIT, SEEN, STAMP

SETS_ALL = ("CREATE", "UNDELETE")
"""Changes that carry every column: nothing of the row before them matters."""

READABLE = (*SETS_ALL, "UPDATE", "DELETE")
"""Changes that say what they did."""

UNKNOWN = "UNKNOWN"
"""What an event did that cannot be read, or is of a kind that is not known."""
_GAPS_OF_THE_LIVING = ("GAP_CREATE", "GAP_UPDATE", "GAP_UNDELETE")

ROW, CHANGE, READ = "row", "change", "read"
"""Where a step comes from."""


def steps_of(rows: pl.DataFrame, changes: pl.DataFrame, reads: pl.DataFrame) -> pl.DataFrame:
    """One row for each step of the records that take one, numbered by `step`; `at` is its place in its source.

    `rows`: of `current_state`; `changes`: `CHANGES` with `blocked`; `reads`: columns, `READ_COLUMNS`, `read_type`.
    """
    # Mostly there are only changes, or only reads, and a query of no rows takes as long as one of a few.
    news = _of_changes(changes) if reads.is_empty() else _of_reads(reads)
    if not (changes.is_empty() or reads.is_empty()):
        news = pl.concat([_of_changes(changes), news])
    concerned = news.select(pl.col("Id")).unique()
    start = _of_rows(rows).join(concerned, on="Id", how="semi", maintain_order="left")
    first = pl.col("source") == ROW
    ordered = pl.concat([start, news]).sort("Id", ~first, "_position", "order", "at", maintain_order=True)
    return ordered.with_row_index("step")


# Expressions that every batch needs are made once: making one takes as long as what it does to a few rows.
_OF_ROW = (
    pl.col("Id"),
    pl.col("_position"),
    pl.lit(-1, pl.Int8).alias("order"),
    pl.lit(ROW).alias("source"),
    pl.col("at"),
    pl.col("_change_type"),
    pl.col("_valid_from").alias("time"),
    pl.col("_dated_by"),
    pl.col("_commit_timestamp"),
    pl.col("_commit_user"),
    pl.col("_change_origin"),
    pl.col("_transaction_key"),
    pl.col("_read_position"),
    pl.col("_is_deleted"),
    pl.col("_deleted_reason").fill_null("").alias("reason"),
    pl.lit(False).alias("blocked"),
)


def _of_rows(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_row_index("at").select(_OF_ROW)


_KIND = pl.col("change_type")
# An update shows that the record is there; one that was not blocked may be older than a read of its deleted row.
_IS_THERE = _KIND.is_in(SETS_ALL) | (pl.col("blocked") & _KIND.is_in(("UPDATE", *_GAPS_OF_THE_LIVING)))
_DELETED = pl.when(_KIND.is_in(("DELETE", "GAP_DELETE"))).then(pl.lit(True)).when(_IS_THERE).then(pl.lit(False))
_OF_CHANGE = (
    pl.col("record_id").alias("Id"),
    pl.col("position").alias("_position"),
    pl.lit(0, pl.Int8).alias("order"),
    pl.lit(CHANGE).alias("source"),
    pl.col("at"),
    pl.when(_KIND.is_in(READABLE) | _KIND.str.starts_with("GAP_"))
    .then(_KIND)
    .otherwise(pl.lit(UNKNOWN))
    .alias("_change_type"),
    pl.col("commit_timestamp").alias("time"),
    # What a read may hide has no transaction, and its time is one at which the org had been asked.
    pl.when(pl.col("transaction_key").is_null()).then(pl.lit(SEEN)).otherwise(pl.lit(COMMIT)).alias("_dated_by"),
    pl.col("commit_timestamp").alias("_commit_timestamp"),
    pl.col("commit_user").alias("_commit_user"),
    pl.col("change_origin").alias("_change_origin"),
    pl.col("transaction_key").alias("_transaction_key"),
    pl.lit(None, pl.Int64).alias("_read_position"),
    _DELETED.alias("_is_deleted"),
    pl.when(_DELETED).then(pl.lit("deleted")).when(~_DELETED).then(pl.lit("")).alias("reason"),
    pl.col("blocked"),
)


def _of_changes(changes: pl.DataFrame) -> pl.DataFrame:
    return changes.with_row_index("at").select(_OF_CHANGE)


def _of_reads(reads: pl.DataFrame) -> pl.DataFrame:
    user = pl.col("LastModifiedById") if "LastModifiedById" in reads.columns else pl.lit(None, pl.String)
    deleted = pl.col("_is_deleted").fill_null(value=False)
    stamp = pl.col("_system_modstamp")
    is_gone = stamp.is_null()
    reason = (
        pl.when(~deleted)
        .then(pl.lit(""))
        .when(is_gone)
        .then(pl.lit("hard_deleted"))
        .when(pl.col("_master_record_id").is_not_null())
        .then(pl.lit("merged"))
        .otherwise(pl.lit("deleted"))
    )
    return reads.with_row_index("at").select(
        "Id",
        "_position",
        pl.lit(1, pl.Int8).alias("order"),
        pl.lit(READ).alias("source"),
        "at",
        pl.when(deleted).then(pl.lit("DELETE")).otherwise(pl.col("read_type")).alias("_change_type"),
        pl.col("dated").alias("time"),
        pl.when(pl.col("dated") == stamp).then(pl.lit(STAMP)).otherwise(pl.lit(SEEN)).alias("_dated_by"),
        pl.col("_system_modstamp").alias("_commit_timestamp"),
        pl.when(is_gone).then(pl.lit(None, pl.String)).otherwise(user).alias("_commit_user"),
        pl.lit(None, pl.String).alias("_change_origin"),
        pl.lit(None, pl.String).alias("_transaction_key"),
        pl.col("_position").alias("_read_position"),
        deleted.alias("_is_deleted"),
        reason.alias("reason"),
        pl.lit(False).alias("blocked"),
    )
