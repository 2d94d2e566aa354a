"""All DML of one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from sfcdc_assets.emulator import calendar_event
from sfcdc_assets.emulator.cascade_delete import dependants
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.given_values import GivenValues
from sfcdc_assets.emulator.ids import to_18
from sfcdc_assets.emulator.lead_conversion import CONVERTED_STATUS, ConvertedLead, convert_lead
from sfcdc_assets.emulator.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.opportunity_stage import has_stages, stage_of
from sfcdc_assets.emulator.person_account import (
    after_create,
    after_update,
    created_values,
    has_person_accounts,
    on_both,
)
from sfcdc_assets.emulator.record_merge import merged_ids
from sfcdc_assets.emulator.record_types import FIELD as RECORD_TYPE
from sfcdc_assets.emulator.record_types import record_types
from sfcdc_assets.emulator.rest_view import ReplacedRow
from sfcdc_assets.emulator.roll_up import RollUps
from sfcdc_assets.emulator.silent_changes import SilentChange
from sfcdc_assets.emulator.store import Link, RecordStore
from sfcdc_assets.emulator.touched_record import TouchedRecord, collapsed
from sfcdc_assets.emulator.transaction import UPDATE, RecordChange, StoredValue, Transaction


class UnitOfWork:
    """The open transaction. Each method writes its record whole or raises RecordError having written nothing."""

    def __init__(
        self,
        definitions: Mapping[str, ObjectDefinition],
        store: RecordStore,
        *,
        user_id: str,
        timestamp: int,
        modstamp: int | None = None,
        hidden_fields: Callable[[str], Collection[str]] | None = None,
        cascades: bool = False,
        before_create: Callable[[], None] | None = None,
    ) -> None:
        """`timestamp` (epoch ms, whole seconds) goes into the audit fields of all records; `modstamp`, if it is
        another, is their SystemModstamp. `hidden_fields`: by object, what whoever makes the changes does not know.
        `cascades`: whether a delete takes the record's children along if nothing else is said. `before_create` raises
        RecordError where no further record may be created."""
        self.user_id = user_id
        self.timestamp = timestamp
        self.modstamp = timestamp if modstamp is None else modstamp
        self.committed: Transaction | None = None
        """The transaction, once the block has ended and if it changed anything."""
        self._definitions = definitions
        self._store = store
        self._before_create = before_create
        self._given = GivenValues(definitions, store, hidden_fields or (lambda entity: ()))
        self._touched: dict[str, TouchedRecord] = {}
        self._cleared: RecordChange | None = None
        self._cleared_values: dict[str, StoredValue] = {}
        self._converted: tuple[RecordChange, ...] = ()
        self._cascades = cascades

    def create(self, entity: str, values: Mapping[str, object]) -> str:
        """Insert a record; returns its 18-character id. Defaults, owner, autonumbers and audit fields are filled in."""
        definition = self._definition(entity)
        if has_person_accounts(definition):
            values = created_values(definition, values)
        elif self._is_calendar("Event", entity):
            values = calendar_event.created_values(values)
        elif self._is_calendar("EventRelation", entity):
            self._given.checked(definition, values, creating=True)
            values = calendar_event.before_invite(self, values)
        given = self._given.checked(definition, values, creating=True)
        if self._before_create is not None:
            self._before_create()
        number = self._store.reserve(definition)
        record_id = self._store.record_id(definition, number)
        row: dict[str, StoredValue] = {}
        for field in definition.stored_fields:
            if field.name in given and (given[field.name] is not None or field.default is None):
                row[field.name] = given[field.name]
            elif field.auto_number is not None:
                row[field.name] = auto_number(field.auto_number, number)
            elif field.name == "OwnerId":
                row[field.name] = self.user_id
            elif field.name == RECORD_TYPE and (types := record_types(definition, self._store.instance)):
                row[field.name] = types[0].id
            else:
                row[field.name] = field.default
            if row[field.name] is None and not field.nillable and field.createable:
                raise RecordError(
                    "REQUIRED_FIELD_MISSING", f"Required fields are missing: [{field.name}]", (field.name,)
                )
        if entity == "Opportunity" and has_stages(definition):
            stage = stage_of(row["StageName"])
            row.update(stage.read_only)
            row.update({name: value for name, value in stage.proposed.items() if row[name] is None})
        row.update(Id=record_id, CreatedDate=self.timestamp, CreatedById=self.user_id, **self._modified())
        self._store.insert(definition, row)
        self._touched[record_id] = TouchedRecord(definition, before=None, now=row)
        if has_person_accounts(definition):
            after_create(self, definition, record_id)
        if self._is_calendar("Event", entity):
            calendar_event.after_create(self, record_id)
        return record_id

    def update(self, entity: str, record_id: str, values: Mapping[str, object], *, touch: bool = True) -> None:
        """Set fields of a live record. `touch=False` is a change by the org itself: only SystemModstamp moves
        (geocoding)."""
        definition = self._definition(entity)
        record = self._live(definition, record_id)
        is_event = self._is_calendar("Event", entity)
        if is_event:
            values = calendar_event.updated_values(record.now or {}, values)
        given = self._given.checked(definition, values, creating=False, record_id=record_id)
        if is_event and calendar_event.is_rescheduled(record.now or {}, given):
            calendar_event.reschedule(self, to_18(record_id), given)
            return
        if entity == "Opportunity" and "StageName" in given and has_stages(definition):
            stage = stage_of(given["StageName"])
            given = {**stage.proposed, **given, **stage.read_only}
        for name, value in given.items():
            field = definition.fields_by_name[name]
            if value is None and not field.nillable:
                raise RecordError("REQUIRED_FIELD_MISSING", f"Required fields are missing: [{name}]", (name,))
        self._write(record, {**given, **(self._modified() if touch else {"SystemModstamp": self.modstamp})})
        record.modified = record.modified or touch
        account = self._definitions.get("Account")
        if entity in ("Account", "Contact") and account is not None and has_person_accounts(account):
            after_update(self, account, entity, record_id, set(given), touch=touch)
        if is_event:
            calendar_event.after_update(self, to_18(record_id), set(given))

    def reschedule(self, event_id: str, values: Mapping[str, object]) -> str:
        """Change the pattern or the start of a series of calendar events, which makes it another one; the id of its
        master."""
        master = self.live_record("Event", event_id)
        given = self._given.checked(
            self._definition("Event"), calendar_event.updated_values(master, values), creating=False, record_id=event_id
        )
        if not calendar_event.is_rescheduled(master, given):
            raise RecordError("INVALID_OPERATION", "neither the pattern nor the start of a series is another one")
        return calendar_event.reschedule(self, to_18(event_id), given)

    def set_read_only(
        self, entity: str, record_id: str, values: Mapping[str, StoredValue], *, touch: bool = True
    ) -> None:
        """Set fields that only the org itself fills in (roll-ups, EmailBouncedDate, converted lead fields), as
        stored values."""
        record = self._live(self._definition(entity), record_id)
        self._write(record, {**values, **(self._modified() if touch else {"SystemModstamp": self.modstamp})})
        record.modified = record.modified or touch

    def set_silently(self, entity: str, record_id: str, values: Mapping[str, StoredValue]) -> None:
        """Set fields of a record without an event, unless it has one in this transaction anyway."""
        record = self._live(self._definition(entity), record_id)
        record.is_silent = record.before is record.now
        self._write(record, {**values, "SystemModstamp": self.modstamp})

    def referring_ids(self, entity: str, field: str, record_id: str) -> list[str]:
        """Ids of an object's live records whose reference names a record."""
        definition = self._definition(entity)
        return self._store.referring_ids(definition, definition.fields_by_name[field], record_id)

    def delete(self, entity: str, record_id: str, *, cascade: bool | None = None) -> None:
        """Move a live record to the recycle bin: IsDeleted and SystemModstamp change, nothing else. With `cascade`
        (None: as the org is set up) its children go too."""
        record = self._live(self._deletable(entity), record_id)
        self._write(record, {"IsDeleted": True, "SystemModstamp": self.modstamp})
        self._with_contact(entity, record, self._move_to_bin)
        if self._is_calendar("Event", entity):
            calendar_event.after_delete(self, record.now or {})
        elif self._is_calendar("EventRelation", entity):
            calendar_event.after_uninvite(self, record.now or {})
        if self._cascades if cascade is None else cascade:
            for child, child_id in list(dependants(self, self._definitions, entity, to_18(record_id))):
                if self.is_live(child, child_id):
                    self.delete_with(to_18(record_id), child, child_id)

    def delete_with(self, parent_id: str, entity: str, record_id: str) -> None:
        """Move a live record to the recycle bin because of another one, which brings it back when it is restored."""
        self.delete(entity, record_id, cascade=False)
        self._store.link(Link.DELETED_WITH, parent_id, to_18(record_id))

    def _undelete_with(self, parent_id: str) -> None:
        by_prefix = {definition.key_prefix: definition for definition in self._definitions.values()}
        gone = self._store.linked(Link.DELETED_WITH, parent_id)
        self._store.unlink(Link.DELETED_WITH, parent_id)
        for record_id in gone:
            row = self._store.stored(by_prefix[record_id[:3]], record_id)
            if row is not None and row["IsDeleted"]:
                self.undelete(by_prefix[record_id[:3]].name, record_id)

    def archive(self, entity: str, record_id: str) -> None:
        """Archive an activity in the database: IsArchived is set, which no event carries, so that its event is a gap,
        and only queryAll shows the record."""
        definition = self._definition(entity)
        if "IsArchived" not in definition.fields_by_name:
            raise RecordError("INVALID_OPERATION", f"{entity} records are not archived")
        record = self._live(definition, record_id)
        self._write(record, {"IsArchived": True, "SystemModstamp": self.modstamp})
        record.is_database_change = True

    def _move_to_bin(self, entity: str, record_id: str) -> None:
        self._write(
            self._live(self._definition(entity), record_id), {"IsDeleted": True, "SystemModstamp": self.modstamp}
        )

    def _take_back(self, entity: str, record_id: str) -> None:
        record = self._existing(self._definition(entity), record_id)
        self._write(record, {"IsDeleted": False, "SystemModstamp": self.modstamp})

    def _purge(self, entity: str, record_id: str) -> None:
        definition = self._definition(entity)
        record = self._existing(definition, record_id)
        self._store.purge(definition, record_id, self.timestamp)
        record.now = None

    def _with_contact(self, entity: str, record: TouchedRecord, work: Callable[[str, str], None]) -> None:
        """The same with the contact of a person account."""
        on_both(entity, record.now or record.before or {}, work)

    def undelete(self, entity: str, record_id: str) -> None:
        """Take a record back from the recycle bin, with those that went there because of it."""
        definition = self._deletable(entity)
        record = self._existing(definition, record_id)
        if record.is_alive:
            raise RecordError("UNDELETE_FAILED", "Entity is not in the recycle bin")
        values: dict[str, StoredValue] = {"IsDeleted": False, "SystemModstamp": self.modstamp}
        if "MasterRecordId" in definition.fields_by_name:
            values["MasterRecordId"] = None
        self._write(record, values)
        self._with_contact(entity, record, self._take_back)
        self._undelete_with(to_18(record_id))

    def hard_delete(self, entity: str, record_id: str) -> None:
        """Remove a record for good. A live one raises a DELETE event; emptying the recycle bin raises none."""
        definition = self._deletable(entity)
        record = self._existing(definition, record_id)
        self._with_contact(entity, record, self._purge)
        if self._is_calendar("Event", entity) and record.is_alive:
            calendar_event.after_delete(self, record.now or {})
        self._store.purge(definition, to_18(record_id), self.timestamp)
        record.now = None

    def clear_field(self, entity: str, name: str, *, is_retyped: bool = False) -> None:
        """Null a field of all records, deleted ones too, as a change to an incompatible type does
        (docs/salesforce-streams.md, "Wildcard ids").

        It is one change, of the record id `001*`, and must be the transaction's only one. Audit fields stay.
        `is_retyped`: the type has been changed and the values with it; only the change is left to be told.
        """
        definition = self._definition(entity)
        field = definition.field(name)
        if field is None:
            raise RecordError("INVALID_FIELD", f"No such column '{name}' on sobject of type {definition.name}", (name,))
        if self._touched or self._cleared or self._converted:
            raise RecordError("INVALID_OPERATION", "a field is cleared in a transaction of its own")
        if not is_retyped:
            if (
                not field.is_stored
                or not field.updateable
                or not field.nillable
                or field.type in {"boolean", "reference"}
            ):
                raise RecordError(
                    "INVALID_OPERATION", f"{entity}.{field.name} cannot be cleared for all records", (name,)
                )
            self._cleared_values = self._store.values(definition, field)
            self._store.clear_column(definition, field)
        self._cleared = RecordChange(entity, definition.key_prefix + "*", UPDATE, None, None, (field.name,))

    def convert_field(self, entity: str, name: str, old_values: Mapping[str, StoredValue]) -> None:
        """Say of the live records among `old_values` that the type of a field changed and the value with it, as
        Salesforce does where it converts values (docs/salesforce-streams.md, "Field type conversions"). Must be the
        transaction's only DML; audit fields stay."""
        definition = self._definition(entity)
        if self._touched or self._cleared or self._converted:
            raise RecordError("INVALID_OPERATION", "a field is converted in a transaction of its own")
        self._converted = tuple(
            RecordChange(
                entity,
                str(row["Id"]),
                UPDATE,
                {**row, name: old_values[str(row["Id"])]},
                row,
                (name,),
                is_conversion=True,
            )
            for row in self._store.records(definition, include_deleted=False, fields=definition.stored_fields)
            if row["Id"] in old_values
        )

    def silent_changes(self, after_commit: int) -> list[SilentChange]:
        """What the changes of the transaction do not say: the values that a cleared field had."""
        if self._cleared is None or not self._cleared_values:
            return []
        replaced = {self._cleared.changed_fields[0]: self._cleared_values}
        return [SilentChange(self._cleared.entity, after_commit, replaced=replaced)]

    def merge(self, entity: str, master_id: str, loser_ids: tuple[str, ...], *, reparent: bool = False) -> None:
        """Merge records into the master: losers go to the recycle bin with MasterRecordId set, the master is
        touched; with `reparent`, records that refer to a loser refer to the master."""
        definition = self._deletable(entity)
        master, *losers = merged_ids(definition, self._store, master_id, loser_ids)
        for loser_id in losers:
            loser = self._live(definition, loser_id)
            self._write(loser, {"IsDeleted": True, "MasterRecordId": master, "SystemModstamp": self.modstamp})
            loser.master_record_id = master
            if reparent:
                self._reparent(entity, loser_id, master)
        self.update(entity, master, {})

    def convert_lead(
        self,
        lead_id: str,
        *,
        account_id: str | None = None,
        contact_id: str | None = None,
        opportunity: bool = True,
        opportunity_name: str | None = None,
        status: str = CONVERTED_STATUS,
    ) -> ConvertedLead:
        """Make an account, a contact and (unless `opportunity` is false) an opportunity of a lead, in this order, then
        mark the lead; an account or contact that is named is used instead of a new one."""
        return convert_lead(
            self,
            lead_id,
            account_id=account_id,
            contact_id=contact_id,
            opportunity=opportunity,
            opportunity_name=opportunity_name,
            status=status,
        )

    def _is_calendar(self, name: str, entity: str) -> bool:
        """Whether the object is the one of that name, in an org that has series of calendar events."""
        if entity != name or "Event" not in self._definitions:
            return False
        return calendar_event.PATTERN in self._definitions["Event"].fields_by_name

    def knows(self, entity: str) -> bool:
        """Whether the org has the object."""
        return entity in self._definitions

    def is_live(self, entity: str, record_id: str) -> bool:
        """Whether there is such a record, and not in the recycle bin."""
        return self._store.exists(self._definition(entity), record_id)

    def add_child_event(self, event_id: str, child_id: str) -> None:
        """Let a calendar event be another one's copy in the calendar of somebody who is invited."""
        self._store.link(Link.CHILD_EVENT, event_id, child_id)

    def child_events(self, event_id: str) -> list[str]:
        """The ids of the live copies of a calendar event."""
        return [each for each in self._store.linked(Link.CHILD_EVENT, event_id) if self.is_live("Event", each)]

    def live_record(self, entity: str, record_id: str) -> Mapping[str, StoredValue]:
        """The stored fields of a live record as the transaction sees it; reading is no change. Raises RecordError."""
        was_touched = set(self._touched)
        record = self._live(self._definition(entity), record_id)
        if record.now is not None and record.now["Id"] not in was_touched:
            del self._touched[str(record.now["Id"])]  # changes are in the order of the first one of each record
        return dict(record.now or {})

    def fields(self, entity: str) -> Mapping[str, FieldDefinition]:
        """An object's fields by name. Raises RecordError."""
        return self._definition(entity).fields_by_name

    def replaced_rows(self) -> list[ReplacedRow]:
        """What the transaction found, for whoever wants to see the records as they were."""
        return [ReplacedRow(record.definition, record_id, record.before) for record_id, record in self._touched.items()]

    def finish(self, roll_ups: RollUps) -> tuple[RecordChange, ...]:
        """Bring roll-up summaries up to date and collapse all DML: one change a record, in order of first touch."""
        if self._cleared is not None:
            for _, _, roll_up in roll_ups.summaries:
                if self._cleared.entity == roll_up.child and self._cleared.changed_fields[0] == roll_up.field:
                    raise RecordError("DEPENDENCY_EXISTS", f"{roll_up.field} is summed up by another object")
            return (self._cleared,)
        if self._converted:
            return self._converted
        for parent, parent_id, values in roll_ups.stale(self._changes()):
            if self._store.exists(self._definitions[parent], parent_id):
                self.set_read_only(parent, parent_id, values)
        return self._changes()

    def _reparent(self, entity: str, loser: str, master: str) -> None:
        for definition in self._definitions.values():
            for field in definition.stored_fields:
                if entity not in field.reference_to or field.name == "MasterRecordId":
                    continue
                for child_id in self._store.referring_ids(definition, field, loser):
                    self.set_read_only(definition.name, child_id, {field.name: None if child_id == master else master})

    def _changes(self) -> tuple[RecordChange, ...]:
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

    def _deletable(self, entity: str) -> ObjectDefinition:
        definition = self._definition(entity)
        if not definition.deletable:
            raise RecordError("INSUFFICIENT_ACCESS_OR_READONLY", f"{entity} records cannot be deleted")
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
        self._store.update(record.definition, str(record.now["Id"]), values)
        record.now = {**record.now, **values}

    def _modified(self) -> dict[str, StoredValue]:
        return {
            "LastModifiedDate": self.timestamp,
            "LastModifiedById": self.user_id,
            "SystemModstamp": self.modstamp,
        }


def auto_number(display_format: str, number: int) -> str:
    """`INV-{00000}` and 7 give `INV-00007`; a longer number is not cut."""
    before, braces, rest = display_format.partition("{")
    zeros, _, after = rest.partition("}")
    return f"{before}{number:0{len(zeros)}d}{after}" if braces else f"{before}{number}"
