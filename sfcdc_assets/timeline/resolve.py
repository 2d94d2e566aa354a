"""Resolve: which of a batch's changes can be applied, and which records become suspect (guarantee 7).

A record's changes are applied up to the first one that cannot be trusted; that one opens a ledger entry, and it and
what comes after it are blocked until the record is read back. Other records are not concerned. A change that can be
trusted but does not say everything is applied itself, and blocks those after it: whether they come in its batch or in a
later one, when the row says no more than that it is suspect. One of an enriched event that contradicts the row opens an
entry too, and blocks nothing: which of its values are certain says the version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import polars as pl

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.timeline.changes import COLUMNS_LEFT_OPEN, COLUMNS_SET
from sfcdc_assets.timeline.enrichment import contradictions, suspects_of, without_proof
from sfcdc_assets.timeline.large_text import NOTHING_REBUILT, Rebuilt, rebuild_texts
from sfcdc_assets.timeline.steps import SETS_ALL
from sfcdc_assets.timeline.suspect import NO_SUSPECTS, REASON_OF_CHANGE_TYPE, SUSPECTS, Reason
from sfcdc_assets.timeline.version_columns import STANDS_AT

_OF_ROWS = ("row_position", "is_suspect", "was_deleted", "reason", "valid_from", "event_committed")
LATE = timedelta(minutes=1)
"""How much older than an event before it one may be: those of one transaction differ by seconds (CDC guide, "Change
Events for Tasks and Events"), and the clocks of the org's servers by less."""


@dataclass(frozen=True)
class Resolved:
    """`changes`: those to apply, in position order, diffs replaced by the values they stand for; `rebuilt`: these
    values (`record_id`, `position`, `column`, `value`); `suspects`: what became suspect; `blocked`: the changes of
    records that are suspect, from the one on that brought them there."""

    changes: pl.DataFrame
    rebuilt: pl.DataFrame
    suspects: pl.DataFrame
    blocked: pl.DataFrame


_EVENT_AT = pl.when(pl.col("_transaction_key").is_not_null()).then("_commit_timestamp").alias("event_committed")
_EARLIER = pl.max_horizontal(
    "event_committed", pl.col("commit_timestamp").cum_max().shift(1).over("record_id", order_by="position")
)
"""When the newest event of the record that came before was committed."""
_IS_LATE = (pl.col("commit_timestamp") < pl.col("earlier") - LATE).fill_null(value=False)
_MET = (
    pl.col("Id").alias("record_id"),
    STANDS_AT.alias("row_position"),
    pl.col("_in_doubt").alias("is_suspect"),
    pl.col("_is_deleted").alias("was_deleted"),
    pl.col("_deleted_reason").alias("reason"),
    pl.col("_valid_from").alias("valid_from"),
    _EVENT_AT,
)
_IS_LATER = pl.col("position") > pl.col("row_position").fill_null(-1)
_IS_FREE = ~pl.col("is_suspect").fill_null(value=False)


def resolve(base: pl.DataFrame, changes: pl.DataFrame, columns: Sequence[Column]) -> Resolved:
    """Sort a batch's changes out against the rows they meet.

    `base`: the key range's rows; `changes`: columns of `CHANGES`. A change at or before the position its row stands for
    is already in the row and is dropped.
    """
    met = (
        changes.sort("position", maintain_order=True)
        .join(base.select(_MET), on="record_id", how="left", maintain_order="left")
        .filter(_IS_LATER)
    )
    free = met.filter(_IS_FREE) if met["is_suspect"].any() else met
    suspects = _first(
        pl.concat(
            [
                _suspects_of_kind(free),
                _suspects_of_unknown(free),
                _suspects_of_deleted(free),
                _late(free),
                _suspects_of_hashed_diffs(free, columns),
                _suspects_of_missing(free),
            ]
        )
    )
    rebuilt = _rebuild(base, _until(free, suspects), columns)
    suspects = _first(pl.concat([rebuilt.suspects, suspects]))
    applied = _until(free, suspects).drop(_OF_ROWS)
    if applied.height == met.height:  # a query takes longer than what most batches have of them
        blocked = met.clear()
    else:
        blocked = met.join(applied[["record_id", "position"]], on=["record_id", "position"], how="anti")
    values = rebuilt.values
    if not values.is_empty():
        values = values.join(applied[["record_id", "position"]], on=["record_id", "position"], how="semi")
    changes = _with_values(applied, values)
    contradicted = contradictions(base, changes, columns)
    drift = suspects_of(contradicted).join(suspects, on="record_id", how="anti")
    suspects = pl.concat([suspects, _first(drift)])
    return Resolved(without_proof(changes, contradicted), values, suspects, blocked.drop(_OF_ROWS))


def _suspects_of_missing(met: pl.DataFrame) -> pl.DataFrame:
    if met["missing"].null_count() == met.height:
        return NO_SUSPECTS
    return _suspects(met.filter(pl.col("missing").is_not_null()), Reason.MISSING_VALUE, pl.col("missing"))


def _suspects_of_kind(met: pl.DataFrame) -> pl.DataFrame:
    reasons = met.filter(met["change_type"].is_in(list(REASON_OF_CHANGE_TYPE)))
    if reasons.is_empty():
        return NO_SUSPECTS
    return reasons.select(
        "record_id",
        pl.col("change_type")
        .replace_strict({kind: reason.value for kind, reason in REASON_OF_CHANGE_TYPE.items()}, return_dtype=pl.String)
        .alias("reason"),
        "position",
        "commit_timestamp",
        pl.col("error").alias("detail"),
    )


def _suspects_of_unknown(met: pl.DataFrame) -> pl.DataFrame:
    """Return updates of records that neither have a row nor got one earlier in the batch: a delete makes one too, of a
    record of which only the Id is known, and what follows it meets a deleted row in whatever batch it is."""
    if not met["row_position"].null_count():
        return NO_SUSPECTS
    makes_a_row = pl.col("change_type").is_in((*SETS_ALL, "DELETE"))
    born = met.filter(makes_a_row).group_by("record_id").agg(pl.col("position").min().alias("born"))
    updates = met.filter((pl.col("change_type") == "UPDATE") & pl.col("row_position").is_null())
    orphans = updates.join(born, on="record_id", how="left").filter(
        pl.col("born").is_null() | (pl.col("born") > pl.col("position"))
    )
    return _suspects(orphans, Reason.UNKNOWN_RECORD, pl.lit(None, pl.String))


def _suspects_of_deleted(met: pl.DataFrame) -> pl.DataFrame:
    """Return changes of records that are deleted, by their row or by an event before: but for an undelete there are
    none, so the row or what came before is wrong. A delete says the same as the row, which it dates.

    A read may be ahead of its watermark: what was committed before the row says that it was deleted is no
    contradiction. A record that was just not there any more explains none.
    """
    is_delete, is_alive = pl.col("change_type") == "DELETE", pl.col("change_type").is_in(SETS_ALL)
    if met.filter(pl.col("was_deleted").fill_null(value=False) | is_delete).is_empty():
        return NO_SUSPECTS
    said = pl.when(is_delete).then(pl.lit(True)).when(is_alive).then(pl.lit(False))
    followed = met.with_columns(
        said.shift(1).forward_fill().over("record_id").alias("said"),
        pl.max_horizontal("valid_from", pl.col("commit_timestamp").cum_max().shift(1).over("record_id")).alias("since"),
    )
    is_after = (pl.col("commit_timestamp") > pl.col("since")).fill_null(value=True)
    is_gone = pl.col("said").is_null() & (pl.col("reason") == "hard_deleted").fill_null(value=False)
    contradicts = (
        pl.col("change_type").is_in(["CREATE", "UPDATE"])
        & pl.coalesce("said", "was_deleted").fill_null(value=False)
        & (is_after | is_gone)
    )
    return _suspects(followed.filter(contradicts), Reason.DELETED_RECORD, pl.lit(None, pl.String))


def _late(met: pl.DataFrame) -> pl.DataFrame:
    """Return changes that were committed before what the stream brought earlier of their records. A read may be ahead
    of its watermark, so only events are compared."""
    committed = met["commit_timestamp"]
    if not ((committed < met["event_committed"] - LATE).any() or (committed < committed.cum_max() - LATE).any()):
        return NO_SUSPECTS
    late = met.with_columns(_EARLIER.alias("earlier")).filter(_IS_LATE)
    return _suspects(
        late, Reason.LATE_EVENT, pl.format("an event of {} came before it", pl.col("earlier").dt.to_string("iso"))
    )


def without_late_proof(blocked: pl.DataFrame, base: pl.DataFrame) -> pl.DataFrame:
    """Return blocked changes (`CHANGES`), in the order of their positions: what late ones set is left `unproven`, since
    the record may have had other values by then. `base`: the rows of before."""
    if blocked.is_empty():
        return blocked
    of_rows = base.select(pl.col("Id").alias("record_id"), _EVENT_AT)
    left_open = COLUMNS_LEFT_OPEN.list.set_union(COLUMNS_SET)
    return (
        blocked.join(of_rows, on="record_id", how="left", maintain_order="left")
        .with_columns(_EARLIER.alias("earlier"))
        .with_columns(pl.when(_IS_LATE).then(left_open).otherwise("unproven").alias("unproven"))
        .drop("event_committed", "earlier")
    )


def _suspects_of_hashed_diffs(met: pl.DataFrame, columns: Sequence[Column]) -> pl.DataFrame:
    """Diffs to texts of which only a hash is known."""
    if all(column.hash_key is None for column in columns):
        return NO_SUSPECTS
    found = [NO_SUSPECTS]
    with_diffs = met.filter(pl.col("diff_columns").list.len() > 0)
    for index, column in enumerate(columns) if with_diffs.height else ():
        if column.hash_key is not None:
            detail = f"{column.name}: a diff cannot be applied to a hash"
            of_column = with_diffs.filter(pl.col("diff_columns").list.contains(index))
            found.append(_suspects(of_column, Reason.HASHED_DIFF, pl.lit(detail)))
    return pl.concat(found)


def _suspects(changes: pl.DataFrame, reason: Reason, detail: pl.Expr) -> pl.DataFrame:
    return changes.select(
        "record_id",
        pl.lit(reason.value).alias("reason"),
        "position",
        "commit_timestamp",
        detail.alias("detail"),
    )


def _first(suspects: pl.DataFrame) -> pl.DataFrame:
    """Return the earliest entry of each record, of one position the first of them."""
    if suspects.height < 2:  # a query takes longer than what most batches have of them
        return suspects.select(SUSPECTS.names())
    ordered = suspects.select(SUSPECTS.names()).sort("position", maintain_order=True)
    return ordered.unique("record_id", keep="first", maintain_order=True)


def _until(met: pl.DataFrame, suspects: pl.DataFrame) -> pl.DataFrame:
    """Return the changes before their record's entry, with the one that opens it where all that it tells is true; all
    of them where there is none."""
    if suspects.is_empty():
        return met
    is_true = pl.col("reason") == Reason.MISSING_VALUE.value
    ends = suspects.select("record_id", (pl.col("position") + is_true.cast(pl.Int64)).alias("end"))
    kept = met.join(ends, on="record_id", how="left", maintain_order="left")
    return kept.filter(pl.col("end").is_null() | (pl.col("position") < pl.col("end"))).drop("end")


def _rebuild(base: pl.DataFrame, before: pl.DataFrame, columns: Sequence[Column]) -> Rebuilt:
    with_diffs = before[["record_id"]].filter(before["diff_columns"].list.len() > 0).unique()
    if with_diffs.is_empty():
        return Rebuilt(NOTHING_REBUILT, NO_SUSPECTS)
    concerned = before.join(with_diffs, on="record_id", how="semi", maintain_order="left")
    texts = {index: column.name for index, column in enumerate(columns) if column.keeps_texts}
    known_rows = base.join(with_diffs, left_on="Id", right_on="record_id", how="semi").select("Id", *texts.values())
    known = {row["Id"]: {index: row[name] for index, name in texts.items()} for row in known_rows.iter_rows(named=True)}
    return rebuild_texts(concerned, known, [column.name for column in columns])


def _with_values(applied: pl.DataFrame, values: pl.DataFrame) -> pl.DataFrame:
    """Replace diffs by the values they stand for. Only changes that have a diff are opened."""
    if values.is_empty():
        return applied
    has_diff = pl.col("diff_columns").list.len() > 0
    plain, opened = applied.filter(~has_diff), applied.filter(has_diff)
    cells = (
        opened.select("record_id", "position", "cells")
        .explode("cells")
        .unnest("cells")
        .join(
            values.with_columns(is_rebuilt=pl.lit(True)),
            on=["record_id", "position", "column"],
            how="left",
            maintain_order="left",
        )
        .with_columns(pl.when("is_rebuilt").then("value").otherwise("s").alias("s"))
        .group_by("record_id", "position", maintain_order=True)
        .agg(pl.struct("column", "s", "d", "l").alias("cells"))
    )
    mended = opened.drop("cells").join(cells, on=["record_id", "position"], how="left").select(applied.columns)
    return pl.concat([plain, mended.cast(applied.schema)]).sort("position", maintain_order=True)
