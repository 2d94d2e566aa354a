"""The recycle bin: records go there with their details, and come back with them (Apex Developer Guide, "Deleting
Records").

A delete cascades to what is deleted with the record and clears lookups (referential_integrity.py); an undelete takes
all of it back. Each record of a cascade raises its own DELETE or UNDELETE, each lookup an UPDATE whose LastModifiedDate
stays: the Change Data Capture Developer Guide has the former ("Overflow Events"), and nothing of the latter.
"""

from __future__ import annotations

from collections.abc import Mapping

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.ids import to_18
from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.emulator.records import calendar_event
from sfcdc_assets.emulator.records.cleared_lookups import ClearedLookup
from sfcdc_assets.emulator.records.dml import Dml
from sfcdc_assets.emulator.records.person_account import on_both
from sfcdc_assets.emulator.records.record_links import Link
from sfcdc_assets.emulator.records.referential_integrity import consequences_of_delete
from sfcdc_assets.emulator.records.touched_record import TouchedRecord


class RecycleBin(Dml):
    """Deletes, undeletes and purges."""

    _purged_shown = 0

    def delete(self, entity: str, record_id: str) -> None:
        """Move a live record to the recycle bin: IsDeleted and SystemModstamp change, nothing else. Its details go with
        it, lookups to it are cleared. Raises RecordError DELETE_FAILED while a record refers to it that must not."""
        record = self._live(self._deleted_by_client(entity), record_id)
        together = self._together(entity, record)
        consequences = consequences_of_delete(self, together)
        self._delete(together, record)
        for child, child_id in consequences.deleted:
            if self.is_live(child, child_id):
                self.delete_with(together[0][1], child, child_id)
        for each in consequences.cleared:
            if self.is_live(each.child.name, each.child_id):
                self._clear(each.parent_id, each.child.name, each.child_id, each.field.name)

    def delete_with(self, parent_id: str, entity: str, record_id: str) -> None:
        """Move a live record to the recycle bin because of another one, which brings it back when it is restored."""
        record = self._live(self._deletable(entity), record_id)
        self._delete(self._together(entity, record), record)
        self._store.links.add(Link.DELETED_WITH, parent_id, to_18(record_id))

    def delete_into(self, entity: str, record_id: str, master_id: str) -> None:
        """Move a live record to the recycle bin because it was merged into another one; what refers to it stays, but
        for its history, its shares and its feed."""
        record = self._live(self._deletable(entity), record_id)
        self._write(record, {"IsDeleted": True, "MasterRecordId": master_id, "SystemModstamp": self.modstamp})
        record.master_record_id = master_id
        for child, field in self.references_to(entity):
            if child.companion is not None:
                for child_id in self.referring_ids(child.name, field.name, to_18(record_id)):
                    self.delete_with(to_18(record_id), child.name, child_id)

    def undelete(self, entity: str, record_id: str) -> None:
        """Take a record back from the recycle bin, with those that went there because of it and the lookups that named
        it. Its own lookups of records that are deleted become null; one that may not be refuses the undelete."""
        self._deleted_by_client(entity)
        self._undelete(entity, record_id, frozenset())

    def hard_delete(self, entity: str, record_id: str) -> None:
        """Remove a record for good, with what was deleted with it. A live one raises a DELETE event; emptying the
        recycle bin raises none."""
        record = self._existing(self._deleted_by_client(entity), record_id)
        together = self._together(entity, record)
        if record.is_alive:
            self.delete(entity, record_id)
        for each_entity, each_id in together:
            self._purge(each_entity, each_id)

    def _deleted_by_client(self, entity: str) -> ObjectDefinition:
        self._check_written(self._definition(entity), "delete")
        return self._deletable(entity)

    def _deletable(self, entity: str) -> ObjectDefinition:
        definition = self._definition(entity)
        if not definition.deletable:
            raise RecordError("INSUFFICIENT_ACCESS_OR_READONLY", f"{entity} records cannot be deleted")
        return definition

    def _together(self, entity: str, record: TouchedRecord) -> list[tuple[str, str]]:
        """Object and id of the record, and of the contact if it is a person account; both are touched. Raises
        RecordError for the contact of one."""
        row = record.now or {}
        found = [(entity, str(row["Id"]))]
        on_both(entity, row, lambda other, other_id: found.append((other, other_id)))
        for other, other_id in found[1:]:
            self._existing(self._definition(other), other_id)
        return found

    def _delete(self, together: list[tuple[str, str]], record: TouchedRecord) -> None:
        for _, record_id in together:
            self._write(self._touched[record_id], {"IsDeleted": True, "SystemModstamp": self.modstamp})
        for entity, record_id in together:
            if self._definition(entity).access.purged_on_delete:
                self._purge(entity, record_id)
        if self.has_calendar:
            if together[0][0] == "Event":
                calendar_event.after_delete(self, record.now or {})
            elif together[0][0] == "EventRelation":
                calendar_event.after_uninvite(self, record.now or {})

    @property
    def has_calendar(self) -> bool:
        """Whether the org has series of calendar events."""
        return "Event" in self._definitions and calendar_event.PATTERN in self._definitions["Event"].fields_by_name

    def _clear(self, parent_id: str, child: str, child_id: str, field: str) -> None:
        self.set_read_only(child, child_id, {field: None}, touch=False)
        self._store.cleared_lookups.add(ClearedLookup(parent_id, child, child_id, field))

    def _undelete(self, entity: str, record_id: str, beside: frozenset[str]) -> None:
        """`beside`: the ids of the records that come back with it."""
        definition = self._deletable(entity)
        record = self._existing(definition, record_id)
        if record.is_alive or self._store.is_purged(definition, to_18(record_id)):
            raise RecordError("UNDELETE_FAILED", "Entity is not in the recycle bin")
        together = self._together(entity, record)
        lost = [each for each in self._lost_lookups(definition, record.now or {}) if each.parent_id not in beside]
        for each in lost:
            if not definition.fields_by_name[each.field].nillable:
                message = f"the record that {each.field} refers to is deleted: {each.parent_id}"
                raise RecordError("UNDELETE_FAILED", message, (each.field,))
        for _, each_id in together:
            self._write(self._touched[each_id], {"IsDeleted": False, "SystemModstamp": self.modstamp})
        values: dict[str, StoredValue] = {each.field: None for each in lost}
        if "MasterRecordId" in definition.fields_by_name:
            values["MasterRecordId"] = None
        if values:
            self._write(record, values)
        for each in lost:
            self._store.cleared_lookups.add(each)
        for _, each_id in together:
            self._restore_with(each_id)

    def _lost_lookups(self, definition: ObjectDefinition, row: Mapping[str, StoredValue]) -> list[ClearedLookup]:
        """Return what the record refers to and is not there any more."""
        lost = []
        for field in definition.foreign_keys:
            value = row[field.name]
            parent = None if value is None else self._of_prefix(str(value))
            if parent is not None and parent.name in field.reference_to and not self.is_live(parent.name, str(value)):
                lost.append(ClearedLookup(str(value), definition.name, str(row["Id"]), field.name))
        return lost

    def _restore_with(self, parent_id: str) -> None:
        """Restore what went with a record that is back."""
        gone = self._taken_along(parent_id)
        for child, child_id in gone:
            if not self.is_live(child, child_id):  # an earlier one may have brought it back
                self._undelete(child, child_id, frozenset(each for _, each in gone))
        for each in self._store.cleared_lookups.take(parent_id):
            is_free = self.is_live(each.child, each.child_id) and (
                self.live_record(each.child, each.child_id)[each.field] is None
            )
            if is_free:
                self.set_read_only(each.child, each.child_id, {each.field: parent_id}, touch=False)

    def _taken_along(self, parent_id: str) -> list[tuple[str, str]]:
        """Object and id of what went into the bin because of a record and is there still; it is not known any more."""
        found = []
        for record_id in self._store.links.of(Link.DELETED_WITH, parent_id):
            definition = self._of_prefix(record_id)
            row = None if definition is None else self._store.stored(definition, record_id)
            if definition is not None and row is not None and row["IsDeleted"]:
                found.append((definition.name, record_id))
        self._store.links.forget(Link.DELETED_WITH, parent_id)
        return found

    def _purge(self, entity: str, record_id: str) -> None:
        record = self._existing(self._definition(entity), record_id)
        stamp = (record.now or {}).get("SystemModstamp")
        deleted_at = stamp if isinstance(stamp, int) else self.timestamp
        is_shown = self._purged_shown > 0 and not record.definition.access.purged_on_delete
        until = self.timestamp + self._purged_shown if is_shown else None
        self._store.purge(record.definition, record_id, deleted_at, shown_until=until)
        record.now = None
        self._store.cleared_lookups.take(record_id)
        for child, child_id in self._taken_along(record_id):
            self._purge(child, child_id)

    def _of_prefix(self, record_id: str) -> ObjectDefinition | None:
        """Return the object of a record's id; None if the org has it no more."""
        return next((each for each in self._definitions.values() if each.key_prefix == record_id[:3]), None)
