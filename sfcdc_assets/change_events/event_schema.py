"""An Avro change event schema, read into the few things the decoder needs of it (docs/salesforce-streams.md, "Change
event schema").

Every body field is a union of null with one type, or with a string *and* a record (a switchable person name). A record
that was defined once (`Address`) comes back as its bare name, so names are resolved here and nowhere else.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import fastavro

from sfcdc_assets.change_events.errors import EventSchemaError

HEADER_FIELD = "ChangeEventHeader"

FieldBit = tuple[int, int | None]
"""A field's position in the schema, and the position of its child or None for the field itself. So a decoder says which
fields a header names, whether it names them by bitmaps or by their names."""


@dataclass(frozen=True, slots=True)
class SchemaField:
    """One field of the schema, at the place its bit has in a bitmap."""

    position: int
    name: str
    doc_type: str
    """The `Type` of `Role:Type[:FieldId]`, such as `DateOnly`; empty where the field has no doc (compound children)."""
    scalar: str | None
    """The Avro type of the plain branch (`string`, `long`, `array` ...); None when the field is only a record."""
    children: tuple[SchemaField, ...] | None
    """The fields of the record branch; None when the field has no record branch."""


def parse_event_schema(schema_json: str) -> dict[str, Any]:
    """Return the schema as GetSchema returned it, as a dictionary. Raises `EventSchemaError` when it is not a
    record's."""
    try:
        schema = json.loads(schema_json)
    except (ValueError, RecursionError) as error:
        raise EventSchemaError(f"it is not JSON ({error})") from error
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise EventSchemaError("it is not a record with fields")
    return schema


def parse_change_schema(schema_json: str) -> dict[str, Any]:
    """Return the schema of a change event as a dictionary. Raises `EventSchemaError` for one that has no header, or
    fields that are none: what is kept of a schema is kept for ever."""
    schema = parse_event_schema(schema_json)
    header_schema(schema)
    schema_fields(schema)
    return schema


def entity_of_schema(schema: Mapping[str, Any]) -> str:
    """Return the entity's name for messages: `Account` of `AccountChangeEvent`, `Foo` of `Foo__ChangeEvent`."""
    return str(schema.get("name", "")).removesuffix("ChangeEvent").removesuffix("__")


def compile_avro(schema: Mapping[str, Any]) -> Any:
    """Return the schema in the form fastavro reads with. Raises `EventSchemaError`."""
    try:
        return fastavro.parse_schema(dict(schema))
    except (fastavro.schema.SchemaParseException, ValueError, LookupError, TypeError, AttributeError) as error:
        raise EventSchemaError(f"fastavro refuses it ({type(error).__name__}: {error})") from None


def read_avro(compiled: Any, payload: bytes) -> dict[str, Any]:
    """Return the record that bytes hold in the form of `compile_avro`. Raises `ValueError` for bytes that are cut off,
    left over or of another schema: what was read of them is not what they say."""
    source = io.BytesIO(payload)
    try:
        body: Any = fastavro.schemaless_reader(source, compiled)
    except (EOFError, LookupError, ValueError, OverflowError, MemoryError, TypeError) as error:
        raise ValueError(f"its bytes do not fit the schema ({type(error).__name__})") from None
    if not isinstance(body, dict) or source.tell() != len(payload):
        raise ValueError("bytes are left over, so this is not the event's schema")
    return body


def covers(bits: Mapping[FieldBit, object], bit: FieldBit) -> bool:
    """Return whether `bits` name this field or, for a child, the whole compound field it belongs to."""
    return bit in bits or (bit[0], None) in bits


def schema_fields(schema: Mapping[str, Any]) -> tuple[SchemaField, ...]:
    """Return the fields in schema order; the header is field 0. Does not change `schema`. Raises `EventSchemaError`."""
    fields = schema.get("fields")
    if not isinstance(fields, list):
        raise EventSchemaError("it is not a record with fields")
    try:
        named = dict(named_types(schema))
    except RecursionError:
        raise EventSchemaError("its types are nested too deep") from None
    return tuple(_field(position, field, named, nested=True) for position, field in enumerate(fields))


def header_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the record schema of the header, which is the first field of every event. Raises `EventSchemaError`."""
    fields = schema.get("fields")
    first = fields[0] if isinstance(fields, list) and fields else None
    record = first.get("type") if isinstance(first, Mapping) and first.get("name") == HEADER_FIELD else None
    if not isinstance(record, Mapping):
        raise EventSchemaError(f"its first field is not a {HEADER_FIELD} record")
    return record


def named_types(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every named type of the schema under its short and its full name: references are written either way."""
    return _named_types(schema, str(schema.get("namespace") or ""))


def _field(position: int, field: Any, named: Mapping[str, Mapping[str, Any]], *, nested: bool) -> SchemaField:
    if not isinstance(field, Mapping) or not isinstance(field.get("name"), str) or "type" not in field:
        raise EventSchemaError(f"field {position} has no name or no type")
    scalar: str | None = None
    children: tuple[SchemaField, ...] | None = None
    branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
    for branch in branches:
        resolved: Any = named.get(branch, branch) if isinstance(branch, str) else branch
        avro_type = resolved.get("type") if isinstance(resolved, Mapping) else resolved
        if avro_type == "record" and nested:
            inner = resolved.get("fields", ()) if isinstance(resolved, Mapping) else None
            if not isinstance(inner, list | tuple):
                raise EventSchemaError(f"field {position} has a record without fields")
            children = tuple(_field(index, child, named, nested=False) for index, child in enumerate(inner))
        elif avro_type != "null" and scalar is None:
            scalar = str(avro_type)
    return SchemaField(position, field["name"], _doc_type(field.get("doc")), scalar, children)


def _doc_type(doc: object) -> str:
    parts = doc.split(":") if isinstance(doc, str) else []
    return parts[1] if len(parts) > 1 else ""


def _named_types(node: Any, namespace: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(node, list):
        for branch in node:
            yield from _named_types(branch, namespace)
    elif isinstance(node, Mapping):
        if isinstance(node.get("name"), str) and node.get("type") in ("record", "enum", "fixed"):
            namespace = str(node.get("namespace") or namespace)
            yield node["name"], node
            yield f"{namespace}.{node['name']}", node
        fields = node.get("fields")
        for field in fields if isinstance(fields, list) else ():
            if isinstance(field, Mapping):
                yield from _named_types(field.get("type"), namespace)
        for part in ("items", "values"):
            yield from _named_types(node.get(part), namespace)
