"""Changes that no event of a record reports, but the row of another one does.

An account that becomes a person, or ceases to be one, changes `IsPersonAccount` of its contact; the contact has no
event of it (docs/salesforce-streams.md, "Person accounts"). The account's `PersonContactId` then changes, and that is
noticed whatever brought it into the row: an event, or a reading. What two snapshots may have missed between them is
found by comparing the tables.

The loser of a merge is deleted, as its event says; that it was merged only a read of it shows, and the update of the
master in the same transaction that it may have been.

A read that shows a record as it was modified later than any event of it tells may hide other changes before that one:
those whose events were lost, or those that come after the watermark, where the read is ahead of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import polars as pl

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.hash_key import HashKey
from sfcdc_assets.change_events.value_text import boolean_text
from sfcdc_assets.key_ranges.frames import empty_rows
from sfcdc_assets.timeline.changes import CHANGES, COLUMNS_LEFT_OPEN, COLUMNS_SET
from sfcdc_assets.timeline.steps import READABLE, SETS_ALL, UNKNOWN
from sfcdc_assets.timeline.suspect import NewSuspect, Reason
from sfcdc_assets.timeline.version_columns import STANDS_AT

POINTING, POINTER = "Account", "PersonContactId"
"""The column is there in orgs with person accounts."""
POINTED_AT, FLAG = "Contact", "IsPersonAccount"
"""The flag is true where an account points at the record."""


MERGEABLE = ("Account", "Contact", "Lead", "Case")
_LOSERS = 2
"""The most records that are merged into one master at once (SOAP API Developer Guide, "merge()")."""


@dataclass(frozen=True)
class SilentChange:
    """A record of `POINTED_AT` that changed with the row of another one, and has no event of it."""

    record_id: str
    """Where `POINTER` is hashed, the hash of the Id (see `known_by_hash`)."""
    position: int
    detail: str


def silently_changed(
    before: pl.DataFrame, changes: pl.DataFrame, after: pl.DataFrame, columns: Sequence[Column]
) -> list[SilentChange]:
    """Return records of `POINTED_AT` that changed with the rows, from `before` to `after`.

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
    if columns[index].hash_key is not None:
        detail = pl.lit(f"its account has another {POINTER}")  # which account it is nobody is to know
    found = named.select("record_id", "position", detail.alias("detail"))
    return [SilentChange(**each) for each in found.iter_rows(named=True)]


def _created(changes: pl.DataFrame, index: int) -> pl.DataFrame:
    """Return what each record pointed at by its first create (or undelete) in the batch."""
    complete = changes.filter(pl.col("change_type").is_in(SETS_ALL)).sort("position", maintain_order=True)
    cell = pl.col("cells").list.filter(pl.element().struct.field("column") == index).list.first().struct.field("s")
    return complete.unique("record_id", keep="first", maintain_order=True).select(
        pl.col("record_id").alias("Id"), cell.alias("was")
    )


def may_be_merged(entity: str, headers: pl.DataFrame) -> bool:
    """Return whether records of the entity are merged at all, and events (`change_type`) delete some."""
    return entity in MERGEABLE and "DELETE" in headers["change_type"]


def possibly_merged(headers: pl.DataFrame) -> list[NewSuspect]:
    """Return an entry about each record that may have been merged into another one of its entity.

    `headers`: `position`, `transaction_key`, `change_type`, `record_ids` of events. A transaction that deletes more
    than its updated records can have taken in is none of merges; one that it deletes as well has taken in none. What
    the update has changed tells nothing: any value may have been taken over, or none.
    """
    is_delete, is_update = pl.col("change_type") == "DELETE", pl.col("change_type") == "UPDATE"
    of_records = (
        headers.filter(is_delete | is_update)
        .explode("record_ids")
        .drop_nulls("record_ids")
        .group_by("transaction_key", "record_ids")
        .agg(is_delete.any().alias("gone"))
    )
    taken_in = of_records.group_by("transaction_key").agg(
        pl.col("gone").sum(), (~pl.col("gone")).sum().alias("masters")
    )
    merges = taken_in.filter(pl.col("masters") > 0, pl.col("gone") <= _LOSERS * pl.col("masters"))
    losers = headers.filter(is_delete).join(merges, on="transaction_key", how="semi", maintain_order="left")
    detail = "deleted with an update of another record of the object: it may have been merged"
    return [
        NewSuspect(record_id, Reason.SILENT_CHANGE, position, detail)
        for position, record_id in losers.select("position", "record_ids")
        .explode("record_ids")
        .drop_nulls()
        .iter_rows()
    ]


