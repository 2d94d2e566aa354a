"""The Avro schema of an entity's change events, derived from its object definition (docs/salesforce-streams.md, "Change
event schema").

The position of a field is its index in the record, the header being 0; bitmaps name fields by it. Standard fields come
first, then custom ones in the order of their definition, so a new custom field keeps the positions before it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fastavro.schema import to_parsing_canonical_form

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.errors import EventSchemaError

NAMESPACE = "com.sforce.eventbus"
CHANGE_TYPES = (
    "CREATE",
    "UPDATE",
    "DELETE",
    "UNDELETE",
    "GAP_CREATE",
    "GAP_UPDATE",
    "GAP_DELETE",
    "GAP_UNDELETE",
    "GAP_OVERFLOW",
    "SNAPSHOT",
)

# describe type -> (Avro type, type in the field's doc)
_SCALARS = {
    "anyType": ("string", "Text"),
    "boolean": ("boolean", "Boolean"),
    "combobox": ("string", "DynamicEnum"),
    "currency": ("double", "Currency"),
    "date": ("long", "DateOnly"),
    "datetime": ("long", "DateTime"),
    "double": ("double", "Double"),
    "email": ("string", "Email"),
    "encryptedstring": ("string", "EncryptedText"),
    "id": ("string", "EntityId"),
    "int": ("int", "Integer"),
    "multipicklist": ("string", "MultiEnum"),
    "percent": ("double", "Percent"),
    "phone": ("string", "Phone"),
    "picklist": ("string", "DynamicEnum"),
    "reference": ("string", "EntityId"),
    "string": ("string", "Text"),
    "textarea": ("string", "MultiLineText"),
    "time": ("long", "TimeOnly"),
    "url": ("string", "Url"),
}
_LONGEST_PLAIN_TEXT_AREA = 255
SWITCHABLE_NAME = "switchablepersonname"
LARGE_TEXT_TYPES = frozenset({"StringPlusClob", "HtmlStringPlusClob"})
_COMPONENT_ORDER = {
    "Address": (
        "Street",
        "City",
        "State",
        "PostalCode",
        "Country",
        "StateCode",
        "CountryCode",
        "Latitude",
        "Longitude",
        "GeocodeAccuracy",
    ),
    "Location": ("Latitude", "Longitude"),
    "Switchable_PersonName": ("Salutation", "FirstName", "LastName", "MiddleName", "InformalName", "Suffix"),
    "PersonName": ("Salutation", "FirstName", "LastName", "MiddleName", "InformalName", "Suffix"),
}


@dataclass(frozen=True)
class EventField:
    """One top-level field of the event: a scalar, or a compound record whose components are flat API fields.

    `components` holds (short name in the record, flat field definition) in the order of the record; empty for a scalar.
    """

    name: str
    definition: FieldDefinition
    record: str | None = None
    components: tuple[tuple[str, FieldDefinition], ...] = ()
    flags: tuple[FieldDefinition, ...] = ()
    """Checkboxes of which the event lists the true ones: user preferences."""

    @property
    def is_switchable(self) -> bool:
        """A text of its own or a record of components: the name of an account that may be a person."""
        return self.definition.extra_type_info == SWITCHABLE_NAME


def event_name(entity: str) -> str:
    """Return what the events of an entity are called: those of an object are its change events, `AccountChangeEvent` or
    `Invoice__ChangeEvent`; a platform event has its own name."""
    return entity if entity.endswith("__e") else change_event_name(entity)


def change_event_name(entity: str) -> str:
    """`AccountChangeEvent` for Account, `Invoice__ChangeEvent` for the custom object Invoice__c."""
    return entity.removesuffix("c") + "ChangeEvent" if entity.endswith("__c") else entity + "ChangeEvent"


def event_fields(definition: ObjectDefinition) -> tuple[EventField, ...]:
    """Return the event's fields after the header, in schema order; a compound's components appear inside it only."""
    result = []
    groups: set[str] = set()
    for field in definition.fields:
        if field.bit_group is not None:
            if field.bit_list not in groups:
                groups.add(field.bit_list)
                flags = tuple(one for one in definition.fields if one.bit_group and one.bit_list == field.bit_list)
                result.append(EventField(field.bit_list, field, flags=flags))
        elif field.extra_type_info == SWITCHABLE_NAME:
            parts = [part for part in definition.fields if part.compound_field_name == field.name]
            names = tuple((part.name, part) for part in parts)
            result.append(EventField(field.name, field, "Switchable_PersonName", names))
        elif field.is_compound:
            parts = [part for part in definition.components[field.name] if part.in_change_events]
            if parts:
                result.append(_compound(definition, field, parts))
        elif field.in_change_events and not _is_part(definition, field):
            result.append(EventField(field.name, field))
    return tuple(sorted(result, key=lambda event_field: _custom_rank(event_field.name)))


def event_schema(definition: ObjectDefinition, more_change_types: Sequence[str] = ()) -> dict[str, object]:
    """Return the schema as GetSchema gives it: keys in the order type, name, namespace, fields; every body field a
    union.

    `more_change_types` come after the change types that all schemas have.

    Raises `EventSchemaError` for a field type that has no form in change events.
    """
    fields = event_fields(definition)
    records = _record_components(fields)
    defined: set[str] = set()
    body = []
    for field in fields:
        avro_type: object
        if field.flags:
            avro_type, doc = {"type": "array", "items": "string"}, "Data:BitVector"
        elif field.record is None:
            avro_type, doc = scalar_type(definition.name, field.definition)
        else:
            avro_type = _record(field.record, records[field.record], defined)
            doc = f"Data:{field.record}{_custom_suffix(field.definition)}"
        branches = ["null", "string", avro_type] if field.is_switchable else ["null", avro_type]
        body.append({"name": field.name, "type": branches, "doc": doc, "default": None})
    return {
        "type": "record",
        "name": change_event_name(definition.name),
        "namespace": NAMESPACE,
        "fields": [_header_field(more_change_types), *body],
    }


def is_large_text(field: FieldDefinition) -> bool:
    """Return whether events may carry a difference instead of the field's value: long and rich text areas."""
    return _doc_type(field) in LARGE_TEXT_TYPES


