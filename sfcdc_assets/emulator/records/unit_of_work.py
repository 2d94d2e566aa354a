"""The DML of one transaction (Fowler, "Unit of Work"). Creates and updates are here, deletes in recycle_bin.py, changes
of whole columns in column_change.py."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.ids import to_18
from sfcdc_assets.emulator.org.store import RecordStore
from sfcdc_assets.emulator.org.transaction import RecordChange, StoredValue, Transaction
from sfcdc_assets.emulator.records import calendar_event, lead_conversion, record_merge
from sfcdc_assets.emulator.records.column_change import ColumnChanges
from sfcdc_assets.emulator.records.companion_rows import names_from, swapped, write_companions
from sfcdc_assets.emulator.records.field_value import stored_value
from sfcdc_assets.emulator.records.given_values import GivenValues
from sfcdc_assets.emulator.records.new_record import new_row, required_field_missing
from sfcdc_assets.emulator.records.opportunity_stage import has_stages, stage_of
from sfcdc_assets.emulator.records.person_account import (
    after_create,
    after_update,
    created_values,
    has_person_accounts,
)
from sfcdc_assets.emulator.records.recycle_bin import RecycleBin
from sfcdc_assets.emulator.records.roll_up import RollUps
from sfcdc_assets.emulator.records.touched_record import TouchedRecord

_AUDIT = frozenset({"CreatedDate", "CreatedById", "LastModifiedDate", "LastModifiedById"})


class UnitOfWork(RecycleBin, ColumnChanges):
    """The open transaction. Each method writes its record whole or raises RecordError having written nothing."""

    def __init__(  # noqa: PLR0913 - who writes, when, and what of it is as only the org does it
        self,
        definitions: Mapping[str, ObjectDefinition],
        store: RecordStore,
        *,
        user_id: str,
        timestamp: int,
        modstamp: int | None = None,
        hidden_fields: Callable[[str], Collection[str]] | None = None,
        before_create: Callable[[], None] | None = None,
        as_client: bool = False,
        locked: Container[str] = (),
        is_in_order: bool = False,
        purged_shown: int = 0,
    ) -> None:
        """`timestamp`, `modstamp`, `locked`, `is_in_order`: see IdentityMap. `hidden_fields`: by object, what whoever
        makes the changes does not know. `before_create` raises RecordError where no further record may be created.
        `as_client`: what only the org itself writes is refused.
        `purged_shown`: how long (ms) queryAll shows what was removed for good."""
        super().__init__(
            definitions,
            store,
            user_id=user_id,
            timestamp=timestamp,
            modstamp=modstamp,
            locked=locked,
            is_in_order=is_in_order,
        )
        self._as_client = as_client
        self.sets_audit_fields = False
        """Whether the audit fields of a new record may be given."""
        self.is_automated = False
        self._purged_shown = purged_shown
        self.committed: Transaction | None = None
        """The transaction, once the block has ended and if it changed anything."""
        self._before_create = before_create
        self._given = GivenValues(definitions, store, hidden_fields or (lambda _entity: ()))

    merge = record_merge.merge
    convert_lead = lead_conversion.convert_lead

    def create(self, entity: str, values: Mapping[str, object], *, number: int | None = None) -> str:
        """Insert a record; returns its 18-character id. Defaults, owner, autonumbers and audit fields are filled in.
        `number`: a reserved one, in place of the next."""
        definition = self._definition(entity)
        self._check_written(definition, "create")
        values, audit = self._audit_values(definition, values)
        is_account = has_person_accounts(definition)
        if is_account:
            values = created_values(definition, values)
        elif entity == "Event" and self.has_calendar:
            values = calendar_event.created_values(values)
        elif entity == "EventRelation" and self.has_calendar:
            self._given.checked(definition, values, creating=True)
            values = calendar_event.before_invite(self, values)
        given = self._given.checked(definition, values, creating=True)
        if self._before_create is not None:
            self._before_create()
        number = self._store.reserve(definition) if number is None else number
        record_id = self._store.record_id(definition, number)
        row = new_row(definition, given, number=number, owner_id=self.user_id, instance=self._store.instance)
        created = {"CreatedDate": self.timestamp, "CreatedById": self.user_id, **self._modified()}
        row.update({"Id": record_id, **self._known(definition, {**created, **audit})})
        self._store.insert(definition, row)
        self._touched[record_id] = TouchedRecord(definition, before=None, now=row)
        if is_account:
            after_create(self, definition, record_id)
        if entity == "Event" and self.has_calendar:
            calendar_event.after_create(self, record_id)
        return record_id

    def _audit_values(
        self, definition: ObjectDefinition, values: Mapping[str, object]
    ) -> tuple[Mapping[str, object], dict[str, StoredValue]]:
        """Return the given values without audit fields, and those as they are stored, where they may be given."""
        if not self.sets_audit_fields:
            return values, {}
        fields = {name: definition.field(name) for name in values if name in _AUDIT}
        audit = {field.name: stored_value(field, values[field.name]) for field in fields.values() if field is not None}
        return {name: value for name, value in values.items() if name not in audit}, audit

    def update(self, entity: str, record_id: str, values: Mapping[str, object], *, touch: bool = True) -> None:
        """Set fields of a live record. `touch=False` is a change by the org itself: only SystemModstamp moves
        (geocoding)."""
        definition = self._definition(entity)
        self._check_written(definition, "update")
        record = self._live(definition, record_id)
        is_event = entity == "Event" and self.has_calendar
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
            if value is None and not definition.fields_by_name[name].nillable:
                raise required_field_missing(definition.fields_by_name[name])
        self._write(record, {**given, **self._modified(touch=touch)})
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

    def finish(self, roll_ups: RollUps) -> tuple[RecordChange, ...]:
        """Bring roll-up summaries up to date and collapse all DML: one change a record, in order of first touch."""
        if of_column := self._column_changes(roll_ups):
            return of_column
        changes, has_stale = self._changes(), False
        for parent, parent_id, values in roll_ups.stale(changes):
            if self._store.exists(self._definitions[parent], parent_id):
                self.set_read_only(parent, parent_id, values)
                has_stale = True
        changes = self._changes() if has_stale else changes
        self._as_client = False  # what follows the org writes itself
        return self._changes() if write_companions(self, changes) else changes

    def companions(self) -> Mapping[str, Sequence[ObjectDefinition]]:
        """Return the objects that tell of other ones' records, by those."""
        found: dict[str, list[ObjectDefinition]] = {}
        for each in self._definitions.values():
            if each.companion is not None:
                found.setdefault(each.companion.parent, []).append(each)
        return found

    def definition(self, entity: str) -> ObjectDefinition:
        """Return an object. Raises RecordError."""
        return self._definition(entity)

    def name_of(self, record_id: StoredValue) -> StoredValue:
        """Return what the record is called that a lookup names."""
        parent = None if record_id is None else self._of_prefix(str(record_id))
        return None if parent is None else names_from(parent, self._store.record(parent, str(record_id), {}))

    def add_row(self, definition: ObjectDefinition, values: Mapping[str, StoredValue]) -> None:
        """Add a row of a companion, silently. Neighbouring ids are not in the order in which the rows come."""
        number = swapped(self._store.reserve(definition))
        record_id = self._store.record_id(definition, number)
        row = dict.fromkeys((field.name for field in definition.stored_fields), None)
        created = {"CreatedDate": self.timestamp, "CreatedById": self.user_id, **self._modified()}
        row.update({"Id": record_id, "IsDeleted": False, **self._known(definition, created), **values})
        self._store.insert(definition, row)
        self._touched[record_id] = TouchedRecord(definition, before=None, now=row, is_silent=True)
