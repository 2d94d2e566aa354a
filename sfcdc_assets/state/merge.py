"""Merge: a leaf's rows and the changes that can be applied -> its new rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.state.cell_types import FROM_MEMBER
from sfcdc_assets.state.fold import fold
from sfcdc_assets.state.resolve import Resolved, resolve


@dataclass(frozen=True)
class MergeCounts:
    """What a merge did, in records: new rows, rows changed, rows that became deleted, rows that came into doubt; and
    `waiting`, the changes left for records in doubt."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    in_doubt: int = 0
    waiting: int = 0


@dataclass(frozen=True)
class Merged:
    """The leaf's rows after a batch, sorted by Id; whether any of them is new; and what the batch came to."""

    rows: pl.DataFrame
    changed: bool
    counts: MergeCounts
    resolved: Resolved


def merge(base: pl.DataFrame, changes: pl.DataFrame, columns: Sequence[Column]) -> Merged:
    """New rows, one for each record of `base` (columns of the table, in its order) or `changes` (`CHANGES`).

    A deleted record keeps its row and last values. A record that comes into doubt keeps what was known before the
    doubt; one that was never seen gets a row with its Id alone, in doubt: its fields are unknown, not null.
    """
    resolved = resolve(base, changes, columns)
    if resolved.changes.is_empty() and resolved.doubts.is_empty():
        return Merged(base.sort("Id"), False, MergeCounts(waiting=resolved.waiting), resolved)
    folded = fold(resolved.changes)
    doubts = resolved.doubts.select(pl.col("record_id").alias("Id"), (pl.col("position") - 1).alias("doubt"))
    touched = folded.records.rename({"record_id": "Id"}).join(doubts, on="Id", how="full", coalesce=True)
    rows = (
        base.with_columns(pl.lit(True).alias("was_there"))
        .join(touched, on="Id", how="full", coalesce=True, suffix="_new")
        .sort("Id")
        .with_columns(pl.col("was_there").fill_null(False))
    )
    counts = _counts(rows, resolved)
    rows = _apply_cells(rows, folded.cells, columns)
    return Merged(_apply_headers(rows).select(base.columns), True, counts, resolved)


def _counts(rows: pl.DataFrame, resolved: Resolved) -> MergeCounts:
    before = pl.col("_is_deleted").fill_null(False)
    return MergeCounts(
        inserted=rows.filter(~pl.col("was_there")).height,
        updated=rows.filter(pl.col("was_there") & pl.col("_position_new").is_not_null()).height,
        deleted=rows.filter(pl.col("is_deleted").fill_null(False) & ~before).height,
        in_doubt=resolved.doubts.height,
        waiting=resolved.waiting,
    )


def _apply_headers(rows: pl.DataFrame) -> pl.DataFrame:
    reason = (
        pl.when(pl.col("is_deleted"))
        .then(pl.lit("deleted"))
        .when(~pl.col("is_deleted"))
        .then(pl.lit(None, pl.String))
        .otherwise(pl.col("_deleted_reason"))
    )
    touched = pl.col("_position_new").is_not_null()
    header = {
        name: pl.when(touched).then(pl.col(f"{name}_new")).otherwise(pl.col(name))
        for name in ("_position", "_commit_timestamp", "_commit_user", "_transaction_key")
    }
    return rows.with_columns(
        pl.coalesce("is_deleted", "_is_deleted", pl.lit(False)).alias("_is_deleted"),
        reason.alias("_deleted_reason"),
        (pl.col("doubt").is_not_null() | pl.col("_in_doubt").fill_null(False)).alias("_in_doubt"),
        *(expression.alias(name) for name, expression in header.items()),
    ).with_columns(pl.coalesce("_position", "doubt").alias("_position"))


def _apply_cells(rows: pl.DataFrame, cells: pl.DataFrame, columns: Sequence[Column]) -> pl.DataFrame:
    """Write each column's cells into its rows. Only columns that have cells are touched."""
    where = rows.select("Id").with_row_index("row")
    placed = cells.join(where, left_on="record_id", right_on="Id", how="inner")
    written = []
    for (index,), of_column in placed.partition_by("column", as_dict=True, include_key=False).items():
        column = columns[int(index)]
        member, dtype = FROM_MEMBER[column.type]
        series = rows.get_column(column.name)
        written.append(series.scatter(of_column.get_column("row"), of_column.get_column(member).cast(dtype)))
    return rows.with_columns(written)


def empty_rows(schema: pa.Schema) -> pl.DataFrame:
    """No rows, with the polars types of a table's Arrow schema."""
    frame = pl.from_arrow(schema.empty_table())
    assert isinstance(frame, pl.DataFrame)
    return frame