def schema_json(schema: dict[str, object]) -> str:
    """Compact JSON, the form of `SchemaInfo.schema_json`."""
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


def schema_id(schema: dict[str, object]) -> str:
    """base64url, unpadded, of the MD5 of the schema's parsing canonical form: 22 characters
    (docs/salesforce-streams.md, "Topics and schemas").

    Docs and defaults are no part of the canonical form, so changing them does not change the id.
    """
    digest = hashlib.md5(to_parsing_canonical_form(schema).encode(), usedforsecurity=False).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _custom_rank(name: str) -> int:
    return 2 if name.endswith("__pc") else 1 if name.endswith("__c") else 0


def _is_part(definition: ObjectDefinition, field: FieldDefinition) -> bool:
    """Return whether the field is inside a compound of the event."""
    parent = definition.fields_by_name.get(field.compound_field_name or "")
    return parent is not None and (parent.is_compound or parent.extra_type_info == SWITCHABLE_NAME)


def _compound(definition: ObjectDefinition, field: FieldDefinition, parts: Sequence[FieldDefinition]) -> EventField:
    record = {"address": "Address", "location": "Location"}.get(field.type, "PersonName")
    order = _COMPONENT_ORDER[record]
    named = {_component_name(field, part): part for part in parts}
    unknown = sorted(set(named) - set(order))
    if unknown:
        raise EventSchemaError(definition.name, named[unknown[0]].name, f"{record} has no component {unknown[0]}")
    return EventField(field.name, field, record, tuple((name, named[name]) for name in order if name in named))


def _component_name(compound: FieldDefinition, component: FieldDefinition) -> str:
    """`City` of BillingCity in BillingAddress, `Latitude` of Loc__Latitude__s in Loc__c, `FirstName` of Name."""
    if compound.type not in ("address", "location"):
        return component.name
    if compound.custom:
        return component.name.removeprefix(compound.name.removesuffix("c")).removesuffix("__s")
    return component.name.removeprefix(compound.name.removesuffix("Address"))


def _record_components(fields: Iterable[EventField]) -> dict[str, list[dict[str, object]]]:
    """Components of each record type: all that any field of it has, since a named type is defined once in a schema."""
    found: dict[str, dict[str, FieldDefinition]] = {}
    for field in fields:
        if field.record is not None:
            for name, component in field.components:
                found.setdefault(field.record, {}).setdefault(name, component)
    return {
        record: [
            {"name": name, "type": ["null", _SCALARS[names[name].type][0]], "default": None}
            for name in _COMPONENT_ORDER[record]
            if name in names
        ]
        for record, names in found.items()
    }


def _record(record: str, components: list[dict[str, object]], defined: set[str]) -> object:
    if record in defined:
        return record
    defined.add(record)
    return {"type": "record", "name": record, "fields": components}


def scalar_type(entity: str, field: FieldDefinition) -> tuple[str, str]:
    """Return a field's type in Avro and its doc. Raises EventSchemaError."""
    if field.type not in _SCALARS:
        raise EventSchemaError(entity, field.name, f"type {field.type!r} has no form in events")
    avro_type, doc_type = _SCALARS[field.type][0], _doc_type(field)
    is_reference = _SCALARS[field.type][1] == "EntityId"
    role = "ForeignKey" if is_reference else "CreatedDate" if field.name == "CreatedDate" else "Data"
    if field.cdc_type == "ExternalId":
        role = "ExternalForeignKey"
    return avro_type, f"{role}:{doc_type}{_custom_suffix(field)}"


def _doc_type(field: FieldDefinition) -> str | None:
    if field.cdc_type:
        return field.cdc_type
    if field.type == "textarea" and field.length > _LONGEST_PLAIN_TEXT_AREA:
        return "StringPlusClob"
    return _SCALARS[field.type][1] if field.type in _SCALARS else None


def _custom_suffix(field: FieldDefinition) -> str:
    return f":{field.field_id}" if field.custom and field.field_id else ""


def _header_field(more_change_types: Sequence[str]) -> dict[str, object]:
    strings = {"type": "array", "items": "string"}
    fields: list[tuple[str, object]] = [
        ("entityName", "string"),
        ("recordIds", strings),
        ("changeType", {"type": "enum", "name": "ChangeType", "symbols": [*CHANGE_TYPES, *more_change_types]}),
        ("changeOrigin", "string"),
        ("transactionKey", "string"),
        ("sequenceNumber", "int"),
        ("commitTimestamp", "long"),
        ("commitNumber", "long"),
        ("commitUser", "string"),
        ("nulledFields", strings),
        ("diffFields", strings),
        ("changedFields", strings),
    ]
    header = {
        "type": "record",
        "name": "ChangeEventHeader",
        "fields": [{"name": name, "type": avro_type} for name, avro_type in fields],
    }
    return {"name": "ChangeEventHeader", "type": header, "doc": "Data:ComplexValueType"}
