"""A record that an open transaction has written, and the one change that all of its DML comes to."""

from __future__ import annotations

from dataclasses import dataclass, field

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.org.transaction import CREATE, DELETE, UNDELETE, UPDATE, RecordChange, StoredValue


@dataclass
class TouchedRecord:
    """A record the transaction has written: its values before the transaction and now (None: no such row)."""

    definition: ObjectDefinition
    before: dict[str, StoredValue] | None
    now: dict[str, StoredValue] | None
    written: set[str] = field(default_factory=set)
    """Names of the fields that were set, to whatever value."""
    modified: bool = False
    """A client updated it: LastModifiedDate is in the event even if its whole second is the same as before."""
    master_record_id: str | None = None
    is_silent: bool = False
    """The org itself changed it and raises no event."""
    is_database_change: bool = False
    """It was changed past the application, in fields that events do not carry."""

    @property
    def was_alive(self) -> bool:
        """Whether it was there before the transaction, and not in the recycle bin."""
        return self.before is not None and not self.before.get("IsDeleted", False)

    @property
    def is_alive(self) -> bool:
        """Whether it is there now, and not in the recycle bin."""
        return self.now is not None and not self.now.get("IsDeleted", False)


def collapsed(record_id: str, record: TouchedRecord) -> RecordChange | None:
    """One change from the record's state before and after the transaction, whatever DML lay between
    (docs/salesforce-streams.md, "Transactions and order")."""
    entity = record.definition.name
    if record.is_alive and record.before is None:
        return RecordChange(entity, record_id, CREATE, None, record.now, is_silent=record.is_silent)
    if record.is_alive and not record.was_alive:
        return RecordChange(entity, record_id, UNDELETE, record.before, record.now)
    if record.was_alive and not record.is_alive:
        return RecordChange(entity, record_id, DELETE, record.before, None, master_record_id=record.master_record_id)
    if record.before is None or record.now is None or not record.is_alive:
        return None
    before, now = record.before, record.now
    changed = tuple(
        name
        for name in record.definition.event_field_names
        if name in record.written
        and (before.get(name) != now.get(name) or (record.modified and name == "LastModifiedDate"))
    )
    if record.is_database_change:
        return RecordChange(entity, record_id, UPDATE, record.before, record.now, changed, is_database_change=True)
    if not changed:
        # Its stamp may have moved all the same, or what events do not carry.
        return None if before == now else RecordChange(entity, record_id, UPDATE, before, now, is_silent=True)
    is_silent = record.is_silent and not record.modified
    return RecordChange(entity, record_id, UPDATE, before, now, changed, is_silent=is_silent)
