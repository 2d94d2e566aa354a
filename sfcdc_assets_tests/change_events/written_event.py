"""Change events as an org writes them, for the tests: minimal schemas and payloads."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro

from sfcdc_assets.salesforce.object_description import ObjectDescription

SYMBOLS = [
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
]
TEXTS = {"type": "array", "items": "string"}


def header_record(symbols: Sequence[str] = tuple(SYMBOLS)) -> dict[str, Any]:
    types: dict[str, Any] = {
        "entityName": "string",
        "recordIds": TEXTS,
        "changeType": {"type": "enum", "name": "ChangeType", "symbols": list(symbols)},
        "changeOrigin": "string",
        "transactionKey": "string",
        "sequenceNumber": "int",
        "commitTimestamp": "long",
        "commitNumber": "long",
        "commitUser": "string",
        "nulledFields": TEXTS,
        "diffFields": TEXTS,
        "changedFields": TEXTS,
    }
    return {
        "type": "record",
        "name": "ChangeEventHeader",
        "fields": [{"name": name, "type": avro_type} for name, avro_type in types.items()],
    }


def optional(name: str, *types: Any, doc: str | None = None) -> dict[str, Any]:
    """A body field: null or one of `types`."""
    field: dict[str, Any] = {"name": name, "type": ["null", *types], "default": None}
    return field | {"doc": doc} if doc else field


def record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def described_object(fields: Sequence[Mapping[str, Any]]) -> ObjectDescription:
    """What describe says of an object with these fields (`name`, `type` and what else there is to say)."""
    return ObjectDescription.from_json({"name": "Object__c", "fields": list(fields)})


def texts(*names: str) -> list[dict[str, Any]]:
    return [optional(name, "string") for name in names]


def event_schema(
    *fields: dict[str, Any], entity: str = "Account", symbols: Sequence[str] = tuple(SYMBOLS)
) -> dict[str, Any]:
    return {
        "type": "record",
        "name": f"{entity}ChangeEvent",
        "namespace": "com.sforce.eventbus",
        "fields": [
            {"name": "ChangeEventHeader", "type": header_record(symbols), "doc": "Data:ComplexValueType"},
            *fields,
        ],
    }


def header(change_type: str = "UPDATE", **values: Any) -> dict[str, Any]:
    return {
        "entityName": "Account",
        "recordIds": ["001Dp00000JJkkHIAT"],
        "changeType": change_type,
        "changeOrigin": "com/salesforce/api/rest/59.0;client=test",
        "transactionKey": "0001-key",
        "sequenceNumber": 1,
        "commitTimestamp": 1_690_000_000_000,
        "commitNumber": 11_862_137_384_961,
        "commitUser": "005Dp000000PpjsIAC",
        "nulledFields": [],
        "diffFields": [],
        "changedFields": [],
        **values,
    }


def payload(schema: Mapping[str, Any], head: Mapping[str, Any], body: Mapping[str, Any] | None = None) -> bytes:
    """The event's bytes; body fields that are not given are null."""
    values = {field["name"]: (body or {}).get(field["name"]) for field in schema["fields"]}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(dict(schema)), {**values, "ChangeEventHeader": dict(head)})
    return out.getvalue()


def bitmap_of(schema: Mapping[str, Any], *paths: str) -> list[str]:
    """The bitmap an org sends for field paths: plain bits first, then children by position."""
    names = [field["name"] for field in schema["fields"]]
    plain, nested = 0, {}
    for path in paths:
        parent, _, child = path.partition(".")
        position = names.index(parent)
        if child:
            children = _child_names(schema, position)
            nested[position] = nested.get(position, 0) | 1 << children.index(child)
        else:
            plain |= 1 << position
    elements = [_hex(plain)] if plain else []
    return elements + [f"{position}-{_hex(bits)}" for position, bits in sorted(nested.items())]


def _child_names(schema: Mapping[str, Any], position: int) -> list[str]:
    records: dict[str, dict[str, Any]] = {}
    for field in schema["fields"]:
        for branch in field["type"]:
            if isinstance(branch, dict) and "fields" in branch:
                records[branch["name"]] = branch
    for branch in schema["fields"][position]["type"]:
        found = branch if isinstance(branch, dict) else records.get(branch)
        if found:
            return [child["name"] for child in found["fields"]]
    raise ValueError(f"field {position} is no compound field")


def _hex(bits: int) -> str:
    width = (bits.bit_length() + 7) // 8
    return f"0x{bits:0{2 * width}X}"
