"""Merge: a leaf's rows and its changes -> its new rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.columns import Column, ColumnType
from sfcdc_assets.state.fold import fold

_FROM_MEMBER: dict[ColumnType, tuple[str, pl.DataType | type[pl.DataType]]] = {
    ColumnType.STRING: ("s", pl.String),
    ColumnType.DOUBLE: ("d", pl.Float64),
    ColumnType.INT: ("l", pl.Int32),
    ColumnType.BOOLEAN: ("l", pl.Boolean),
    ColumnType.DATE: ("l", pl.Date),
    ColumnType.TIMESTAMP: ("l", pl.Datetime("us", "UTC")),
}


@dataclass(frozen=True)
class MergeCounts:
    """What a merge did, in records: new rows, rows changed, rows that became deleted, rows that came into doubt."""

    inserted: int
    updated: int
    deleted: int
    in_doubt: int


def merge(base: pl.DataFrame, changes: pl.DataFrame, columns: Sequence[Column]) -> tuple[pl.DataFrame, MergeCounts]:
    """New rows, sorted by Id, one for each record of `base` (columns of the table, in its order) or `changes`.

    A change at or before the position its row stands for is already in the row and is dropped: the row came from a
    later event or from a read pinned after it (guarantees 2 and 8). A deleted record keeps its row and last values. An
    update of a record that is not there makes a row in doubt: its other fields are unknown, not null.
    """
    stands_for = base.select(pl.col("Id").alias("record_id"), pl.col("_position").alias("row_position"))
    news = (
        changes.join(stands_for, on="record_id", how="left", maintain_order="left")
        .filter(pl.col("position") > pl.col("row_position").fill_null(-1))
        .drop("row_position")
    )
    if news.is_empty():
        return base.sort("Id"), MergeCounts(0, 0, 0, 0)
    folded = fold(news)
    old = base.with_columns(pl.lit(True).alias("was_there"))
    touched = folded.records.rename({"record_id": "Id"})
    rows = (
        old.join(touched, on="Id", how="full", coalesce=True, suffix="_new")
        .sort("Id")
        .with_columns(pl.col("was_there").fill_null(False))
    )
    counts = _counts(rows)
    rows = _apply_cells(rows, folded.cells, columns)
    return _apply_headers(rows).select(base.columns), counts


def _counts(rows: pl.DataFrame) -> MergeCounts:
    touched = rows.filter(pl.col("_position_new").is_not_null())
    before = pl.col("_is_deleted").fill_null(False)
    return MergeCounts(
        inserted=touched.filter(~pl.col("was_there")).height,
        updated=touched.filter(pl.col("was_there")).height,
        deleted=touched.filter(pl.col("is_deleted").fill_null(False) & ~before).height,
        in_doubt=touched.filter(_in_doubt() & ~pl.col("_in_doubt").fill_null(False)).height,
    )


def _in_doubt() -> pl.Expr:
    unknown = ~pl.col("was_there") & ~pl.col("sets_all").fill_null(False) & ~pl.col("is_deleted").fill_null(False)
    said = pl.col("in_doubt")
    return pl.when(unknown).then(True).otherwise(pl.coalesce(said, pl.col("_in_doubt"), pl.lit(False)))


def _apply_headers(rows: pl.DataFrame) -> pl.DataFrame:
    deleted = pl.coalesce("is_deleted", "_is_deleted", pl.lit(False))
    reason = (
        pl.when(pl.col("is_deleted"))
        .then(pl.lit("deleted"))
        .when(~pl.col("is_deleted"))
        .then(pl.lit(None, pl.String))
        .otherwise(pl.col("_deleted_reason"))
    )
    touched = pl.col("_position_new").is_not_null()
    return rows.with_columns(
        deleted.alias("_is_deleted"),
        reason.alias("_deleted_reason"),
        _in_doubt().alias("_in_doubt"),
        *(
            pl.when(touched).then(pl.col(f"{name}_new")).otherwise(pl.col(name)).alias(name)
            for name in ("_position", "_commit_timestamp", "_commit_user", "_transaction_key")
        ),
    )


def _apply_cells(rows: pl.DataFrame, cells: pl.DataFrame, columns: Sequence[Column]) -> pl.DataFrame:
    """Write each column's cells into its rows. Only columns that have cells are touched."""
    where = rows.select("Id").with_row_index("row")
    placed = cells.join(where, left_on="record_id", right_on="Id", how="inner")
    written = []
    for (index,), of_column in placed.partition_by("column", as_dict=True, include_key=False).items():
        column = columns[int(index)]
        member, dtype = _FROM_MEMBER[column.type]
        series = rows.get_column(column.name)
        written.append(series.scatter(of_column.get_column("row"), of_column.get_column(member).cast(dtype)))
    return rows.with_columns(written)


def empty_rows(schema: pa.Schema) -> pl.DataFrame:
    """No rows, with the polars types of a table's Arrow schema."""
    frame = pl.from_arrow(schema.empty_table())
    assert isinstance(frame, pl.DataFrame)
    return frame
