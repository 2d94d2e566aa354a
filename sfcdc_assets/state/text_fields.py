"""Every known full value of a large text field, in position order: the rows of `text_fields/<Entity>`.

Hashed columns have none: a hash is no text, and `history` has it.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.state.leaves import WrittenLeaf
from sfcdc_assets.state.merge import empty_rows

TEXT_FIELDS = pa.schema(
    [
        ("record_id", pa.string()),
        ("field", pa.string()),
        ("position", pa.int64()),
        ("value", pa.string()),
        ("sha256", pa.string()),
        ("origin", pa.string()),
    ]
)
"""`sha256` is that of the value's UTF-8, in hex; null where the field was set to null. `origin`: `full` (an event
carried the value), `diff` (rebuilt and proven), `refetch` (read back), `snapshot` (day 0)."""


def texts_of_changes(changes: pl.DataFrame, rebuilt: pl.DataFrame, columns: Sequence[Column]) -> pl.DataFrame:
    """Rows for the large-text cells of applied changes (diffs already replaced by their values)."""
    names = {index: column.kept_from or column.name for index, column in enumerate(columns) if column.keeps_texts}
    cells = (
        changes.select("record_id", "position", "cells")
        .filter(pl.col("cells").list.len() > 0)
        .explode("cells")
        .unnest("cells")
        .filter(pl.col("column").is_in(list(names)))
    )
    from_diffs = rebuilt.select("record_id", "position", "column", pl.lit("diff").alias("origin"))
    marked = cells.join(from_diffs, on=["record_id", "position", "column"], how="left", maintain_order="left")
    return _shaped(
        marked.select(
            "record_id",
            _named(names),
            "position",
            pl.col("s").alias("value"),
            pl.col("origin").fill_null("full"),
        )
    )


def _named(names: Mapping[int, str]) -> pl.Expr:
    """The column's name for its index. `replace_strict` with nothing to replace keeps the index's type."""
    if not names:
        return pl.lit(None, pl.String).alias("field")
    return pl.col("column").replace_strict(names, return_dtype=pl.String).alias("field")


def texts_of_reads(reads: pl.DataFrame, columns: Sequence[Column], origin: str, before: pl.DataFrame) -> pl.DataFrame:
    """Rows for the large texts of rows read from the org, at the reads' positions. A null is a row where it ends a text
    of `before` (the table's rows)."""
    names = [column.name for column in columns if column.keeps_texts]
    fields = {column.name: column.kept_from or column.name for column in columns}
    place = ["Id", "_position", "_unread"]
    long = reads.select(*place, *names).unpivot(names, index=place)
    long = long.filter(~pl.col("_unread").list.contains(pl.col("variable")).fill_null(False))
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


def no_texts() -> pl.DataFrame:
    """No rows of `TEXT_FIELDS`."""
    frame = pl.from_arrow(TEXT_FIELDS.empty_table())
    assert isinstance(frame, pl.DataFrame)
    return frame


def _shaped(rows: pl.DataFrame) -> pl.DataFrame:
    hashes = [None if text is None else hashlib.sha256(text.encode()).hexdigest() for text in rows["value"]]
    # An object without large texts leaves columns without a type of their own.
    shape = empty_rows(TEXT_FIELDS).schema
    return rows.with_columns(pl.Series("sha256", hashes, pl.String)).select(shape.names()).cast(shape)


def write_texts(rows: pl.DataFrame, filesystem: fs.FileSystem) -> WrittenLeaf | None:
    """Write rows, sorted by record and position, as one Parquet file; None when there are none."""
    if rows.is_empty():
        return None
    ordered = rows.sort("record_id", "position")
    path = f"texts-{uuid.uuid4()}.parquet"
    with filesystem.open_output_stream(path) as sink:
        pq.write_table(ordered.to_arrow().cast(TEXT_FIELDS), sink, compression="zstd", row_group_size=8192)
    statistics = {
        "numRecords": ordered.height,
        "minValues": {"record_id": ordered["record_id"][0], "position": ordered["position"].min()},
        "maxValues": {"record_id": ordered["record_id"][-1], "position": ordered["position"].max()},
        "nullCount": {"record_id": 0, "position": 0},
    }
    return WrittenLeaf(path, filesystem.get_file_info(path).size, ordered.height, json.dumps(statistics))
