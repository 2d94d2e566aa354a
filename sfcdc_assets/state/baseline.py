"""Rows read from the org take the place of a table's rows (guarantee 8).

A read row stands for every event up to its pin; later events are folded onto it by the same merge as ever. It ends any
doubt about its record.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.columns import Column, arrow_schema
from sfcdc_assets.state.distrust import in_doubt

READ_COLUMNS = pa.schema(
    [
        ("_is_deleted", pa.bool_()),
        ("_system_modstamp", pa.timestamp("us", "UTC")),
        ("_master_record_id", pa.string()),
        ("_position", pa.int64()),
        ("_read_at", pa.timestamp("us", "UTC")),
        ("_unread", pa.list_(pa.string())),
    ]
)
"""What a read tells beside the values: among it its pin and when it was begun, by our clock. `_system_modstamp` null:
the org has no such record any more. `_unread`: columns that the read says nothing about, because the object had no such
field then or hid it; in a snapshot also what `state.distrust` says."""


def read_schema(columns: Sequence[Column]) -> pa.Schema:
    """Arrow schema of rows read from the org: the entity's columns, then `READ_COLUMNS`."""
    return pa.schema([*arrow_schema(columns), *READ_COLUMNS])


def table_rows(reads: pl.DataFrame, like: pl.DataFrame) -> pl.DataFrame:
    """Reads (Id, columns, `READ_COLUMNS`; the last of an Id counts) as rows of the table, in `like`'s columns.

    `like` are the table's rows before; a column that was not read (a retired one) keeps its value from there.
    """
    deleted = pl.col("_is_deleted").fill_null(False)
    reason = (
        pl.when(pl.col("_system_modstamp").is_null())
        .then(pl.lit("hard_deleted"))
        .when(pl.col("_master_record_id").is_not_null())
        .then(pl.lit("merged"))
        .otherwise(pl.lit("deleted"))
    )
    user = pl.col("LastModifiedById") if "LastModifiedById" in reads.columns else pl.lit(None, pl.String)
    made = {
        "_is_deleted": deleted,
        "_deleted_reason": pl.when(deleted).then(reason),
        "_in_doubt": pl.lit(False),
        "_commit_timestamp": pl.col("_system_modstamp"),
        "_commit_user": user,
        "_transaction_key": pl.lit(None, pl.String),
    }
    rows = with_unread(reads.unique("Id", keep="last", maintain_order=True), like)
    return rows.with_columns(**made).select(pl.col(name).cast(dtype) for name, dtype in like.schema.items())


def with_unread(reads: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Reads (one an Id) with the values of `before` in the columns that they say nothing about."""
    unread = set(reads["_unread"].explode().drop_nulls().to_list()) & set(before.columns)
    if not unread:
        return reads
    kept = before.select("Id", *(pl.col(name).alias(f"{name} before") for name in sorted(unread)))
    joined = reads.join(kept, on="Id", how="left", maintain_order="left")
    says_nothing = {name: pl.col("_unread").list.contains(name).fill_null(False) for name in unread}
    return joined.with_columns(
        pl.when(says_nothing[name]).then(pl.col(f"{name} before")).otherwise(pl.col(name)).alias(name)
        for name in sorted(unread)
    ).select(reads.columns)


def apply_reads(base: pl.DataFrame, reads: pl.DataFrame) -> pl.DataFrame:
    """`base` with the rows of `reads` in place of its own; sorted by Id.

    A read older than what the row already stands for is left out, unless the row is in doubt. A record the org no
    longer has keeps its last values.
    """
    rows = table_rows(reads.sort("_position", maintain_order=True), base)
    stands = base.select("Id", pl.col("_position").alias("row_position"), pl.col("_in_doubt").alias("held"))
    newer = (
        rows.join(stands, on="Id", how="left", maintain_order="left")
        .filter(pl.col("row_position").is_null() | pl.col("held") | (pl.col("_position") >= pl.col("row_position")))
        .drop("row_position", "held")
    )
    gone = newer.filter(pl.col("_commit_timestamp").is_null())
    present = newer.join(gone.select("Id"), on="Id", how="anti")
    flags = ["_is_deleted", "_deleted_reason", "_in_doubt", "_position"]
    kept = gone.select("Id", *flags).join(base.drop(flags), on="Id", how="left").select(base.columns)
    others = base.join(newer.select("Id"), on="Id", how="anti")
    return pl.concat([others, present, kept]).sort("Id")


def baseline(
    existing: pl.DataFrame, snapshot: pl.DataFrame, position: int, distrusted: Sequence[str] = ()
) -> pl.DataFrame:
    """The leaf's rows after a snapshot pinned at `position`, in `existing`'s columns, sorted by Id.

    A row of the table that the org no longer shows, not even in its recycle bin, was hard-deleted. One that stands for
    a later position and is not in the snapshot was created after the pin and stays as it is. Of the `distrusted`
    records the snapshot is not believed: their rows stay as they are, in doubt.
    """
    held = in_doubt(existing, distrusted, position)
    rows = pl.concat([table_rows(snapshot, existing), held])
    missing = existing.join(rows.select("Id"), on="Id", how="anti")
    vanished = (pl.col("_position") <= position) & ~pl.col("_is_deleted")
    covered = pl.col("_position") <= position
    missing = missing.with_columns(
        pl.when(vanished).then(pl.lit("hard_deleted")).otherwise(pl.col("_deleted_reason")).alias("_deleted_reason"),
        pl.when(covered).then(pl.lit(position, pl.Int64)).otherwise(pl.col("_position")).alias("_position"),
        (pl.col("_is_deleted") | vanished).alias("_is_deleted"),
        (pl.col("_in_doubt") & ~covered).alias("_in_doubt"),
    )
    return pl.concat([rows, missing]).sort("Id")
