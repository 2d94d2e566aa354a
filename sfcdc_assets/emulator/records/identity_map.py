"""The records that an open transaction has read or written, each once (Fowler, "Identity Map"): who reads one again
sees what the transaction has made of it, and at the end each comes to one change."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.ids import to_18
from sfcdc_assets.emulator.org.store import RecordStore
from sfcdc_assets.emulator.org.transaction import RecordChange, StoredValue
from sfcdc_assets.emulator.records.record_links import Link
from sfcdc_assets.emulator.records.touched_record import TouchedRecord, collapsed
from sfcdc_assets.emulator.rest.rest_view import ReplacedRow

_STAMPS = frozenset({"LastModifiedDate", "SystemModstamp"})


class IdentityMap:
    """What every kind of DML reads and writes records by. Raises RecordError for what is not there."""

    _as_client = False

    def __init__(
        self,
        definitions: Mapping[str, ObjectDefinition],
        store: RecordStore,
        *,
        user_id: str,
        timestamp: int,
        modstamp: int | None = None,
        locked: Container[str] = (),
        is_in_order: bool = False,
    ) -> None:
        """`timestamp` (epoch ms, whole seconds) goes into the audit fields of all records; `modstamp`, if it is
        another, is their SystemModstamp. `locked`: ids of records that another transaction has written and not
        committed; to write one is refused with UNABLE_TO_LOCK_ROW. `is_in_order`: no record's stamp goes back."""
        self._locked = locked
        self._is_in_order = is_in_order
        self.user_id = user_id
        self.timestamp = timestamp
        self.modstamp = timestamp if modstamp is None else modstamp
        self._definitions = definitions
        self._store = store
        self._touched: dict[str, TouchedRecord] = {}

    def knows(self, entity: str) -> bool:
        """Return whether the org has the object."""
        return entity in self._definitions

    def fields(self, entity: str) -> Mapping[str, FieldDefinition]:
        """Return an object's fields by name. Raises RecordError."""
        return self._definition(entity).fields_by_name

    def is_live(self, entity: str, record_id: str) -> bool:
        """Return whether there is such a record, and not in the recycle bin."""
        return self._store.exists(self._definition(entity), record_id)

    def live_record(self, entity: str, record_id: str) -> Mapping[str, StoredValue]:
        """Return the stored fields of a live record as the transaction sees it; reading is no change. Raises
        RecordError."""
        was_touched = set(self._touched)
        record = self._live(self._definition(entity), record_id)
        if record.now is not None and record.now["Id"] not in was_touched:
            del self._touched[str(record.now["Id"])]  # changes are in the order of the first one of each record
        return dict(record.now or {})

    def references_to(self, parent: str) -> Iterator[tuple[ObjectDefinition, FieldDefinition]]:
        """Object and field of the references to an object that deletes and merges concern."""
        for definition in self._definitions.values():
            for field in definition.foreign_keys:
                if parent in field.reference_to:
                    yield definition, field

    def referring_ids(self, entity: str, field: str, record_id: str) -> list[str]:
        """Ids of an object's live records whose reference names a record."""
        definition = self._definition(entity)
        return self._store.referring_ids(definition, definition.fields_by_name[field], record_id)

    def add_child_event(self, event_id: str, child_id: str) -> None:
        """Let a calendar event be another one's copy in the calendar of somebody who is invited."""
        self._store.links.add(Link.CHILD_EVENT, event_id, child_id)

    def child_events(self, event_id: str) -> list[str]:
        """Return the ids of the live copies of a calendar event."""
        return [each for each in self._store.links.of(Link.CHILD_EVENT, event_id) if self.is_live("Event", each)]

    def set_read_only(
        self, entity: str, record_id: str, values: Mapping[str, StoredValue], *, touch: bool = True
    ) -> None:
        """Set fields that only the org itself fills in (roll-ups, EmailBouncedDate, converted lead fields), as
        stored values."""
        record = self._live(self._definition(entity), record_id)
        self._write(record, {**values, **self._modified(touch=touch)})
        record.modified = record.modified or touch

    def set_silently(self, entity: str, record_id: str, values: Mapping[str, StoredValue]) -> None:
        """Set fields of a record without an event, unless it has one in this transaction anyway."""
        record = self._live(self._definition(entity), record_id)
        record.is_silent = record.before is record.now
        self._write(record, {**values, "SystemModstamp": self.modstamp})

    def set_unstamped(self, entity: str, record_id: str, values: Mapping[str, StoredValue]) -> None:
        """Set fields of a record without an event and without moving any of its stamps, as a date that has come does
        to the status of contracts."""
        record = self._live(self._definition(entity), record_id)
        record.is_silent = record.before is record.now
        self._write(record, values)

    def archive(self, entity: str, record_id: str) -> None:
        """Archive an activity in the database: IsArchived is set, which no event carries, so that its event is a gap,
        and only queryAll shows the record."""
        definition = self._definition(entity)
        if "IsArchived" not in definition.fields_by_name:
            raise RecordError("INVALID_OPERATION", f"{entity} records are not archived")
        record = self._live(definition, record_id)
        self._write(record, {"IsArchived": True, "SystemModstamp": self.modstamp})
        record.is_database_change = True

    def written_ids(self) -> list[str]:
        """Return the ids of the records that were written, which others cannot write before the end."""
        return [record_id for record_id, record in self._touched.items() if record.now is not record.before]

    def replaced_rows(self) -> list[ReplacedRow]:
        """Return what the transaction found, for whoever wants to see the records as they were."""
        return [ReplacedRow(record.definition, record_id, record.before) for record_id, record in self._touched.items()]

    def _changes(self) -> tuple[RecordChange, ...]:
        """One change a record, in order of first touch."""
        return tuple(
            change
            for record_id, record in self._touched.items()
            if (change := collapsed(record_id, record)) is not None
        )

    def _definition(self, entity: str) -> ObjectDefinition:
        definition = self._definitions.get(entity)
        if definition is None:
            raise RecordError("NOT_FOUND", "The requested resource does not exist", status=404)
        return definition

    def _existing(self, definition: ObjectDefinition, record_id: str) -> TouchedRecord:
        try:
            id18 = to_18(record_id)
        except ValueError:
            raise RecordError("MALFORMED_ID", f"bad id {record_id}") from None
        record = self._touched.get(id18)
        if record is None or record.definition.name != definition.name:
            row = self._store.stored(definition, id18)
            if row is None:
                raise RecordError("NOT_FOUND", "The requested resource does not exist", status=404)
            record = self._touched[id18] = TouchedRecord(definition, before=row, now=row)
        elif record.now is None:
            raise RecordError("ENTITY_IS_DELETED", "entity is deleted", status=404)
        return record

    def _live(self, definition: ObjectDefinition, record_id: str) -> TouchedRecord:
        record = self._existing(definition, record_id)
        if not record.is_alive:
            raise RecordError("ENTITY_IS_DELETED", "entity is deleted", status=404)
        return record

    def _write(self, record: TouchedRecord, values: Mapping[str, StoredValue]) -> None:
        if record.now is None:
            raise RecordError("ENTITY_IS_DELETED", "entity is deleted", status=404)
        values = self._known(record.definition, values)
        record_id = str(record.now["Id"])
        if record_id in self._locked:
            message = f"unable to obtain exclusive access to this record or 1 records: {record_id}"
            raise RecordError("UNABLE_TO_LOCK_ROW", message)
        if self._is_in_order:
            values = {name: _not_before(record.now, name, value) for name, value in values.items()}
        self._store.update(record.definition, record_id, values)
        record.now = {**record.now, **values}
        record.written.update(values)

    def _known(self, definition: ObjectDefinition, values: Mapping[str, StoredValue]) -> dict[str, StoredValue]:
        """Return those of the values that the object has fields for: not every one has all stamps."""
        return {name: value for name, value in values.items() if name in definition.fields_by_name}

    def _check_written(self, definition: ObjectDefinition, operation: str) -> None:
        """Raise RecordError if a client writes what only the org itself does."""
        if self._as_client and not definition.is_written:
            message = f"entity type {definition.label} does not support {operation}"
            raise RecordError("INVALID_TYPE_FOR_OPERATION", message)

    def _modified(self, *, touch: bool = True) -> dict[str, StoredValue]:
        """Return the audit fields of a change; of one by the org itself (`touch` is false) only SystemModstamp
        moves."""
        if not touch:
            return {"SystemModstamp": self.modstamp}
        return {
            "LastModifiedDate": self.timestamp,
            "LastModifiedById": self.user_id,
            "SystemModstamp": self.modstamp,
        }


def _not_before(row: Mapping[str, StoredValue], name: str, value: StoredValue) -> StoredValue:
    """Return a stamp that is not before the record's last one: whoever changed it then had committed when this
    transaction came to it."""
    before = row.get(name)
    if name in _STAMPS and isinstance(before, int) and isinstance(value, int):
        return max(before, value)
    return value
