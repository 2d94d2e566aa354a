"""Enrichment as a check: what events say of fields they did not change, against what the table has
(docs/salesforce-streams.md, "Enrichment").

Salesforce reads these values when it delivers an event, not when the change was committed. So one that differs from the
record's value at that position is no sign of drift if a later event of the batch brings it. If a later batch would, the
read-back was not needed: it costs one read and never leaves a wrong value. Which values are certain does not depend on
what a batch has of later events: one that differs leaves its column uncertain, explained or not, and blocks nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.timeline.changes import COLUMNS_LEFT_OPEN
from sfcdc_assets.timeline.suspect import NO_SUSPECTS, SUSPECTS, Reason
from sfcdc_assets.timeline.values import FROM_MEMBER

CONTRADICTIONS = pl.Schema(
    [
        ("record_id", pl.String()),
        ("position", pl.Int64()),
        ("commit_timestamp", pl.Datetime("us", "UTC")),
        ("column", pl.Int32()),
        ("field", pl.String()),
        ("explained", pl.Boolean()),
    ]
)
"""One row for each value of an event that the record does not have there: whose, where, the column's index and name,
and whether a later event of the batch brings it."""
_NONE = pl.DataFrame(schema=CONTRADICTIONS)


def contradictions(base: pl.DataFrame, applied: pl.DataFrame, columns: Sequence[Column]) -> pl.DataFrame:
    """Enriched values (`CONTRADICTIONS`) that are not what the table has at their position.

    `base`: the key range's rows; `applied`: the changes (`CHANGES`, diffs replaced) folded onto them.
    """
    if not applied["enriched"].list.len().sum():
        return _NONE
    carried = _cells(applied, "enriched")
    enriched = _unread(carried, applied, base) if not carried.is_empty() else carried
    if enriched.is_empty():
        return _NONE
    concerned = enriched.select("record_id").unique()
    changes = _cells(applied.join(concerned, on="record_id", how="semi"), "cells")
    rows = base.join(concerned, left_on="Id", right_on="record_id", how="semi")
    found = [
        _contradicted(int(index), columns[int(index)], of_column, changes.filter(pl.col("column") == index), rows)
        for (index,), of_column in enriched.partition_by("column", as_dict=True).items()
    ]
    return pl.concat(found)


def suspects_of(contradictions: pl.DataFrame) -> pl.DataFrame:
    """One entry (`SUSPECTS`) a record, at the first event that shows what nothing explains; its detail names the
    fields, never a value."""
    unexplained = contradictions.filter(~contradictions["explained"])
    if unexplained.is_empty():
        return NO_SUSPECTS
    at_first = pl.col("position") == pl.col("position").min().over("record_id")
    return (
        unexplained.filter(at_first)
        .group_by("record_id", "position", "commit_timestamp")
        .agg(pl.col("field").sort().str.join(", ").alias("fields"))
        .select(
            "record_id",
            pl.lit(Reason.DRIFT.value).alias("reason"),
            "position",
            "commit_timestamp",
            pl.format("{}: an event shows a value that no event brought", "fields").alias("detail"),
        )
        .cast(SUSPECTS)
    )


def without_proof(changes: pl.DataFrame, contradicted: pl.DataFrame) -> pl.DataFrame:
    """Return the changes, the contradicted columns among those whose values they leave `unproven`: those that a later
    event of the batch explains too, because another batch might end before it."""
    if contradicted.is_empty():
        return changes
    shown = contradicted.group_by("record_id", "position").agg(pl.col("column").alias("shown"))
    joined = changes.join(shown, on=["record_id", "position"], how="left", maintain_order="left")
    none = pl.lit([], pl.List(pl.Int32))
    both = pl.concat_list(COLUMNS_LEFT_OPEN, pl.col("shown").fill_null(none))
    return joined.with_columns(pl.when(both.list.len() > 0).then(both).alias("unproven")).drop("shown")


def _unread(enriched: pl.DataFrame, applied: pl.DataFrame, base: pl.DataFrame) -> pl.DataFrame:
    """Return all but those of a read row's first event, if that was committed before the read: a read may be ahead of
    its watermark, and then the row tells more than such an event knew. Of the events after it the row tells no more
    that it was read, wherever the batch ended."""
    reads = base.filter(pl.col("_transaction_key").is_null()).select("Id", pl.col("_commit_timestamp").alias("read_to"))
    first = applied.group_by("record_id").agg(pl.col("position").min().alias("first"))
    of_reads = first.join(reads, left_on="record_id", right_on="Id", how="inner")
    joined = enriched.join(of_reads, on="record_id", how="left", maintain_order="left")
    is_known = (pl.col("position") == pl.col("first")) & (pl.col("commit_timestamp") <= pl.col("read_to"))
    return joined.filter(~is_known.fill_null(value=False)).drop("read_to", "first")


def _contradicted(
    index: int, column: Column, of_column: pl.DataFrame, changes: pl.DataFrame, rows: pl.DataFrame
) -> pl.DataFrame:
    """Return the enriched values about one column that the record does not have at their position."""
    member, dtype = FROM_MEMBER[column.type]
    steps = changes.select("record_id", "position", pl.col(member).cast(dtype).alias("value"))
    start = rows.select(
        pl.col("Id").alias("record_id"), pl.lit(-1, pl.Int64).alias("position"), pl.col(column.name).alias("value")
    )
    carried = of_column.select("record_id", "position", "commit_timestamp", pl.col(member).cast(dtype).alias("carried"))
    unlike = (
        carried.sort("position")
        .join_asof(pl.concat([start, steps]).sort("position"), on="position", by="record_id", check_sortedness=False)
        .filter(pl.col("carried").ne_missing(pl.col("value")))
        .drop("value")
    )
    later = (
        unlike.join(steps.rename({"position": "brought_at", "value": "carried"}), on=["record_id", "carried"])
        .filter(pl.col("brought_at") > pl.col("position"))
        .select("record_id", "position", pl.lit(True).alias("explained"))
        .unique()
    )
    return (
        unlike.join(later, on=["record_id", "position"], how="left", maintain_order="left")
        .with_columns(pl.col("explained").fill_null(value=False), column=pl.lit(index), field=pl.lit(column.name))
        .select(CONTRADICTIONS.names())
        .cast(CONTRADICTIONS)
    )


def _cells(changes: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the cells of a list column, one a row, with their change's record, position and time."""
    return (
        changes.select("record_id", "position", "commit_timestamp", name)
        .filter(pl.col(name).list.len() > 0)
        .explode(name)
        .unnest(name)
    )
