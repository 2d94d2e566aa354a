"""Reads object definitions from YAML: one file an object, one line a field, so a user adds an object without code.

    name: Invoice_Statement__c          # `__c` makes it custom
    label: Invoice Statement
    key_prefix: a00                     # first three characters of its record ids
    fields:                             # in the order of the object's change events
      - Name: {type: autonumber, format: "INV-{00000}"}
      - Amount__c: {type: currency, required: true}
      - Status__c: {type: picklist, values: [Draft, Sent], default: Draft, restricted: true}
      - Account__c: {type: reference, to: Account, relationship: Account__r}
      - Location__c: {type: location}   # brings Location__Latitude__s and Location__Longitude__s
      - Total__c: {type: currency, formula: "Amount__c * 1.2", sql: '"Amount__c" * 1.2'}

`Id`, `IsDeleted` and the audit fields (CreatedDate, CreatedById, LastModifiedDate, LastModifiedById, SystemModstamp)
are implied; the word `audit` as an entry says where the latter stand, otherwise they follow the last standard field.

Types are describe's, and four short forms: `person_name` (Name with Salutation, FirstName, LastName), `autonumber`,
`long_text` (textarea of 32,000), `rich_text`. `address` brings its components under the field's prefix (BillingAddress:
BillingStreet, BillingCity ...). Other keys: `label`, `length`, `precision`, `scale`, `required`, `unique`,
`external_id`, `default`, `readonly` (the org fills it in), `insert_only`, `derived` (readonly, and not in change
events), `children` (the parent's name for the records that refer to it, if it is not their plural), `roll_up` ({child,
parent_field, operation: SUM or COUNT, field}), `field_id`, `cdc_type`, `bit_group`, `cascade` (of a reference: deletes
that cascade take the record along). Several files in a folder make the org. `record_types: [Partner, Customer]` beside
`fields` gives the object those, and the field RecordTypeId.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from sfcdc_assets.emulator.errors import ObjectDefinitionError
from sfcdc_assets.emulator.ids import BASE62
from sfcdc_assets.emulator.object_definition import FieldDefinition, ObjectDefinition, RollUp

BUILT_IN_OBJECTS = Path(__file__).parent / "objects"
_LOADER: type[yaml.SafeLoader | yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""In C where PyYAML was built with it: a tenth of a second at every start."""

_TYPES: Mapping[str, Mapping[str, Any]] = {
    "string": {"length": 255},
    "textarea": {"length": 255, "extra_type_info": "plaintextarea"},
    "long_text": {"type": "textarea", "length": 32_000, "extra_type_info": "plaintextarea"},
    "rich_text": {
        "type": "textarea",
        "length": 32_768,
        "extra_type_info": "richtextarea",
        "cdc_type": "HtmlStringPlusClob",
    },
    "autonumber": {"type": "string", "length": 80, "nillable": False, "createable": False, "updateable": False},
    "picklist": {"length": 255},
    "combobox": {"length": 255},
    "multipicklist": {"length": 4099},
    "boolean": {"nillable": False, "default": False},
    "int": {"precision": 8},
    "double": {"precision": 18, "scale": 2},
    "currency": {"precision": 18, "scale": 2},
    "percent": {"precision": 16, "scale": 2},
    "date": {},
    "datetime": {},
    "time": {},
    "phone": {"length": 40},
    "email": {"length": 80},
    "url": {"length": 255},
    "encryptedstring": {"length": 175, "cdc_type": "EncryptedText"},
    "reference": {"length": 18},
    "address": {"createable": False, "updateable": False},
    "location": {"createable": False, "updateable": False},
    "person_name": {
        "type": "string",
        "length": 121,
        "createable": False,
        "updateable": False,
        "nillable": False,
        "extra_type_info": "personname",
        "sql_expression": "TRIM(COALESCE(\"FirstName\" || ' ', '') || \"LastName\")",
    },
}
_SALUTATIONS = ("Mr.", "Ms.", "Mrs.", "Dr.", "Prof.", "Mx.")
_ACCURACY = (
    "Address",
    "NearAddress",
    "Block",
    "Street",
    "ExtendedZip",
    "Zip",
    "Neighborhood",
    "City",
    "County",
    "State",
)
_READ_ONLY = {"createable": False, "updateable": False}
_KEYS = {
    "type", "label", "length", "precision", "scale", "required", "unique", "external_id", "default", "readonly",
    "insert_only", "derived", "formula", "sql", "roll_up", "values", "restricted", "to", "relationship", "children",
    "format", "field_id", "cdc_type", "bit_group", "cascade",
}  # fmt: skip


