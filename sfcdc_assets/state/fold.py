"""Fold: many sparse changes of a record become one, in position order (guarantees 3 and 4).

For each record the fold keeps the last cell of each column, the last header, and what the changes say about the row as
a whole: deleted or not, in doubt or not, and whether any change set every column.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sfcdc_assets.state.changes import UNDECODABLE

SETS_ALL = ("CREATE", "UNDELETE", "READ")
"""Changes that carry every column: nothing of the row before them matters. `READ` is a row read back from the org."""

DOUBTS = ("GAP_CREATE", "GAP_UPDATE", "GAP_DELETE", "GAP_UNDELETE", "GAP_OVERFLOW", "SNAPSHOT", "UNKNOWN", UNDECODABLE)
"""Changes that say something happened but not what."""


@dataclass(frozen=True)
class Folded:
    """`records`: one row a record (`record_id`, `_position`, `_commit_timestamp`, `_commit_user`, `_transaction_key`,
    `is_deleted`, `in_doubt`, each null where the changes say nothing, `sets_all`). `cells`: one row a record and column
    (`record_id`, `column`, `s`, `d`, `l`)."""

    records: pl.DataFrame
    cells: pl.DataFrame


def fold(changes: pl.DataFrame) -> Folded:
    """Fold changes (columns of `CHANGES`, any order of rows) to one entry for each record.

    Folding batch by batch and folding everything at once give the same: last one wins, column by column.
    """
    ordered = changes.sort("position", maintain_order=True)
    kind = pl.col("change_type")
    lifecycle = pl.when(kind == "DELETE").then(True).when(kind.is_in(SETS_ALL)).then(False)
    doubt = pl.when(kind.is_in(DOUBTS)).then(True).when(kind.is_in(SETS_ALL) | (kind == "DELETE")).then(False)
    records = (
        ordered.with_columns(lifecycle.alias("is_deleted"), doubt.alias("in_doubt"))
        .group_by("record_id")
        .agg(
            pl.col("position").last().alias("_position"),
            pl.col("commit_timestamp").last().alias("_commit_timestamp"),
            pl.col("commit_user").last().alias("_commit_user"),
            pl.col("transaction_key").last().alias("_transaction_key"),
            pl.col("is_deleted").drop_nulls().last().alias("is_deleted"),
            pl.col("in_doubt").drop_nulls().last().alias("in_doubt"),
            kind.is_in(SETS_ALL).any().alias("sets_all"),
        )
    )
    cells = (
        ordered.select("record_id", "cells")
        .filter(pl.col("cells").list.len() > 0)
        .explode("cells")
        .unnest("cells")
        .unique(subset=["record_id", "column"], keep="last", maintain_order=True)
    )
    return Folded(records, cells)