def not_in_step(
    pointing: pl.DataFrame,
    pointed_at: pl.DataFrame,
    pointer_key: HashKey | None = None,
    flag_key: HashKey | None = None,
) -> list[str]:
    """Ids of the records whose `FLAG` is not what the pointing rows say; of both sides the living rows. The keys are
    those of the two columns where they are hashed."""
    pointed = pointing.select(pl.col(POINTER).alias("named")).drop_nulls().unique()
    ids = pointed_at["Id"]
    named = ids if pointer_key is None else pl.Series([pointer_key.digest(each) for each in ids], dtype=pl.String)
    both = pointed_at.with_columns(named.alias("named")).join(
        pointed.with_columns(is_pointed_at=pl.lit(True)), on="named", how="left"
    )
    flag = pl.col(FLAG) if flag_key is None else pl.col(FLAG) == flag_key.digest(boolean_text(value=True))
    wrong = flag.fill_null(value=False) != pl.col("is_pointed_at").fill_null(value=False)
    return both.filter(wrong)["Id"].sort().to_list()


def known_by_hash(silent: Sequence[SilentChange], record_ids: Sequence[str], key: HashKey | None) -> list[SilentChange]:
    """Return the changes with their records' own Ids, where a hash with `key` stands in their place: those of
    `record_ids` that have it. One that no record has was never copied, and is read whole when it is."""
    if key is None:
        return list(silent)
    wanted = {each.record_id for each in silent}
    by_hash = {hashed: each for each in record_ids if (hashed := key.digest(each)) in wanted}
    return [replace(each, record_id=by_hash[each.record_id]) for each in silent if each.record_id in by_hash]


def dated(reads: pl.DataFrame, rows: pl.DataFrame, *, suspects_too: bool = False) -> pl.DataFrame:
    """Return the reads with `dated`, since when their values are valid: `_system_modstamp`, which a silent change
    leaves as it was; `_read_at` for a record that is gone.

    A row that nothing held, and that the org has not modified since by its own account, had its values until it was
    read, for all that is known; `_read_at` stands in for the time. `suspects_too`: a snapshot answers entries about the
    whole entity, which hold rows that nobody may have touched.
    """
    free = rows.filter(~pl.col("_in_doubt") | suspects_too).select("Id", pl.col("_commit_timestamp").alias("event_at"))
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


