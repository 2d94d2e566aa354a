"""Versions: a key range's records followed through their steps. The last version of each is its row, those before it
are superseded.

A record's versions follow one another in the order of positions; one is valid from its commit until the next one's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.key_ranges.frames import empty_rows
from sfcdc_assets.timeline.follow_records import Segments
from sfcdc_assets.timeline.steps import ROW, steps_of
from sfcdc_assets.timeline.values import Sources, fill
from sfcdc_assets.timeline.version_columns import history_schema

_ROW_ALONE = ("_is_deleted", "_deleted_reason", "_commit_timestamp", "_read_position")
"""What a read may tell of a row without there being a new version."""


@dataclass(frozen=True)
class Extended:
    """The key range's rows, in no order; the versions superseded on the way (`history_schema`); how many are new."""

    rows: pl.DataFrame
    superseded: pl.DataFrame
    added: int


def extend(
    rows: pl.DataFrame, changes: pl.DataFrame, reads: pl.DataFrame, columns: Sequence[Column], batch: int
) -> Extended:
    """Follow each record from its row through its changes and reads.

    `rows`: of `current_state`; `changes`: those to follow (`CHANGES`, diffs replaced by their values) with `blocked`:
    they came between an entry and the read that answers it, and tell only what they changed, one without values that
    nothing is known from then on; `reads`: rows read from the
    org (columns, `READ_COLUMNS`, `read_type`, `dated`: since when their values are valid). A read that tells nothing
    new is no version; one ends the entry about its record.
    """
    steps = steps_of(rows, changes, reads)
    if steps.is_empty():
        return Extended(rows, empty_rows(history_schema(columns)), 0)
    sources = Sources(steps, rows, changes, reads)
    segments, filled = sources.segments, fill(sources, columns)
    kind, is_read = steps["_change_type"], sources.is_read
    is_empty_row = ((steps["source"] == ROW) & kind.is_null()).to_numpy()
    is_version = ~is_empty_row
    follows = segments.after_any(is_version)
    deleted = segments.filled(steps["_is_deleted"]).fill_null(value=False)
    tells_nothing = (
        (is_read & follows & ~filled.differs)
        & (deleted == deleted.shift(1)).fill_null(value=False).to_numpy()
        & filled.certain.eq_missing(filled.certain.shift(1)).to_numpy()
    )
    own = rows.select(pl.col("_changed_fields").alias("own_fields"), pl.col("_batch").alias("own_batch"))
    carried = steps.with_columns(
        segments.rising(steps["time"]).alias("_valid_from"),
        segments.filled(steps["_commit_timestamp"]),
        segments.filled(steps["_read_position"]),
        deleted,
        segments.filled(steps["reason"]).replace("", None).alias("_deleted_reason"),
        pl.Series("is_version", is_version & ~tells_nothing),
        filled.named.alias("named"),
        filled.certain.alias("_certain_fields"),
        pl.Series("partial", (kind == "UPDATE").fill_null(value=False).to_numpy() | (is_read & follows)),
    )
    carried = (
        carried.join(
            sources.of_rows.with_columns(own[sources.of_rows["at"].to_list()]).drop("at"),
            on="step",
            how="left",
            maintain_order="left",
        )
        .with_columns(
            pl.when(pl.col("source") == ROW)
            .then(pl.col("own_fields"))
            .when(pl.col("partial"))
            .then(pl.col("named"))
            .alias("_changed_fields"),
            pl.when(pl.col("source") == ROW).then(pl.col("own_batch")).otherwise(pl.lit(batch)).alias("_batch"),
        )
        .drop("own_fields", "own_batch", "named", "partial", "time", "reason", "step", "at", "order", "blocked")
    )
    whole = pl.concat([filled.values, carried.drop("Id")], how="horizontal")
    return _parted(rows, whole, sources, columns, batch)


def _parted(
    rows: pl.DataFrame, whole: pl.DataFrame, sources: Sources, columns: Sequence[Column], batch: int
) -> Extended:
    """Return the versions in two parts: the last of each record, which is its row, and the others, which this batch
    writes whenever they began."""
    segments = sources.segments
    versions = whole.filter("is_version")
    is_last = Segments(versions["Id"]).ends
    ends = {"_valid_to": versions["_valid_from"].shift(-1), "_superseded_at": versions["_position"].shift(-1)}
    shape = empty_rows(history_schema(columns)).schema
    before = versions.with_columns(**ends).filter(pl.Series(~is_last))
    superseded = before.with_columns(pl.lit(batch, pl.Int64).alias("_batch")).select(shape.names())
    superseded = superseded if superseded.schema == shape else superseded.cast(shape)
    last = versions.filter(pl.Series(is_last)).drop(_ROW_ALONE)
    at_end = whole.filter(pl.Series(segments.ends)).select("Id", *_ROW_ALONE)
    at_end = at_end.with_columns(pl.Series("was_read", segments.any(sources.is_read)))
    was = rows.select("Id", pl.col("_in_doubt").alias("was_suspect"))
    current = (
        last.join(at_end, on="Id", how="left", maintain_order="left")
        .join(was, on="Id", how="left", maintain_order="left")
        .with_columns((pl.col("was_suspect").fill_null(value=False) & ~pl.col("was_read")).alias("_in_doubt"))
        .select(rows.columns)
        .cast(rows.schema)
    )
    others = rows.join(current.select("Id"), on="Id", how="anti")
    added = int((versions["source"] != ROW).sum())
    return Extended(pl.concat([others, current]), superseded, added)