@cache
def built_in_definitions() -> tuple[ObjectDefinition, ...]:
    """The objects every emulated org has by default."""
    return load_definitions(BUILT_IN_OBJECTS)


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
    """What a file of a definition says. Raises ObjectDefinitionError."""
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
    """An object definition from the mapping a file holds. Raises ObjectDefinitionError naming `source`."""
    name = document["name"]
    fields: list[FieldDefinition] = [_system_field("Id", "Record ID", "id", length=18)]
    deletable = document.get("deletable", True)
    if deletable:
        fields.append(_system_field("IsDeleted", "Deleted", "boolean", default=False))
    entries = list(document["fields"])
    record_types = tuple(str(each) for each in document.get("record_types", ()))
    if record_types:
        entries.insert(1, {"RecordTypeId": {"type": "reference", "to": "RecordType", "label": "Record Type ID"}})
    if "audit" not in entries:
        first_custom = next((n for n, e in enumerate(entries) if next(iter(e)).endswith("__c")), len(entries))
        entries.insert(first_custom, "audit")
    for entry in entries:
        if entry == "audit":
            fields.extend(_audit_fields())
        elif isinstance(entry, dict) and len(entry) == 1 and isinstance(next(iter(entry.values())), dict):
            ((field_name, options),) = entry.items()
            fields.extend(_fields(name, field_name, options, source))
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
        custom=name.endswith("__c"),
        deletable=deletable,
        name_field=document.get("name_field", "Name" if "name" in seen else None),
        record_types=record_types,
    )


def field_definition(object_name: str, field_name: str, options: Mapping[str, Any]) -> FieldDefinition:
    """One field of the short form above, e.g. to add a field to a running org; for compounds the parent field only."""
    return next(_fields(object_name, field_name, options, f"{object_name}.{field_name}"))


def field_definitions(object_name: str, field_name: str, options: Mapping[str, Any]) -> tuple[FieldDefinition, ...]:
    """Like `field_definition`, with the components of a compound after it. Raises ObjectDefinitionError."""
    return tuple(_fields(object_name, field_name, options, f"{object_name}.{field_name}"))


def custom_field_id(object_name: str, field_name: str, generation: int) -> str:
    """15 characters, 00N...; a field that was dropped and made again is another field, of a later generation."""
    return _field_id(object_name, f"{field_name}#{generation}" if generation else field_name)