def hidden_changes(
    reads: pl.DataFrame,
    rows: pl.DataFrame,
    blocked: pl.DataFrame,
    until: int,
    position: int,
    seen_until: datetime | None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return changes (`CHANGES`, of kind `UNKNOWN`, without values) for what the reads may hide, so that nothing counts
    as certain from there on until the read: those lost after `until`, or after what an earlier read has the row stand
    at, before the `blocked` ones; and those that come after the watermark `position`, after the blocked ones.

    `rows`: those of before; `seen_until`: as in `OrgRead`. A row that differs from its read may hide one too, whatever
    the record's stamp is. A change of before that, which the stream should have
    reported, disproves it for its record: nothing is certain after the last change known.
    """
    known = rows.filter(pl.col("_change_type").is_not_null()).select(
        "Id", pl.col("_commit_timestamp").alias("known"), STANDS_AT.alias("stands_at")
    )
    last = (
        blocked.sort("position", maintain_order=True)
        .group_by(pl.col("record_id").alias("Id"))
        .agg(
            pl.col("commit_timestamp").max().alias("reported"),
            pl.col("commit_timestamp").filter(pl.col("position") <= until).max().alias("of_events"),
            pl.col("change_type").last().is_in(READABLE).alias("says"),
            pl.col("position").max().alias("said_at"),
        )
    )
    modified = reads.select("Id", "_system_modstamp").join(known.with_columns(has_row=True), on="Id", how="left")
    # A record of which blocked events alone tell has versions up to the loss as well, which end there.
    modified = modified.join(last, on="Id", how="left").with_columns(
        pl.col("has_row").fill_null(pl.col("of_events").is_not_null()), pl.coalesce("known", "of_events").alias("known")
    )
    stamp, seen = pl.col("_system_modstamp"), pl.lit(seen_until, pl.Datetime("us", "UTC"))
    is_later = (stamp > pl.col("known")).fill_null(value=True)
    # An earlier read may have answered the same entry for the record: its version comes before.
    after = pl.max_horizontal("stands_at", pl.lit(until)) + 1
    may_be_lost = pl.col("has_row") & (after <= position)
    # Some changes leave the stamp as it was, and those of one second have one.
    changed = _differing(reads, rows, modified.filter(may_be_lost & ~is_later)["Id"], of_certain=True).implode()
    is_lost = may_be_lost & (is_later | pl.col("Id").is_in(changed))
    since = pl.when(stamp.is_null() | (stamp > seen) | ~is_later).then(seen).alias("since")
    lost = modified.filter(is_lost)
    is_ahead = (stamp > pl.max_horizontal("known", "reported")).fill_null(value=False)
    # The one that was lost is the last one before the read already, unless an event comes in between.
    is_same = is_lost & (after == position) & (pl.col("said_at") < position).fill_null(value=True)
    ahead = modified.filter(is_ahead & ~is_same & pl.col("says").fill_null(until == position))
    differing = _differing(reads, rows, ahead.filter(pl.col("says").is_null())["Id"])
    ahead = ahead.filter(pl.col("says").is_not_null() | pl.col("Id").is_in(differing.implode()))
    return _unknown(lost.select("Id", since, after.alias("at"))), _unknown(
        ahead.select("Id", since, pl.lit(position).alias("at"))
    )


def after_gaps(changes: pl.DataFrame, columns: Sequence[Column]) -> pl.DataFrame:
    """Return changes before each of which others may be missing: all that they do not set is left `unproven`. A create
    or undelete sets all."""
    every = pl.Series("every", [list(range(len(columns)))], pl.List(pl.Int32)).new_from_index(0, changes.height)
    unproven = pl.col("every").list.set_difference(COLUMNS_SET).list.set_union(COLUMNS_LEFT_OPEN)
    sets_all = pl.col("change_type").is_in(SETS_ALL)
    left_open = pl.when(sets_all).then("unproven").otherwise(unproven).alias("unproven")
    return changes.with_columns(every).with_columns(left_open).drop("every")


def _differing(reads: pl.DataFrame, rows: pl.DataFrame, ids: pl.Series, *, of_certain: bool = False) -> pl.Series:
    """Return those of the ids of which a read shows another value than their row has; `of_certain`: than one that was
    certain."""
    both = reads.filter(pl.col("Id").is_in(ids.implode())).join(rows, on="Id", suffix=" of the row")
    names = [name for name in reads.columns if name in rows.columns and name != "Id" and name[0] != "_"]
    unread = pl.col("_unread").fill_null(pl.lit([], pl.List(pl.String)))
    differs = [pl.col(name).ne_missing(pl.col(f"{name} of the row")) & ~unread.list.contains(name) for name in names]
    if of_certain:
        certain = pl.col("_certain_fields")
        of_known = pl.col("_change_type").is_not_null()
        is_certain = (of_known & (certain.is_null() | certain.list.contains(name)) for name in names)
        differs = [each & is_so for each, is_so in zip(differs, is_certain, strict=True)]
    return both.filter(pl.any_horizontal(*differs, pl.col("_is_deleted") != pl.col("_is_deleted of the row")))["Id"]


def _unknown(found: pl.DataFrame) -> pl.DataFrame:
    """Return a change of each `Id`, `at` a position and `since` a time."""
    made = found.select(
        pl.col("Id").alias("record_id"),
        pl.col("at").cast(pl.Int64).alias("position"),
        pl.lit(UNKNOWN).alias("change_type"),
        pl.col("since").alias("commit_timestamp"),
    )
    return pl.concat([empty_rows(CHANGES), made], how="diagonal")
