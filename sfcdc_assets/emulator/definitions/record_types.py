"""Record types: kinds of records of one object, which `RecordTypeId` names. An object has those of its file
(`record_types`), and accounts of an org with person accounts have two of their own. A new record gets the first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sfcdc_assets.emulator.definitions.field_notation import field_definition
from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.org.ids import BASE62, new_id
from sfcdc_assets.emulator.records.person_account import BUSINESS_TYPE, PERSON_TYPE, has_person_accounts

FIELD = "RecordTypeId"
_PREFIX = "012"
_MOST = 100


def with_record_types(definition: ObjectDefinition, names: Sequence[str]) -> ObjectDefinition:
    """Return the object with further record types; the first ones bring the field, behind the object's first own
    one."""
    fields = definition.fields
    if definition.field(FIELD) is None:
        options = {"type": "reference", "to": "RecordType", "label": "Record Type ID"}
        at = 1 + next(n for n, field in enumerate(fields) if field.name not in {"Id", "IsDeleted"})
        fields = (*fields[:at], field_definition(definition.name, FIELD, options), *fields[at:])
    return replace(definition, fields=fields, record_types=(*definition.record_types, *names))


@dataclass(frozen=True)
class RecordType:
    """One record type of an object; `id` has 18 characters."""

    id: str
    entity: str
    name: str
    developer_name: str
    is_person: bool = False


def record_types(definition: ObjectDefinition, instance: str) -> tuple[RecordType, ...]:
    """Return those of an object, the default first. `instance`: the characters of the org's instance in ids."""
    if has_person_accounts(definition):
        business = RecordType(BUSINESS_TYPE, definition.name, "Business Account", "Business_Account")
        return business, RecordType(PERSON_TYPE, definition.name, "Person Account", "PersonAccount", is_person=True)
    # Ids follow from the object's prefix, so that they stay the same whatever other objects come and go.
    place = sum(BASE62.index(letter) * 62**power for power, letter in enumerate(definition.key_prefix))
    return tuple(
        RecordType(new_id(_PREFIX, instance, place * _MOST + number), definition.name, name, developer_name(name))
        for number, name in enumerate(definition.record_types, 1)
    )


def developer_name(name: str) -> str:
    """`Partner_Campaign` of `Partner Campaign`."""
    return re.sub(r"\W+", "_", name)