def _fields(object_name: str, name: str, options: Mapping[str, Any], source: Path | str) -> Iterator[FieldDefinition]:
    kind = str(options.get("type"))
    if kind not in _TYPES:
        raise ObjectDefinitionError(source, f"field {name}: type {kind!r} is none of {', '.join(_TYPES)}")
    unknown = options.keys() - _KEYS
    if unknown:
        raise ObjectDefinitionError(source, f"field {name}: unknown key {', '.join(sorted(unknown))}")
    facts: dict[str, Any] = {"type": kind, "label": options.get("label", _label(name)), **_TYPES[kind]}
    for key in ("length", "precision", "scale", "unique", "external_id", "default", "cdc_type", "bit_group"):
        if key in options:
            facts[key] = options[key]
    facts["custom"] = name.endswith("__c")
    facts["field_id"] = options.get("field_id") or (_field_id(object_name, name) if facts["custom"] else None)
    if options.get("required"):
        facts["nillable"] = False
    if options.get("readonly") or options.get("derived") or "formula" in options or "roll_up" in options:
        facts.update(_READ_ONLY)
    if options.get("insert_only"):
        facts["updateable"] = False
    facts["derived"] = options.get("derived", False)
    facts["calculated"] = "formula" in options or "roll_up" in options
    facts["calculated_formula"] = options.get("formula")
    if "formula" in options and "sql" not in options:
        raise ObjectDefinitionError(
            source, f"field {name}: a formula needs `sql`, the SQLite expression that computes it"
        )
    facts["sql_expression"] = options.get("sql") or facts.get("sql_expression")
    facts["roll_up"] = RollUp(**options["roll_up"]) if "roll_up" in options else None
    facts["auto_number"] = options.get("format") if kind == "autonumber" else None
    facts["picklist_values"] = tuple(str(value) for value in options.get("values", ()))
    facts["restricted_picklist"] = options.get("restricted", False)
    if kind == "reference":
        targets = options.get("to")
        if not targets:
            raise ObjectDefinitionError(source, f"field {name}: a reference needs `to`")
        facts["reference_to"] = (targets,) if isinstance(targets, str) else tuple(targets)
        facts["relationship_name"] = options.get("relationship") or re.sub(r"Id$", "", re.sub(r"__c$", "__r", name))
        facts["child_relationship_name"] = options.get("children")
        facts["cascade_delete"] = options.get("cascade", False)
    yield FieldDefinition(name=name, **facts)
    yield from _component_fields(name, kind, facts["field_id"])


def _component_fields(name: str, kind: str, field_id: str | None) -> Iterator[FieldDefinition]:
    parts: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    if kind == "person_name":
        parts = (
            ("Salutation", "picklist", {"length": 40, "picklist_values": _SALUTATIONS}),
            ("FirstName", "string", {"length": 40}),
            ("LastName", "string", {"length": 80, "nillable": False}),
        )
    elif kind == "address":
        prefix = name.removesuffix("Address")
        parts = (
            (prefix + "Street", "textarea", {"length": 255, "extra_type_info": "plaintextarea"}),
            (prefix + "City", "string", {"length": 40}),
            (prefix + "State", "string", {"length": 80}),
            (prefix + "PostalCode", "string", {"length": 20}),
            (prefix + "Country", "string", {"length": 80}),
            (prefix + "Latitude", "double", {"precision": 18, "scale": 15}),
            (prefix + "Longitude", "double", {"precision": 18, "scale": 15}),
            (prefix + "GeocodeAccuracy", "picklist", {"length": 40, "picklist_values": _ACCURACY}),
        )
    elif kind == "location":
        stem = name.removesuffix("__c")
        parts = tuple(
            (f"{stem}__{axis}__s", "double", {"precision": 18, "scale": 15, "custom": True, "field_id": field_id})
            for axis in ("Latitude", "Longitude")
        )
    for part, type_, facts in parts:
        yield FieldDefinition(name=part, label=_label(part), type=type_, compound_field_name=name, **facts)


def _system_field(name: str, label: str, type_: str, **facts: Any) -> FieldDefinition:
    return FieldDefinition(name=name, label=label, type=type_, nillable=False, **{**_READ_ONLY, **facts})


def _audit_fields() -> tuple[FieldDefinition, ...]:
    by_user: dict[str, Any] = {"length": 18, "reference_to": ("User",)}
    return (
        _system_field("CreatedDate", "Created Date", "datetime"),
        _system_field("CreatedById", "Created By ID", "reference", relationship_name="CreatedBy", **by_user),
        _system_field("LastModifiedDate", "Last Modified Date", "datetime"),
        _system_field(
            "LastModifiedById", "Last Modified By ID", "reference", relationship_name="LastModifiedBy", **by_user
        ),
        _system_field("SystemModstamp", "System Modstamp", "datetime"),
    )


def _label(name: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", re.sub(r"__[cs]$", "", name).replace("_", " "))
    return re.sub(r" Id$", " ID", " ".join(words.split()))


def _field_id(object_name: str, field_name: str) -> str:
    digest = int.from_bytes(hashlib.sha256(f"{object_name}.{field_name}".encode()).digest()[:6], "big")
    tail = "".join(BASE62[digest // 62**n % 62] for n in range(7))
    return f"00NAx000{tail}"
