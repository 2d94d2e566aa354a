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
SAID_OF_A_ROW = ("_is_deleted", "_deleted_reason", "_in_doubt", "_certain_fields", "_position", "_change_type")
"""What may differ in a row that has no new version. That a read has found it unchanged is reported to nobody."""


_IS_ROW = pl.col("source") == ROW
_OWN = (pl.col("_changed_fields").alias("own_fields"), pl.col("_batch").alias("own_batch"))
_FIELDS = (
    pl.when(_IS_ROW).then(pl.col("own_fields")).when(pl.col("partial")).then(pl.col("named")).alias("_changed_fields")
)
_ENDS = (
    pl.col("_valid_from").shift(-1).alias("_valid_to"),
    pl.col("_position").shift(-1).alias("_superseded_at"),
)
_WAS = (pl.col("Id"), pl.col("_in_doubt").alias("was_suspect"))
_STILL_SUSPECT = (pl.col("was_suspect").fill_null(value=False) & ~pl.col("was_read")).alias("_in_doubt")
_NO_BATCH = pl.lit(None, pl.Int64).alias("_first_batch")
_ON_THE_WAY = frozenset(
    ("Id", "own_fields", "own_batch", "named", "partial", "time", "reason", "step", "at", "order", "blocked")
)
"""Columns of steps that versions have not, or have among their values."""


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
    own = rows.select(_OWN)[sources.of_rows["at"]].hstack(sources.of_rows[["step"]])
    valid_from = segments.rising(steps["time"])
    is_own = (steps["time"] == valid_from).fill_null(value=False)
    carried = steps.with_columns(
        valid_from.alias("_valid_from"),
        segments.filled(steps["_dated_by"].set(~is_own, None)),
        segments.filled(steps["_commit_timestamp"]),
        segments.filled(steps["_read_position"]),
        deleted,
        segments.filled(steps["reason"]).replace("", None).alias("_deleted_reason"),
        pl.Series("is_version", is_version & ~tells_nothing),
        filled.named.alias("named"),
        filled.certain.alias("_certain_fields"),
        pl.Series("partial", (kind == "UPDATE").fill_null(value=False).to_numpy() | (is_read & follows)),
    )
    carried = carried.join(own, on="step", how="left", maintain_order="left").with_columns(
        _FIELDS, pl.when(_IS_ROW).then(pl.col("own_batch")).otherwise(pl.lit(batch)).alias("_batch")
    )
    whole = filled.values.hstack(carried[[name for name in carried.columns if name not in _ON_THE_WAY]])
    return _parted(rows, whole, sources, columns, batch)


def _parted(
    rows: pl.DataFrame, whole: pl.DataFrame, sources: Sources, columns: Sequence[Column], batch: int
) -> Extended:
    """Return the versions in two parts: the last of each record, which is its row, and the others, which this batch
    writes whenever they began."""
    segments = sources.segments
    versions = whole.filter(whole["is_version"])
    is_last = Segments(versions["Id"]).ends
    shape = empty_rows(history_schema(columns)).schema
    before = versions.with_columns(*_ENDS, pl.lit(batch, pl.Int64).alias("_batch"))
    superseded = before[shape.names()].filter(pl.Series(~is_last))
    superseded = superseded if superseded.schema == shape else superseded.cast(shape)
    last = versions[[name for name in versions.columns if name not in _ROW_ALONE]].filter(pl.Series(is_last))
    at_end = whole[["Id", *_ROW_ALONE]].filter(pl.Series(segments.ends))
    at_end = at_end.with_columns(pl.Series("was_read", segments.any(sources.is_read)))
    current = (
        last.join(at_end, on="Id", how="left", maintain_order="left")
        .join(rows.select(_WAS), on="Id", how="left", maintain_order="left")
        .with_columns(_STILL_SUSPECT, _NO_BATCH)[rows.columns]
    )
    current = current if current.schema == rows.schema else current.cast(rows.schema)
    others = rows.join(current[["Id"]], on="Id", how="anti")
    added = versions.height - int((versions["source"] == ROW).sum())
    return Extended(pl.concat([others, current]), superseded, added)


def with_batches(before: pl.DataFrame, after: pl.DataFrame, batch: int) -> pl.DataFrame:
    """Return a key range's rows after a batch with `_batch`, the one that wrote the row last, and `_first_batch`, which
    wrote the record's first version; `before`: the rows it began with.

    A batch may change what is said of a row without a new version: it becomes suspect, or a read finds that a deleted
    record is gone for good. And one that goes back to an earlier watermark may leave a record as it was before. Whoever
    asks what has changed since a batch (`changes_since`) finds all of them by these two numbers.
    """
    met = after.drop("_first_batch").join(before.select(_OF_BEFORE), on="Id", how="left", maintain_order="left")
    this = pl.lit(batch, pl.Int64)
    return met.with_columns(
        pl.when(_IS_OTHER).then(this).otherwise("_batch").alias("_batch"),
        pl.when(_HAD_VERSION).then("_first_batch").otherwise(this).alias("_first_batch"),
    )[after.columns]


_OF_BEFORE = (
    pl.col("Id", "_first_batch"),
    *(pl.col(name).alias(f"was{name}") for name in SAID_OF_A_ROW),
    pl.lit(True).alias("was_there"),
)
_IS_OTHER = pl.col("was_there").is_null() | pl.any_horizontal(
    pl.col(name).ne_missing(pl.col(f"was{name}")) for name in SAID_OF_A_ROW
)
_HAD_VERSION = pl.col("was_change_type").is_not_null() | pl.col("_change_type").is_null()
