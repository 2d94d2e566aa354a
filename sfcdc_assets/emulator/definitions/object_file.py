"""Reads object definitions from YAML: one file an object, one line a field, so a user adds an object without code.

    name: Invoice_Statement__c          # `__c` makes it custom
    label: Invoice Statement
    key_prefix: a00                     # first three characters of its record ids
    fields:                             # in the order of the object's change events
      - Name: {type: autonumber, format: "INV-{00000}"}
      - Amount__c: {type: currency, required: true}
      - Status__c: {type: picklist, values: [Draft, Sent], default: Draft, restricted: true}
      - Account__c: {type: reference, to: Account, relationship: Account__r}
      - Order__c: {type: master_detail, to: Order__c}     # required, for ever, and deletes cascade
      - Location__c: {type: location}   # brings Location__Latitude__s and Location__Longitude__s
      - Total__c: {type: currency, formula: "Amount__c * 1.2"}

`Id`, `IsDeleted` and the audit fields (CreatedDate, CreatedById, LastModifiedDate, LastModifiedById, SystemModstamp)
are implied; the word `audit` as an entry says where the latter stand, otherwise they follow the last standard field.
The docstring of field_notation.py explains the types and keys of a field. Several files in a folder make the org.
`record_types: [Partner, Customer]` beside `fields` gives the object those, and the field RecordTypeId.
`audit: [CreatedDate, CreatedById]` says which of the audit fields the object has, if not all of them, and `access` what
is special about reading and writing it (object_access.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from sfcdc_assets.emulator.definitions.field_notation import fields_of
from sfcdc_assets.emulator.definitions.object_access import ObjectAccess
from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.errors import ObjectDefinitionError


def system_field(name: str, label: str, type_: str, **facts: Any) -> FieldDefinition:
    """Return a field that nobody but the org sets, and that always has a value."""
    return FieldDefinition(
        name=name, label=label, type=type_, nillable=False, createable=False, updateable=False, **facts
    )


def audit_fields() -> tuple[FieldDefinition, ...]:
    """Return those of who and when, in the order of describe."""
    by_user: dict[str, Any] = {"length": 18, "reference_to": ("User",)}
    return (
        system_field("CreatedDate", "Created Date", "datetime"),
        system_field("CreatedById", "Created By ID", "reference", relationship_name="CreatedBy", **by_user),
        system_field("LastModifiedDate", "Last Modified Date", "datetime"),
        system_field(
            "LastModifiedById", "Last Modified By ID", "reference", relationship_name="LastModifiedBy", **by_user
        ),
        system_field("SystemModstamp", "System Modstamp", "datetime"),
    )


BUILT_IN_OBJECTS = Path(__file__).parent / "objects"
_LOADER: type[yaml.SafeLoader | yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""In C where PyYAML was built with it: a tenth of a second at every start."""


@cache
def built_in_definitions() -> tuple[ObjectDefinition, ...]:
    """Return the objects every emulated org has by default."""
    return load_definitions(BUILT_IN_OBJECTS)


@cache
def polled_definitions() -> tuple[ObjectDefinition, ...]:
    """Objects of the vendor's that are not like others: those with other stamps or none, with queries that need a
    filter or are refused, that no Bulk API reads, or whose values change behind their stamp."""
    return load_definitions(BUILT_IN_OBJECTS / "polled")


@cache
def stock_definitions() -> tuple[ObjectDefinition, ...]:
    """More objects of the vendor's, which connectors read without being told to; parents first."""
    waiting = {definition.name: definition for definition in load_definitions(BUILT_IN_OBJECTS / "stock")}
    found: list[ObjectDefinition] = []
    while waiting:
        needed = {name: _required(definition) & waiting.keys() - {name} for name, definition in waiting.items()}
        name = min(waiting, key=lambda each: (len(needed[each]), each))
        found.append(waiting.pop(name))
    return tuple(found)


