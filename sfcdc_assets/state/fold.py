"""Fold: many sparse changes of a record become one, in position order (guarantees 3 and 4)."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

SETS_ALL = ("CREATE", "UNDELETE")
"""Changes that carry every column: nothing of the row before them matters."""


@dataclass(frozen=True)
class Folded:
    """`records`: one row a record (`record_id`, `_position`, `_commit_timestamp`, `_commit_user`, `_transaction_key`,
    `is_deleted`: null where the changes neither delete nor bring to life). `cells`: the last cell of each record and
    column (`record_id`, `column`, `s`, `d`, `l`)."""

    records: pl.DataFrame
    cells: pl.DataFrame


def fold(changes: pl.DataFrame) -> Folded:
    """Fold changes (columns of `CHANGES`, any order of rows) to one entry for each record.

    Folding batch by batch and folding everything at once give the same: last one wins, column by column.
    """
    ordered = changes.sort("position", maintain_order=True)
    kind = pl.col("change_type")
    lifecycle = pl.when(kind == "DELETE").then(True).when(kind.is_in(SETS_ALL)).then(False)
    records = (
        ordered.with_columns(lifecycle.alias("is_deleted"))
        .group_by("record_id")
        .agg(
            pl.col("position").last().alias("_position"),
            pl.col("commit_timestamp").last().alias("_commit_timestamp"),
            pl.col("commit_user").last().alias("_commit_user"),
            pl.col("transaction_key").last().alias("_transaction_key"),
            pl.col("is_deleted").drop_nulls().last().alias("is_deleted"),
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
