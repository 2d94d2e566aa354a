"""`erasure_receipts`: which records a person had erased, when, by whom and where; and what keeps them out from then on.

A receipt has no value of the record, and of its Id a hash alone. Whoever lands events or notes what was read of the org
asks here first, so nothing brings the record back: no redelivered event, snapshot, read-back, poll, audit or rebuild.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.change_type import ChangeType
from sfcdc_assets.change_events.erased_event import erase_ids
from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.delta.dead_files import dead_files_with, delete_dead_files
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.tables.companions import columns_of_parent
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.record_id import to_18_characters

NAME = "erasure_receipts"

ERASURE_RECEIPTS = pa.schema(
    [
        ("receipt", pa.string()),
        ("entity", pa.string()),
        ("record_sha256", pa.string()),
        ("key_prefix", pa.string()),
        ("step", pa.string()),
        ("on_new_event", pa.string()),
        ("noted_at", pa.timestamp("us", "UTC")),
        ("by", pa.string()),
        ("erased", pa.map_(pa.string(), pa.int64())),
        ("files_deleted", pa.int64()),
        ("cuts_dropped", pa.int64()),
        ("not_erased", pa.list_(pa.string())),
        ("receipt_sha256", pa.string()),
    ]
)
"""One row a record and step."""


_ENDS = frozenset({ChangeType.DELETE.value, ChangeType.GAP_DELETE.value})


class Step(StrEnum):
    """What a row of a receipt says."""

    BEGUN = "begun"
    """From now on the record is kept out; it is being erased."""
    DONE = "done"
    """It is in no table any more."""
    NEW_LIFE = "new_life"
    """An event that was committed later named it: it is a record as any other from then on."""


class OnNewEvent(StrEnum):
    """What an event does that names an erased record and was committed after it was erased."""

    REFUSE = "refuse"
    """Nothing: the record never comes back."""
    NEW_LIFE = "new-life"
    """It starts the record again: what it and later events say, and what the org shows from then on, counts."""


def hash_of(record_id: str) -> str:
    """Return what a receipt has of a record's Id: the lower-case hex SHA-256 of its 18 characters."""
    return hashlib.sha256(to_18_characters(record_id).encode()).hexdigest()


@dataclass(frozen=True)
class Erasure:
    """When a record was erased, what is done with new events of it, and whether one has started it again."""

    at: datetime
    on_new_event: OnNewEvent
    lives: bool = False


@dataclass(frozen=True)
class ErasedRecords:
    """The records that were erased, by the hashes of their Ids."""

    known: Mapping[str, Erasure] = field(default_factory=dict)
    prefixes: frozenset[str] = frozenset()
    """The first three characters of their Ids: all others need no hash."""

    def of(self, record_id: str) -> Erasure | None:
        """Return the erasure of a record; None where it was never erased."""
        return self.known.get(hash_of(record_id)) if record_id[:3] in self.prefixes else None

    def keeps_out(self, record_id: str) -> bool:
        """Return whether what the org shows of a record is not taken: it was erased, and is not started again."""
        found = self.of(record_id)
        return found is not None and not found.lives

    def is_erased_in(self, record_id: str, committed_at: datetime) -> bool:
        """Return whether an event that was committed at a time is kept without this record.

        Salesforce names the second of a commit. An event of the second in which the record was erased may have been
        committed before, so the erasure holds.
        """
        found = self.of(record_id)
        if found is None:
            return False
        return found.on_new_event is OnNewEvent.REFUSE or committed_at.astimezone(UTC) <= found.at

    def others(self, record_ids: Iterable[str]) -> tuple[str, ...]:
        """Return those of the ids that were never erased: what of an event's header is the same before and after."""
        return tuple(each for each in record_ids if self.of(each) is None)

    def without(self, rows: pa.Table, column: str = "Id") -> pa.Table:
        """Return rows read from the org without those that are kept out."""
        if not self.known:
            return rows
        ids = rows[column].to_pylist()
        return rows.filter(pa.array([each is None or not self.keeps_out(each) for each in ids], pa.bool_()))


NONE = ErasedRecords()


def erased_records(warehouse: Warehouse) -> ErasedRecords:
    """Return all records that were erased, from the newest version of the table; read again only when it has
    changed."""
    table = Table.open(warehouse, NAME)
    return table.answer(NAME, lambda: _erased(table)) if table is not None else NONE


def _erased(table: Table) -> ErasedRecords:
    columns = ["record_sha256", "key_prefix", "step", "on_new_event", "noted_at"]
    known: dict[str, Erasure] = {}
    rows = table.scan(columns).sort_by("noted_at").to_pylist()
    for row in rows:
        if row["step"] == Step.BEGUN:
            known[row["record_sha256"]] = Erasure(row["noted_at"].astimezone(UTC), OnNewEvent(row["on_new_event"]))
        elif row["step"] == Step.NEW_LIFE and row["record_sha256"] in known:
            known[row["record_sha256"]] = replace(known[row["record_sha256"]], lives=True)
    return ErasedRecords(known, frozenset(row["key_prefix"] for row in rows))


