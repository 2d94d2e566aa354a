"""One field of an object as a line of YAML says it (object_file.py).

Types are describe's, and five short forms: `person_name` (Name with Salutation, FirstName, LastName), `autonumber`,
`long_text` (textarea of 32,000), `rich_text`, `master_detail` (a reference to the record's master). `address` brings
its components under the field's prefix (BillingAddress: BillingStreet, BillingCity ...). Other keys: `label`, `length`,
`precision`, `scale`, `required`, `unique`, `external_id`, `default`, `readonly` (the org fills it in), `insert_only`,
`derived` (readonly, and not in change events), `formula` (a text in Salesforce's formula language; `blanks`:
BlankAsZero, which is the default, or BlankAsBlank), `children` (the parent's name for the records that refer to it, if
it is not their plural), `roll_up` ({child, parent_field, operation: SUM or COUNT, field}), `field_id`, `cdc_type`,
`bit_group`, `delete_constraint` (of a reference: SetNull, Restrict or Cascade; without it a lookup is cleared, and a
required one refuses the delete), `filterable` and `sortable` (false: no query may compare it, or be ordered by it).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sfcdc_assets.emulator.definitions.object_definition import DeleteConstraint, FieldDefinition, RollUp
from sfcdc_assets.emulator.errors import ObjectDefinitionError
from sfcdc_assets.emulator.formulas.evaluation import check_functions
from sfcdc_assets.emulator.formulas.parser import FormulaSyntaxError, parse_formula
from sfcdc_assets.emulator.formulas.value import RESULT_TYPES
from sfcdc_assets.emulator.org.ids import BASE62

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
    "base64": {"sortable": False, "filterable": False},
    "anyType": {"length": 255, "sortable": False, "filterable": False},
    "encryptedstring": {"length": 175, "cdc_type": "EncryptedText"},
    "reference": {"length": 18},
    "master_detail": {
        "type": "reference",
        "length": 18,
        "nillable": False,
        "updateable": False,
        "delete_constraint": DeleteConstraint.CASCADE,
        "is_master_detail": True,
    },
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
_BLANK_AS_ZERO, _BLANK_AS_BLANK = "BlankAsZero", "BlankAsBlank"
_READ_ONLY = {"createable": False, "updateable": False}
_KEYS = {
    "type", "label", "length", "precision", "scale", "required", "unique", "external_id", "default", "readonly",
    "insert_only", "derived", "formula", "blanks", "sql", "roll_up", "values", "restricted", "to", "relationship",
    "children", "format", "field_id", "cdc_type", "bit_group", "delete_constraint", "filterable", "sortable",
}  # fmt: skip


def field_definition(object_name: str, field_name: str, options: Mapping[str, Any]) -> FieldDefinition:
    """One field of such a line, e.g. to add a field to a running org; for compounds the parent field only."""
    return next(fields_of(object_name, field_name, options, f"{object_name}.{field_name}"))


def field_definitions(object_name: str, field_name: str, options: Mapping[str, Any]) -> tuple[FieldDefinition, ...]:
    """Like `field_definition`, with the components of a compound after it. Raises ObjectDefinitionError."""
    return tuple(fields_of(object_name, field_name, options, f"{object_name}.{field_name}"))


def custom_field_id(object_name: str, field_name: str, generation: int) -> str:
    """15 characters, 00N...; a field that was dropped and made again is another field, of a later generation."""
    return _field_id(object_name, f"{field_name}#{generation}" if generation else field_name)


def fields_of(object_name: str, name: str, options: Mapping[str, Any], source: Path | str) -> Iterator[FieldDefinition]:
    """Yield the field of a line, with the components of a compound after it. Raises ObjectDefinitionError naming
    `source`."""
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
    for key in ("filterable", "sortable"):
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
    if "formula" in options:
        facts.update(_formula(options, facts["type"], f"field {name}", source))
    facts["sql_expression"] = options.get("sql") or facts.get("sql_expression")
    facts["roll_up"] = RollUp(**options["roll_up"]) if "roll_up" in options else None
    facts["auto_number"] = options.get("format") if kind == "autonumber" else None
    facts["picklist_values"] = tuple(str(value) for value in options.get("values", ()))
    facts["restricted_picklist"] = options.get("restricted", False)
    if facts["type"] == "reference":
        targets = options.get("to")
        if not targets:
            raise ObjectDefinitionError(source, f"field {name}: a reference needs `to`")
        facts["reference_to"] = (targets,) if isinstance(targets, str) else tuple(targets)
        facts["relationship_name"] = options.get("relationship") or re.sub(r"Id$", "", re.sub(r"__c$", "__r", name))
        facts["child_relationship_name"] = options.get("children")
        if "delete_constraint" in options:
            facts["delete_constraint"] = _delete_constraint(options, f"field {name}", source)
        elif options.get("required") and facts["reference_to"] != ("User",):
            facts["delete_constraint"] = DeleteConstraint.RESTRICT
    yield FieldDefinition(name=name, **facts)
    yield from _component_fields(name, kind, facts["field_id"])


def _formula(options: Mapping[str, Any], kind: str, field: str, source: Path | str) -> dict[str, Any]:
    if kind not in RESULT_TYPES:
        raise ObjectDefinitionError(source, f"{field}: a {kind} cannot be a formula")
    if "sql" in options:
        raise ObjectDefinitionError(source, f"{field}: a formula is computed from its text; remove sql")
    blanks = options.get("blanks", _BLANK_AS_ZERO)
    if blanks not in (_BLANK_AS_ZERO, _BLANK_AS_BLANK):
        raise ObjectDefinitionError(source, f"{field}: blanks is {_BLANK_AS_ZERO} or {_BLANK_AS_BLANK}, not {blanks!r}")
    text = str(options["formula"])
    try:
        check_functions(parse_formula(text))
    except FormulaSyntaxError as error:
        raise ObjectDefinitionError(source, f"{field}: {error}") from None
    return {"calculated_formula": text, "blank_is_zero": blanks == _BLANK_AS_ZERO}


def _delete_constraint(options: Mapping[str, Any], field: str, source: Path | str) -> DeleteConstraint:
    given = options["delete_constraint"]
    try:
        constraint = DeleteConstraint(given)
    except ValueError:
        known = ", ".join(DeleteConstraint)
        raise ObjectDefinitionError(
            source, f"{field}: delete_constraint is {given!r}, and not one of {known}"
        ) from None
    if options["type"] == "master_detail":
        raise ObjectDefinitionError(source, f"{field}: a delete of a master always cascades; remove delete_constraint")
    if constraint is DeleteConstraint.SET_NULL and options.get("required"):
        raise ObjectDefinitionError(source, f"{field}: a required reference cannot be cleared; choose another one")
    return constraint


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


def _label(name: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", re.sub(r"__[cs]$", "", name).replace("_", " "))
    return re.sub(r" Id$", " ID", " ".join(words.split()))


def _field_id(object_name: str, field_name: str) -> str:
    digest = int.from_bytes(hashlib.sha256(f"{object_name}.{field_name}".encode()).digest()[:6], "big")
    tail = "".join(BASE62[digest // 62**n % 62] for n in range(7))
    return f"00NAx000{tail}"
