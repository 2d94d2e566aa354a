"""What a transaction writes into the histories, shares and feeds of the records it changed. Nobody but the org does.

A history says `created` of a new record, and has a row for each tracked field that changed, two where it is a lookup:
one with names, one with ids. Rows have whole seconds, and their order within one means nothing. Of texts longer than
255 and of multi-select picklists it is only said that they changed (Object Reference, "StandardObjectNameHistory";
Salesforce Help, "Field History Tracking").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sfcdc_assets.emulator.definitions.object_access import CompanionKind
from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.org.transaction import CREATE, DELETE, UNDELETE, UPDATE, RecordChange, StoredValue
from sfcdc_assets.emulator.records.field_value import datetime_text

if TYPE_CHECKING:
    from sfcdc_assets.emulator.records.dml import Dml

_LONGEST = 255
_SWAPPED_BITS = 5
_QUEUED = frozenset({"Case", "Lead"})
"""Objects whose owners assignment rules choose."""
_DATA_TYPES = {
    "boolean": "Boolean", "int": "Double", "double": "Double", "currency": "Currency", "percent": "Percent",
    "date": "DateOnly", "datetime": "DateTime", "picklist": "DynamicEnum", "multipicklist": "MultiEnum",
    "reference": "EntityId", "email": "Email", "phone": "PhoneNumber", "url": "Url", "textarea": "TextArea",
}  # fmt: skip
Row = dict[str, StoredValue]


def write_companions(work: Dml, changes: Sequence[RecordChange]) -> bool:
    """Write the rows that these changes give; whether there are any."""
    has_any, companions = False, work.companions()
    for change in changes:
        for companion in companions.get(change.entity, ()):
            has_any = _write(work, companion, change) or has_any
    return has_any


def _write(work: Dml, companion: ObjectDefinition, change: RecordChange) -> bool:
    definition = work.definition(change.entity)
    link = companion.companion
    if link is None or change.record_id.endswith("*"):
        return False
    if link.kind is CompanionKind.SHARE:
        return _share(work, companion, change, link.parent_field)
    rows = list(_history(work, definition, change))
    if link.kind is CompanionKind.FEED:
        of_change: Row = {"Type": "TrackedChange", "LikeCount": 0, "CommentCount": 0}
        rows = [of_change] if rows and change.change_type == UPDATE else []
    for row in rows:
        work.add_row(companion, {link.parent_field: change.record_id, **row})
    return bool(rows)


def created_row() -> Row:
    """Return the row of a history that says that the record was created."""
    return {"Field": "created", "DataType": "Text"}


def _history(work: Dml, definition: ObjectDefinition, change: RecordChange) -> Iterator[Row]:
    if change.change_type == CREATE:
        yield created_row()
    if change.change_type != UPDATE or change.before is None or change.after is None:
        return
    if change.before.get("MasterRecordId") is None and change.after.get("MasterRecordId") is not None:
        return
    for name in definition.tracked:
        field = definition.fields_by_name.get(name)
        before, after = change.before.get(name), change.after.get(name)
        if field is not None and before != after:
            yield from _changed(work, definition, field, before, after)


def _changed(
    work: Dml, definition: ObjectDefinition, field: FieldDefinition, before: StoredValue, after: StoredValue
) -> Iterator[Row]:
    name = field.name
    if field.type == "reference":
        name = name if field.custom else name.removesuffix("Id")
        if name == "Owner" and definition.name in _QUEUED and work.is_automated:
            name = "ownerAssignment"
        named = {"OldValue": work.name_of(before), "NewValue": work.name_of(after)}
        yield {"Field": name, "DataType": "Text", **named}
    is_withheld = field.type == "multipicklist" or field.length > _LONGEST or field.encrypted
    yield {
        "Field": name,
        "DataType": _DATA_TYPES.get(field.type, "Text"),
        "OldValue": None if is_withheld else _written(field, before),
        "NewValue": None if is_withheld else _written(field, after),
    }


def _written(field: FieldDefinition, value: StoredValue) -> StoredValue:
    if isinstance(value, bool):
        return "true" if value else "false"
    if field.type == "datetime" and isinstance(value, int):
        return datetime_text(value, "+0000")
    return value


def _share(work: Dml, companion: ObjectDefinition, change: RecordChange, parent_field: str) -> bool:
    """Give the record's owner all access; a new owner has another row. With the record its shares are gone."""
    before, after = change.before or {}, change.after or {}
    owner = after.get("OwnerId")
    is_back = change.change_type in (CREATE, UNDELETE)
    if change.change_type == DELETE or owner is None or not (is_back or before.get("OwnerId") != owner):
        return False
    for record_id in work.referring_ids(companion.name, parent_field, change.record_id):
        if work.live_record(companion.name, record_id)["RowCause"] == "Owner":
            work.delete(companion.name, record_id)
    work.add_row(companion, share_row(companion, parent_field, change.record_id, owner))
    return True


def share_row(companion: ObjectDefinition, parent_field: str, record_id: str, owner: StoredValue) -> Row:
    """Return an owner's share of a record."""
    level = next(field.name for field in companion.fields if field.name.endswith("AccessLevel"))
    return {parent_field: record_id, "UserOrGroupId": owner, level: "All", "RowCause": "Owner"}


def names_from(definition: ObjectDefinition, record: Mapping[str, StoredValue] | None) -> StoredValue:
    """Return what a record is called."""
    if record is None or definition.name_field is None:
        return None
    return record.get(definition.name_field)


def swapped(number: int) -> int:
    """Return the number that a row has in place of the next one: neighbours, up to eight, change places, so that ids do
    not tell the order in which rows came."""
    return number ^ _SWAPPED_BITS