def _required(definition: ObjectDefinition) -> set[str]:
    return {name for field in definition.fields if field.type == "reference" for name in field.reference_to}


def load_definitions(folder: Path) -> tuple[ObjectDefinition, ...]:
    """All `*.yaml` of a folder, by name. Raises ObjectDefinitionError for a wrong file, a prefix used twice, an
    empty folder."""
    definitions = tuple(load_definition(path) for path in sorted(folder.glob("*.yaml")))
    if not definitions:
        raise ObjectDefinitionError(folder, "the folder holds no *.yaml")
    prefixes: dict[str, str] = {}
    for definition in definitions:
        other = prefixes.setdefault(definition.key_prefix, definition.name)
        if other != definition.name:
            raise ObjectDefinitionError(
                definition.name, f"key_prefix {definition.key_prefix} is already that of {other}"
            )
    return definitions


def yaml_mapping(path: Path) -> dict[str, Any]:
    """Return what a file of a definition says. Raises ObjectDefinitionError."""
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)
    except (OSError, yaml.YAMLError) as error:
        raise ObjectDefinitionError(path, f"cannot be read ({error})") from error
    if not isinstance(document, dict):
        raise ObjectDefinitionError(path, "is not a mapping")
    return document


def load_definition(path: Path) -> ObjectDefinition:
    """One object definition from its file. Raises ObjectDefinitionError."""
    document = yaml_mapping(path)
    missing = {"name", "label", "key_prefix", "fields"} - document.keys()
    if missing:
        raise ObjectDefinitionError(path, f"lacks {', '.join(sorted(missing))}")
    if not re.fullmatch(r"[0-9A-Za-z]{3}", str(document["key_prefix"])):
        raise ObjectDefinitionError(path, "key_prefix must be three letters or digits, in quotes")
    return object_definition(document, path)


def object_definition(document: Mapping[str, Any], source: Path | str) -> ObjectDefinition:
    """Return an object definition from the mapping a file holds. Raises ObjectDefinitionError naming `source`."""
    name = document["name"]
    fields: list[FieldDefinition] = [system_field("Id", "Record ID", "id", length=18)]
    try:
        access = ObjectAccess.from_json(document.get("access", {}))
    except ValueError as error:
        raise ObjectDefinitionError(source, str(error)) from None
    deletable = document.get("deletable", True)
    if deletable:
        fields.append(system_field("IsDeleted", "Deleted", "boolean", default=False))
    entries = list(document["fields"])
    record_types = tuple(str(each) for each in document.get("record_types", ()))
    if record_types:
        entries.insert(1, {"RecordTypeId": {"type": "reference", "to": "RecordType", "label": "Record Type ID"}})
    if "audit" not in entries:
        first_custom = next((n for n, e in enumerate(entries) if next(iter(e)).endswith("__c")), len(entries))
        entries.insert(first_custom, "audit")
    for entry in entries:
        if entry == "audit":
            wanted = document.get("audit")
            fields.extend(each for each in audit_fields() if wanted is None or each.name in wanted)
        elif isinstance(entry, dict) and len(entry) == 1 and isinstance(next(iter(entry.values())), dict):
            ((field_name, options),) = entry.items()
            fields.extend(fields_of(name, field_name, options, source))
        else:
            raise ObjectDefinitionError(source, f"{entry!r} is not of the form `- Name: {{type: ...}}`")
    seen: set[str] = set()
    for field in fields:
        if field.name.lower() in seen:
            raise ObjectDefinitionError(source, f"field {field.name} is there twice")
        seen.add(field.name.lower())
    return ObjectDefinition(
        name=name,
        label=document["label"],
        label_plural=document.get("label_plural", document["label"] + "s"),
        key_prefix=str(document["key_prefix"]),
        fields=tuple(fields),
        custom=name.endswith(("__c", "__mdt", "__x", "__b")),
        deletable=deletable,
        name_field=document.get("name_field", "Name" if "name" in seen else None),
        record_types=record_types,
        access=access,
    )