def without_erased(warehouse: Warehouse, rows: pa.Table) -> pa.Table:
    """Return landed rows of `raw_events` without the records that were erased. Those that an event starts again
    are noted, before the event is landed."""
    erased = erased_records(warehouse)
    if not erased.known or not rows.num_rows:
        return rows
    begun: dict[str, str] = {}
    gone: list[set[str]] = []
    for row in rows.select(["record_ids", "commit_timestamp", "change_type", "entity_name"]).to_pylist():
        out = set()
        for each in row["record_ids"] or ():
            if erased.is_erased_in(each, row["commit_timestamp"]) or (
                # What ends a record begins none: the org's recycle bin still has all values of it.
                row["change_type"] in _ENDS and each not in begun and erased.keeps_out(each)
            ):
                out.add(each)
            elif erased.keeps_out(each):
                begun[each] = row["entity_name"]
        gone.append(out)
    if begun:
        note(warehouse, Step.NEW_LIFE, [(entity, each) for each, entity in begun.items()], OnNewEvent.NEW_LIFE)
    return erase_ids(rows, gone)


def begin_polled_anew(warehouse: Warehouse, entity: str, rows: pa.Table) -> None:
    """Note which erased records a poll starts again: no event tells of a polled object's records, so what counts as one
    is that a living record was stamped later than it was erased. `rows`: with `READ_COLUMNS`, about to be added."""
    erased = erased_records(warehouse)
    if not erased.known or not {"_system_modstamp", "_is_deleted"} <= {*rows.column_names}:
        return
    new = []
    for row in rows.select(["Id", "_system_modstamp", "_is_deleted"]).to_pylist():
        found, stamp = erased.of(row["Id"]), row["_system_modstamp"]
        if found is None or found.lives or stamp is None or row["_is_deleted"]:
            continue
        if not erased.is_erased_in(row["Id"], stamp):
            new.append((entity, row["Id"]))
    if new:
        note(warehouse, Step.NEW_LIFE, new, OnNewEvent.NEW_LIFE)


def without_erased_companions(warehouse: Warehouse, companion: str, rows: pa.Table) -> pa.Table:
    """Return rows read from the org without those that are about a record which is kept out, as the history of a
    contact is. They are noted as erased: nobody misses them."""
    erased = erased_records(warehouse)
    columns = [each for each in columns_of_parent(companion) if each in rows.column_names] if erased.known else []
    found: set[str] = set()
    for column in columns:
        about = rows[column].to_pylist()
        out = pa.array([each is not None and erased.keeps_out(each) for each in about], pa.bool_())
        found |= set(rows.filter(out)["Id"].to_pylist())
        rows = rows.filter(pc.invert(out))
    new = [(companion, each) for each in sorted(found) if erased.of(each) is None]
    for step in (Step.BEGUN, Step.DONE) if new else ():
        note(warehouse, step, new, OnNewEvent.REFUSE, receipt=f"{companion} of erased records")
    return rows


OWN_FILES_SECONDS = 600.0
"""How long ago the file of a commit that is refused now was begun, at most."""


@contextmanager
def refused_without_a_trace(warehouse: Warehouse, table: str, column: str) -> Iterator[None]:
    """Commit rows to a table, `column` naming their records: if that is refused because some of these were erased
    meanwhile, nothing is left of the file that was written for it."""
    try:
        yield
    except ConcurrentCommit:
        erased = erased_records(warehouse)

        def holds(rows: pa.Table) -> bool:
            ids = pc.list_flatten(rows[column]) if pa.types.is_list(rows[column].type) else rows[column]
            return any(each is not None and erased.of(each) is not None for each in ids.unique().to_pylist())

        if erased.known:
            since = time.time() - OWN_FILES_SECONDS
            delete_dead_files(warehouse, table, dead_files_with(warehouse, table, [column], holds, since=since))
        raise


@dataclass(frozen=True)
class Done:
    """What came of an erasure: rows erased by table, files that were deleted, cuts that were dropped, and what could
    not be erased, in words."""

    erased: Mapping[str, int] = field(default_factory=dict)
    files_deleted: int = 0
    cuts_dropped: int = 0
    not_erased: Sequence[str] = ()


@retry_on_conflict
def note(
    warehouse: Warehouse,
    step: Step,
    records: Collection[tuple[str, str]],
    on_new_event: OnNewEvent,
    *,
    receipt: str = "",
    by: str = "",
    done: Done | None = None,
) -> None:
    """Note a step for records, each with its entity, in one commit. Raises `ConcurrentCommit`."""
    table = Table.open_or_create(warehouse, NAME, ERASURE_RECEIPTS)
    now = clock.now()
    found = done or Done()
    rows = [
        _signed(
            {
                "receipt": receipt,
                "entity": entity,
                "record_sha256": hash_of(record_id),
                "key_prefix": record_id[:3],
                "step": step.value,
                "on_new_event": on_new_event.value,
                "noted_at": now,
                "by": by,
                "erased": sorted(found.erased.items()),
                "files_deleted": found.files_deleted,
                "cuts_dropped": found.cuts_dropped,
                "not_erased": list(found.not_erased),
            }
        )
        for entity, record_id in records
    ]
    table.append(pa.Table.from_pylist(rows, schema=ERASURE_RECEIPTS), {NAME: table.version + 1}, {})


def _signed(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with the hash of all that it says, as JSON with sorted names and times in ISO 8601."""
    said = json.dumps({**row, "noted_at": row["noted_at"].isoformat()}, sort_keys=True, separators=(",", ":"))
    return {**row, "receipt_sha256": hashlib.sha256(said.encode()).hexdigest()}
