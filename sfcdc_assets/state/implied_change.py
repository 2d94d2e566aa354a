"""Changes that no event of a record tells, but the row of another one does.

An account that becomes a person, or ceases to be one, changes `IsPersonAccount` of its contact; the contact has no
event of it (docs/salesforce-streams.md, "Person accounts"). The account's `PersonContactId` then changes, and that is
noticed whatever brought it into the row: an event, or a reading. What two snapshots may have missed between them is
found by comparing the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.state.steps import SETS_ALL

POINTING, POINTER = "Account", "PersonContactId"
"""The column is there in orgs with person accounts."""
POINTED_AT, FLAG = "Contact", "IsPersonAccount"
"""The flag is true where an account points at the record."""


@dataclass(frozen=True)
class SilentChange:
    """A record of `POINTED_AT` that changed with the row of another one, and has no event of it."""

    record_id: str
    position: int
    detail: str


def silently_changed(
    before: pl.DataFrame, changes: pl.DataFrame, after: pl.DataFrame, columns: Sequence[Column]
) -> list[SilentChange]:
    """Records of `POINTED_AT` that changed with the rows, from `before` to `after`.

    `changes`: those that were applied. A new row is compared with its create, which had a contact's own create beside
    it; one without a create was read from the org, and what it pointed at before is not known.
    """
    index = next((number for number, column in enumerate(columns) if column.name == POINTER), None)
    if index is None:
        return []
    known = before.select("Id", pl.col(POINTER).alias("was"))
    created = _created(changes, index).join(known, on="Id", how="anti")
    moved = (
        after.select("Id", pl.col("_position").alias("position"), pl.col(POINTER).alias("is"))
        .join(pl.concat([known, created]), on="Id", how="left")
        .filter(pl.col("is").ne_missing(pl.col("was")))
    )
    named = moved.unpivot(["was", "is"], index=["Id", "position"], value_name="record_id").drop_nulls("record_id")
    detail = pl.format("Account {} has another {}", "Id", pl.lit(POINTER))
    found = named.select("record_id", "position", detail.alias("detail"))
    return [SilentChange(**each) for each in found.iter_rows(named=True)]


def _created(changes: pl.DataFrame, index: int) -> pl.DataFrame:
    """What each record pointed at by its first create (or undelete) in the batch."""
    complete = changes.filter(pl.col("change_type").is_in(SETS_ALL)).sort("position", maintain_order=True)
    cell = pl.col("cells").list.filter(pl.element().struct.field("column") == index).list.first().struct.field("s")
    return complete.unique("record_id", keep="first", maintain_order=True).select(
        pl.col("record_id").alias("Id"), cell.alias("was")
    )


def not_in_step(pointing: pl.DataFrame, pointed_at: pl.DataFrame) -> list[str]:
    """Ids of the records whose `FLAG` is not what the pointing rows say; of both sides the living rows."""
    pointed = (
        pointing.select(pl.col(POINTER).alias("Id")).drop_nulls().unique().with_columns(is_pointed_at=pl.lit(True))
    )
    both = pointed_at.join(pointed, on="Id", how="left")
    wrong = pl.col(FLAG).fill_null(False) != pl.col("is_pointed_at").fill_null(False)
    return both.filter(wrong)["Id"].sort().to_list()


def dated(reads: pl.DataFrame, rows: pl.DataFrame, *, in_doubt_too: bool = False) -> pl.DataFrame:
    """The reads with `dated`, since when their values are valid: `_system_modstamp`, which a silent change leaves as it
    was; `_read_at` for a record that is gone.

    A row that nothing held, and that the org has not modified since by its own account, had its values until it was
    read, for all that is known; `_read_at` stands in for the time. `in_doubt_too`: a snapshot answers doubts about the
    whole entity, which hold rows that nobody may have touched.
    """
    free = rows.filter(~pl.col("_in_doubt") | in_doubt_too).select("Id", pl.col("_commit_timestamp").alias("event_at"))
    return (
        reads.join(free, on="Id", how="left", maintain_order="left")
        .with_columns(
            pl.when(pl.col("_system_modstamp") <= pl.col("event_at"))
            .then(pl.col("_read_at"))
            .otherwise(pl.coalesce("_system_modstamp", "_read_at"))
            .alias("dated")
        )
        .drop("event_at")
    )
