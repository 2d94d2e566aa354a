"""Rows read from the org: what they tell beside the values, and what is missing from a snapshot (guarantee 8)."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.columns import Column, arrow_schema
from sfcdc_assets.timeline.version_columns import STANDS_AT

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
"""What a read tells beside the values: among it its watermark and when it was begun, by our clock. `_system_modstamp`
null: the org has no such record any more. `_unread`: columns that the read says nothing about, because the object had
no such field then or hid it; in a snapshot also what `untrusted_rows` says."""


def read_schema(columns: Sequence[Column]) -> pa.Schema:
    """Arrow schema of rows read from the org: the entity's columns, then `READ_COLUMNS`."""
    return pa.schema([*arrow_schema(columns), *READ_COLUMNS])


def missing_from(snapshot: pl.DataFrame, rows: pl.DataFrame, waiting: pl.DataFrame, watermark: int) -> pl.DataFrame:
    """Return reads of what is not there: records that a snapshot with a watermark at `watermark` does not show, not
    even in the recycle bin.

    These are living rows, suspect rows, and records with events that waited (`waiting`: their `Id`). A row that stands
    for a later position was created after the watermark.
    """
    waits = pl.col("Id").is_in(waiting["Id"].implode())
    covered = rows.filter(watermark >= STANDS_AT)
    gone = covered.filter(~pl.col("_is_deleted") | pl.col("_in_doubt") | waits)
    never_seen = waiting.select("Id").unique(maintain_order=True).join(rows, on="Id", how="anti")
    marks = {
        "_is_deleted": pl.lit(True),
        "_system_modstamp": pl.lit(None, pl.Datetime("us", "UTC")),
        "_master_record_id": pl.lit(None, pl.String),
        "_position": pl.lit(watermark, pl.Int64),
        "_read_at": pl.lit(snapshot["_read_at"].max() if snapshot.height else None, pl.Datetime("us", "UTC")),
        "_unread": pl.lit(None, pl.List(pl.String)),
    }
    missing = pl.concat([gone, never_seen], how="diagonal").join(snapshot.select("Id"), on="Id", how="anti")
    return missing.with_columns(**marks).select(snapshot.columns)
