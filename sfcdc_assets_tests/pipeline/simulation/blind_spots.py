"""What nobody who reads the stream can know of a simulated: which cells, from when until when, and why.

Each spot is as small as it can be known from the org's own log, the diary, and the ledger. A history without
silent changes and without holes has none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

from sfcdc_assets.change_events.columns import Absence, columns_of_arrow_schema
from sfcdc_assets.emulator.org.transaction import RecordChange, Transaction
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.timeline.untrusted_rows import SAYS_NOTHING
from sfcdc_assets_tests.pipeline.oracle import column_fields
from sfcdc_assets_tests.pipeline.simulation.diary import SnapshotTaken, Unseen
from sfcdc_assets_tests.pipeline.simulation.read_tables import ms, rows_of
from sfcdc_assets_tests.pipeline.simulation.simulated_history import SimulatedHistory

SETS_ALL = ("CREATE", "UNDELETE")


@dataclass(frozen=True)
class BlindSpot:
    """Times are ms of the simulated clock, `since` is in it, `until` is not; None stands for all records, or fields."""

    entity: str
    record_id: str | None
    field: str | None
    since: float
    until: float
    why: str

    def covers(self, entity: str, record_id: str, field: str | None, moment: int) -> bool:
        """Whether a cell (without a field: whether there is such a record) is in it."""
        return (
            self.entity == entity
            and self.record_id in (None, record_id)
            and (self.field is None or (field is not None and self.field.lower() == field.lower()))
            and self.since <= moment < self.until
        )


class BlindSpots:
    """Those of one simulated history that is over."""

    def __init__(self, simulated: SimulatedHistory) -> None:
        self._simulated = simulated
        self._read: dict[str, list[dict[str, Any]]] = {}
        self._transactions = list(simulated.org.transactions())
        self._times = {each.commit_number: each.commit_timestamp for each in self._transactions}
        self._touched: dict[tuple[str, str], list[int]] = defaultdict(list)
        for transaction in self._transactions:
            for change in transaction.changes:
                self._touched[change.entity, change.record_id].append(transaction.commit_timestamp)
        self.all = [
            *self._unread_fields(),
            *self._silent_changes(),
            *self._hidden_fields(),
            *self._suspects(),
            *self._unseen(),
            *self._changed_and_deleted(),
            *self._created_and_deleted(),
        ]
        self._of: dict[str, list[BlindSpot]] = defaultdict(list)
        for spot in self.all:
            self._of[spot.entity].append(spot)

    def cover(self, entity: str, record_id: str, field: str | None, moment: int) -> bool:
        """Whether a cell is in any of them."""
        return any(spot.covers(entity, record_id, field, moment) for spot in self._of[entity])

    def replaced_after(self, entity: str, commit_number: int) -> frozenset[str]:
        """Names, in small letters, of fields whose values changed at once after that transaction and before the next
        one: of the org right after it nobody knows whether a table that has read them since stands before or after."""
        silent = (each for each in self._simulated.org.silent_changes() if each.after_commit == commit_number)
        return frozenset(name.lower() for each in silent if each.entity == entity for name in each.replaced)

    def _unread_fields(self) -> Iterator[BlindSpot]:
        """What records had in a field when it came, or was hidden at first: known once it is read."""
        names = defaultdict(set)
        for number in (0, *self._times, self._simulated.org.last_commit_number + 1):
            for entity, definition in self._simulated.org.definitions_at(number).items():
                names[entity].update(field.name for field in column_fields(definition))
        came = {
            (silent.entity, name): number
            for number, silent in enumerate(self._simulated.org.silent_changes(), 1)
            for name in (*silent.added, *silent.renamed.values())
        }
        for entity, of_entity in names.items():
            for name in sorted(of_entity):
                # One that differs by its case alone was another field, or had another name, before it came.
                reads = [s for s in self._simulated.diary.snapshots if s.entity == entity and _has(s.fields, name)]
                read = next((s for s in reads if s.silent >= came.get((entity, name), 0)), None)
                yield BlindSpot(entity, None, name, 0, read.done_at if read else inf, "never read before")

    def _silent_changes(self) -> Iterator[BlindSpot]:
        """Values of all records that changed at once, by a type that did or a wildcard: known when they are read.

        Events from before that a reading is not with a watermark after are applied on top of it, and undo what they
        knew nothing of, until the next reading."""
        for number, silent in enumerate(self._simulated.org.silent_changes()):
            since = self._times.get(silent.after_commit, 0)
            earlier = max((checkpoint for checkpoint, time in self._event_times() if time <= since), default=0)
            later = [s for s in self._simulated.diary.snapshots if s.entity == silent.entity and s.silent > number]
            for name in silent.replaced:
                reads = [s for s in later if _has(s.fields, name)]  # one that is hidden is not read
                read = next((s for s in reads if s.position >= earlier), reads[0] if reads else None)
                yield BlindSpot(silent.entity, None, name, since, read.done_at if read else inf, "silent change")

    def _hidden_fields(self) -> Iterator[BlindSpot]:
        """What changes in a field while it is hidden: known when it changes again in sight, or is read again. A null
        that comes when the client has found it hidden may be one that hides, so it is not believed either."""
        since: dict[tuple[str, str, str], int] = {}
        for transaction in self._transactions:
            for change in transaction.changes:
                hidden = self._hidden_at(change.entity, transaction)
                definition = self._simulated.org.definitions_at(transaction.commit_number)[change.entity]
                sets_all = change.change_type in SETS_ALL
                for name in [f.name for f in definition.stored_fields] if sets_all else change.changed_fields:
                    cell = (change.entity, change.record_id, name)
                    if name in hidden or self._comes_as_null_of_a_hidden_field(transaction, change, name):
                        since.setdefault(cell, transaction.commit_timestamp)
                    elif cell in since:
                        yield self._hidden_spot(*cell, since.pop(cell), transaction.commit_timestamp)
        for cell, first in since.items():
            yield self._hidden_spot(*cell, first, inf)

    def _comes_as_null_of_a_hidden_field(self, transaction: Transaction, change: RecordChange, name: str) -> bool:
        if (change.after or {}).get(name) is not None:
            return False
        absences = self._absences(change.entity).get(name.lower(), ())
        positions = self._positions[transaction.transaction_key, change.record_id] if absences else ()
        return any(
            each.since <= position and (each.until is None or position < each.until)
            for each in absences
            for position in positions
        )

    def _absences(self, entity: str) -> dict[str, tuple[Absence, ...]]:
        """Of the columns that their entity's table says to have been absent, by their fields in small letters."""
        table = CurrentState.open(self._simulated.warehouse, entity)
        columns = columns_of_arrow_schema(table.schema) if table else ()
        return {(each.field or each.name).lower(): each.absences for each in columns if each.absences}

    @cached_property
    def _positions(self) -> Mapping[tuple[str, str], Sequence[int]]:
        """Transaction and record -> positions of the events about it."""
        found: dict[tuple[str, str], list[int]] = defaultdict(list)
        for row in self._rows("raw_events"):
            for record_id in row["record_ids"] or ():
                found[row["transaction_key"], record_id].append(row["position"])
        return found

    def _hidden_spot(self, entity: str, record_id: str, name: str, since: int, until: float) -> BlindSpot:
        read = self._first_reading(entity, name, since)
        return BlindSpot(entity, record_id, name, since, min(until, read.done_at if read else inf), "hidden field")

    def _hidden_at(self, entity: str, transaction: Transaction) -> frozenset[str]:
        hidden = [
            each.names
            for each in self._simulated.diary.hidden
            if each.entity == entity and each.after_commit < transaction.commit_number
        ]
        return hidden[-1] if hidden else frozenset()

    def _changed_and_deleted(self) -> Iterator[BlindSpot]:
        """What a transaction had changed in a record before it deleted it: of both there is one event, and that has no
        values. Known when it is read from the recycle bin."""
        for entity in self._simulated.org.definitions:
            in_bin = {str(record["Id"]): record for record in self._simulated.org.records(entity, include_deleted=True)}
            for transaction in self._transactions:
                for change in transaction.changes:
                    record = in_bin.get(change.record_id) if change.entity == entity else None
                    if record is None or change.change_type != "DELETE" or not record["IsDeleted"]:
                        continue
                    since = transaction.commit_timestamp
                    for name, value in (change.before or {}).items():
                        if name in record and record[name] != value:
                            read = self._first_reading(entity, name, since)
                            until = read.done_at if read else inf
                            yield BlindSpot(entity, change.record_id, name, since, until, "changed and deleted")

    def _created_and_deleted(self) -> Iterator[BlindSpot]:
        """What one transaction had created and deleted: it is in the recycle bin, and no event is about it. Known when
        it is read from there."""
        for entity in self._simulated.org.definitions:
            for record in self._simulated.org.records(entity, include_deleted=True):
                record_id, since = str(record["Id"]), int(record["CreatedDate"])
                if record["IsDeleted"] and (entity, record_id) not in self._touched:
                    read = next(
                        (s for s in self._simulated.diary.snapshots if s.entity == entity and s.begun_at >= since), None
                    )
                    until = read.done_at if read else inf
                    yield BlindSpot(entity, record_id, None, since, until, "created and deleted")

    def _unseen(self) -> Iterator[BlindSpot]:
        """What changes while it raises no event: known once the entity is read after that has ended."""
        for each in self._simulated.diary.unseen:
            if each.are_hidden:
                yield from self._hidden_records(each)
                continue
            reads = [s for s in self._simulated.diary.snapshots if s.entity == each.entity]
            read = next((s for s in reads if each.until is not None and s.begun_at >= each.until), None)
            yield BlindSpot(each.entity, None, None, each.since, read.done_at if read else inf, "no event")

    def _hidden_records(self, of: Unseen) -> Iterator[BlindSpot]:
        """What no read shows is taken for gone: known when it changes after that has ended, or is read."""
        reads = [s for s in self._simulated.diary.snapshots if s.entity == of.entity]
        read = next((s.done_at for s in reads if of.until is not None and s.begun_at >= of.until), inf)
        for (entity, record_id), times in self._touched.items():
            if entity == of.entity:
                changed = (time for time in times if of.until is not None and time >= of.until)
                yield BlindSpot(entity, record_id, None, of.since, min(read, next(changed, inf)), "hidden record")

    def _suspects(self) -> Iterator[BlindSpot]:
        """Versions between a hole and the reading that closes it; from its last change before the reading on a record
        is known again."""
        events = self._event_times()
        for entity in self._simulated.warehouse.entities("gap_reconciliation"):
            for suspect in rows_of(self._simulated.warehouse, f"gap_reconciliation/{entity}"):
                opened = suspect["opened_position"]
                since = min((time for position, time in events if position >= opened), default=0)
                if all(position != opened for position, _ in events):
                    # An event without a readable header is not in the table: it came at any time since the one before.
                    since = max((time for position, time in events if position < opened), default=0)
                if suspect["reason"] == "new_field":
                    continue  # no event waits for it, and what the field had before it was read is a spot of its own
                if suspect["record_id"] == "*":
                    yield from self._entity_suspect(entity, opened, since)
                else:
                    yield from self._record_suspect(entity, suspect, since)

    def _entity_suspect(self, entity: str, opened: int, since: int) -> Iterator[BlindSpot]:
        read = next((s for s in self._simulated.diary.snapshots if s.entity == entity and s.position >= opened), None)
        until = read.done_at if read else inf
        for (of, record_id), times in self._touched.items():
            if of == entity and any(since <= time <= until for time in times):
                yield BlindSpot(entity, record_id, None, since, until, "entry *")
                yield from self._not_read(entity, record_id, since, until)

    def _record_suspect(self, entity: str, suspect: Mapping[str, Any], since: int) -> Iterator[BlindSpot]:
        """Until a reading that is believed. A snapshot that opens an entry about a record does not end it, and an
        earlier one with the same watermark, which had shown the record, does not either: the later one takes the tables
        back to it, and the record's events wait once more."""
        record_id, opened = suspect["record_id"], suspect["opened_position"]
        rows = [row for row in self._rows(f"snapshot/{entity}") if row["Id"] == record_id]
        untrusted = [row for row in rows if (row["_unread"] or [None])[0] == SAYS_NOTHING]
        numbers = {row["_snapshot"] for row in untrusted}
        of_entry = [SAYS_NOTHING, suspect["reason"], suspect["detail"]]
        doubted_at = max((ms(row["_read_at"]) for row in untrusted if row["_unread"] == of_entry), default=0)
        reads = [ms(row["_read_at"]) for row in rows if row["_position"] >= opened and row["_snapshot"] not in numbers]
        reads += [
            s.done_at
            for s in self._simulated.diary.snapshots
            if s.entity == entity and s.position >= opened and s.number not in numbers
        ]
        until = min((read for read in reads if read > doubted_at), default=inf)
        yield BlindSpot(entity, record_id, None, since, until, "suspect")
        yield from self._not_read(entity, record_id, since, until)

    def _not_read(self, entity: str, record_id: str, since: float, until: float) -> Iterator[BlindSpot]:
        """Fields that were hidden or gone when the entry was closed: what events said of them is gone with it."""
        hidden = {
            name
            for each in self._simulated.diary.hidden
            if each.entity == entity and self._times.get(each.after_commit, 0) <= until
            for name in each.names
        }
        gone = {
            name
            for each in self._simulated.org.silent_changes()
            if each.entity == entity and since <= self._times.get(each.after_commit, 0) <= until
            for name in (*each.replaced, *each.renamed)
        }
        for name in hidden | gone:
            read = self._first_reading(entity, name, until)
            yield BlindSpot(entity, record_id, name, since, read.done_at if read else inf, "not read")

    def _event_times(self) -> list[tuple[int, int]]:
        return [(row["position"], ms(row["commit_timestamp"])) for row in self._rows("raw_events")]

    def _rows(self, table: str) -> list[dict[str, Any]]:
        """Read once."""
        if table not in self._read:
            self._read[table] = rows_of(self._simulated.warehouse, table)
        return self._read[table]

    def _first_reading(self, entity: str, name: str, since: float) -> SnapshotTaken | None:
        found = (s for s in self._simulated.diary.snapshots if s.entity == entity and _has(s.fields, name))
        return next((s for s in found if s.begun_at >= since), None)


def _has(names: Collection[str], name: str) -> bool:
    """Whether a name is among them, in any case."""
    return name in names or name.lower() in {each.lower() for each in names}
