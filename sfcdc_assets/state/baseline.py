"""Baseline: a complete snapshot's rows take the place of the table's.

The rows stand for every event up to the snapshot's pin (guarantee 8); later events are folded onto them by the same
merge as ever. A row of the table that the org no longer shows, not even in its recycle bin, was hard-deleted.
"""

from __future__ import annotations

import polars as pl


def baseline(existing: pl.DataFrame, snapshot: pl.DataFrame, position: int) -> pl.DataFrame:
    """The leaf's rows after a snapshot pinned at `position`, in `existing`'s columns.

    `existing`: rows of the table (may be none); `snapshot`: rows of the pages (Id, columns, `_is_deleted`,
    `_system_modstamp`, `_master_record_id`). A row of the table that stands for a later position and is not in the
    snapshot was created after the pin and stays as it is.
    """
    read = snapshot.unique("Id", keep="last", maintain_order=True)
    deleted = pl.col("_is_deleted").fill_null(False)
    reason = pl.when(pl.col("_master_record_id").is_not_null()).then(pl.lit("merged")).otherwise(pl.lit("deleted"))
    user = pl.col("LastModifiedById") if "LastModifiedById" in read.columns else pl.lit(None, pl.String)
    rows = read.with_columns(
        deleted.alias("_is_deleted"),
        pl.when(deleted).then(reason).alias("_deleted_reason"),
        pl.lit(False).alias("_in_doubt"),
        pl.lit(position, pl.Int64).alias("_position"),
        pl.col("_system_modstamp").alias("_commit_timestamp"),
        user.alias("_commit_user"),
        pl.lit(None, pl.String).alias("_transaction_key"),
        *(pl.lit(None, dtype).alias(name) for name, dtype in existing.schema.items() if name not in _known(read)),
    ).select(existing.columns)
    missing = existing.join(read.select("Id"), on="Id", how="anti")
    vanished = (pl.col("_position") <= position) & ~pl.col("_is_deleted")
    missing = missing.with_columns(
        pl.when(vanished).then(pl.lit("hard_deleted")).otherwise(pl.col("_deleted_reason")).alias("_deleted_reason"),
        pl.when(vanished).then(pl.lit(position, pl.Int64)).otherwise(pl.col("_position")).alias("_position"),
        (pl.col("_is_deleted") | vanished).alias("_is_deleted"),
        pl.when(vanished).then(pl.lit(False)).otherwise(pl.col("_in_doubt")).alias("_in_doubt"),
    )
    return pl.concat([rows, missing]).sort("Id")


def _known(read: pl.DataFrame) -> set[str]:
    made = {"_deleted_reason", "_in_doubt", "_position", "_commit_timestamp", "_commit_user", "_transaction_key"}
    return set(read.columns) | made
