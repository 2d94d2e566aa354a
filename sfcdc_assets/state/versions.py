"""Versions: a leaf's records followed through their steps. The last version of each is its row, those before it are
superseded.

A record's versions follow one another in the order of positions; one is valid from its commit until the next one's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.state.columns import history_schema
from sfcdc_assets.state.frames import empty_rows
from sfcdc_assets.state.steps import ROW, SETS_ALL, steps_of
from sfcdc_assets.state.values import Sources, fill

READABLE = (*SETS_ALL, "UPDATE", "DELETE")
"""Changes that tell what they did."""

_ROW_ALONE = ("_is_deleted", "_deleted_reason", "_commit_timestamp", "_read_position")
"""What a read may tell of a row without there being a new version."""


@dataclass(frozen=True)
class Extended:
    """The leaf's rows, sorted by Id; the versions superseded on the way (`history_schema`); how many are new."""

    rows: pl.DataFrame
    superseded: pl.DataFrame
    added: int


def extend(
    rows: pl.DataFrame, changes: pl.DataFrame, reads: pl.DataFrame, columns: Sequence[Column], batch: int
) -> Extended:
    """Follow each record from its row through its changes and reads.

    `rows`: of `current_state`; `changes`: those to follow (`CHANGES`, diffs replaced by their values) with `blocked`:
    they came between a doubt and the read that answers it, and tell only what they changed; `reads`: rows read from the
    org (columns, `READ_COLUMNS`, `read_type`, `dated`: since when their values are valid). A read that tells nothing
    new is no version; one ends the doubt about its record.
    """
    steps = steps_of(rows, changes, reads)
    if steps.is_empty():
        return Extended(rows, empty_rows(history_schema(columns)), 0)
    sources = Sources(steps, rows, changes, reads)
    filled = fill(sources, columns)
    told = steps.with_columns(
        pl.col("time").cum_max().forward_fill().over("Id").alias("_valid_from"),
        pl.col("_commit_timestamp").forward_fill().over("Id"),
        pl.col("_read_position").forward_fill().over("Id"),
        pl.col("_is_deleted").forward_fill().fill_null(False).over("Id"),
        pl.col("reason").forward_fill().over("Id").replace("", None).alias("_deleted_reason"),
        pl.Series("is_read", sources.is_read),
        pl.Series("differs", filled.differs),
        filled.named.alias("named"),
        filled.certain.alias("_certain_fields"),
    )
    is_empty_row = (pl.col("source") == ROW) & pl.col("_change_type").is_null()
    is_unreadable = pl.col("blocked") & ~pl.col("_change_type").is_in(READABLE)
    may_be_version = ~is_empty_row & ~is_unreadable
    told = told.with_columns(may_be_version.alias("is_version")).with_columns(
        (pl.col("is_version").cum_sum().over("Id") > pl.col("is_version").cast(pl.UInt32)).alias("follows")
    )
    tells_nothing = (
        pl.col("is_read")
        & pl.col("follows")
        & ~pl.col("differs")
        & (pl.col("_is_deleted") == pl.col("_is_deleted").shift(1))
        & pl.col("_certain_fields").shift(1).is_null()
    )
    partial = (pl.col("_change_type") == "UPDATE") | (pl.col("is_read") & pl.col("follows"))
    own = rows.select(pl.col("_changed_fields").alias("own_fields"), pl.col("_batch").alias("own_batch"))
    told = (
        told.with_columns(pl.col("is_version") & ~tells_nothing.fill_null(False))
        .join(
            sources.of_rows.with_columns(own[sources.of_rows["at"].to_list()]).drop("at"),
            on="step",
            how="left",
            maintain_order="left",
        )
        .with_columns(
            pl.when(pl.col("source") == ROW)
            .then(pl.col("own_fields"))
            .when(partial)
            .then(pl.col("named"))
            .alias("_changed_fields"),
            pl.when(pl.col("source") == ROW).then(pl.col("own_batch")).otherwise(pl.lit(batch)).alias("_batch"),
        )
    )
    whole = pl.concat([filled.values, told.drop("Id")], how="horizontal")
    return _parted(rows, whole, columns, batch)


def _parted(rows: pl.DataFrame, whole: pl.DataFrame, columns: Sequence[Column], batch: int) -> Extended:
    """The last version of each record is its row; the others are written by this batch, whenever they began."""
    versions = whole.filter("is_version").with_columns(
        pl.col("_valid_from").shift(-1).over("Id").alias("_valid_to"),
        pl.col("_position").shift(-1).over("Id").alias("_superseded_at"),
    )
    shape = empty_rows(history_schema(columns)).schema
    superseded = versions.filter(pl.col("_superseded_at").is_not_null()).with_columns(pl.lit(batch).alias("_batch"))
    superseded = superseded.select(shape.names()).cast(shape)
    last = versions.filter(pl.col("_superseded_at").is_null()).drop(_ROW_ALONE)
    ends = whole.group_by("Id", maintain_order=True).agg(
        *(pl.col(name).last() for name in _ROW_ALONE),
        pl.col("is_read").any(),
    )
    was = rows.select("Id", pl.col("_in_doubt").alias("was_in_doubt"))
    current = (
        last.drop("is_read")
        .join(ends, on="Id")
        .join(was, on="Id", how="left")
        .with_columns((pl.col("was_in_doubt").fill_null(False) & ~pl.col("is_read")).alias("_in_doubt"))
        .select(rows.columns)
        .cast(rows.schema)
    )
    others = rows.join(current.select("Id"), on="Id", how="anti")
    added = versions.filter(pl.col("source") != ROW).height
    return Extended(pl.concat([others, current]).sort("Id"), superseded, added)
