"""Every known full value of a large text field, in position order: the rows of `text_fields/<Entity>`.

Hashed columns have none: a hash is no text, and `history` has it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.key_ranges.frames import empty_rows

TEXT_FIELDS = pa.schema(
    [
        ("record_id", pa.string()),
        ("field", pa.string()),
        ("position", pa.int64()),
        ("value", pa.string()),
        ("sha256", pa.string()),
        ("origin", pa.string()),
        ("_batch", pa.int64()),
    ]
)
"""`sha256` is that of the value's UTF-8, in hex; null where the field was set to null. `origin`: `full` (an event
carried the value), `diff` (rebuilt and proven), `refetch` (read back), `snapshot` (day 0). `_batch`: the batch that
wrote the row."""


def texts_of_changes(changes: pl.DataFrame, rebuilt: pl.DataFrame, columns: Sequence[Column]) -> pl.DataFrame:
    """Rows for the large-text cells of changes, diffs already replaced by their values; a diff that is not among the
    `rebuilt` shows no value."""
    names = {index: column.kept_from or column.name for index, column in enumerate(columns) if column.keeps_texts}
    if not names or changes.is_empty():
        return empty_rows(TEXT_FIELDS)
    cells = (
        changes.select("record_id", "position", "cells", "diff_columns")
        .filter(pl.col("cells").list.len() > 0)
        .explode("cells")
        .unnest("cells")
        .filter(pl.col("column").is_in(list(names)))
    )
    from_diffs = rebuilt.select("record_id", "position", "column", pl.lit("diff").alias("origin"))
    marked = cells.join(from_diffs, on=["record_id", "position", "column"], how="left", maintain_order="left")
    return _shaped(
        marked.filter(
            pl.col("origin").is_not_null()
            | ~pl.col("diff_columns").list.contains(pl.col("column")).fill_null(value=False)
        ).select(
            "record_id",
            pl.col("column").replace_strict(names, return_dtype=pl.String).alias("field"),
            "position",
            pl.col("s").alias("value"),
            pl.col("origin").fill_null("full"),
        )
    )


def texts_of_reads(reads: pl.DataFrame, columns: Sequence[Column], origin: str, before: pl.DataFrame) -> pl.DataFrame:
    """Rows for the large texts of rows read from the org, at the reads' positions. A null is a row where it ends a text
    of `before` (the table's rows)."""
    names = [column.name for column in columns if column.keeps_texts]
    fields = {column.name: column.kept_from or column.name for column in columns}
    keys = ["Id", "_position", "_unread"]
    long = reads.select(*keys, *names).unpivot(names, index=keys)
    long = long.filter(~pl.col("_unread").list.contains(pl.col("variable")).fill_null(value=False))
    ended = before.select("Id", *names).unpivot(names, index="Id").drop_nulls("value").select("Id", "variable")
    nulls = long.filter(pl.col("value").is_null()).join(ended, on=["Id", "variable"], how="semi")
    long = pl.concat([long.drop_nulls("value"), nulls])
    return _shaped(
        long.select(
            pl.col("Id").alias("record_id"),
            pl.col("variable").replace_strict(fields, return_dtype=pl.String).alias("field"),
            pl.col("_position").alias("position"),
            pl.col("value").cast(pl.String),
            pl.lit(origin).alias("origin"),
        )
    )


def _shaped(rows: pl.DataFrame) -> pl.DataFrame:
    hashes = [None if text is None else hashlib.sha256(text.encode()).hexdigest() for text in rows["value"]]
    # An object without large texts leaves columns without a type of their own.
    shape = empty_rows(TEXT_FIELDS).schema
    shaped = rows.with_columns(pl.Series("sha256", hashes, pl.String), pl.lit(None, pl.Int64).alias("_batch"))
    return shaped.select(shape.names()).cast(shape)
