"""The Avro schema of a platform event's messages, and payloads in it (docs/salesforce-streams.md, "Platform events").

`CreatedDate` and `CreatedById` are always there; each field of the event's own is a union with null.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO

from fastavro import parse_schema, schemaless_reader, schemaless_writer

from sfcdc_assets.emulator.definitions.platform_event_definition import PlatformEventDefinition
from sfcdc_assets.emulator.events.avro.event_body import CONVERSIONS, as_stored, milliseconds_to_date
from sfcdc_assets.emulator.events.avro.event_schema import NAMESPACE, scalar_type, schema_id, schema_json
from sfcdc_assets.emulator.org.transaction import StoredValue

UNREADABLE = (EOFError, LookupError, ValueError, OverflowError, MemoryError, TypeError)
"""What a reader raises for bytes that are no payload of the schema."""


def platform_event_schema(definition: PlatformEventDefinition) -> dict[str, object]:
    """Return the schema as GetSchema gives it. Raises EventSchemaError for a field type that events do not have."""
    own = []
    for field in definition.custom_fields:
        avro_type, doc = scalar_type(definition.name, field)
        own.append({"name": field.name, "type": ["null", avro_type], "doc": doc, "default": None})
    return {
        "type": "record",
        "name": definition.name,
        "namespace": NAMESPACE,
        "fields": [
            {"name": "CreatedDate", "type": "long", "doc": "CreatedDate:DateTime"},
            {"name": "CreatedById", "type": "string", "doc": "CreatedBy:EntityId"},
            *own,
        ],
    }


class PlatformEventCodec:
    """One version of one event: its schema, and payloads in that schema. Immutable."""

    def __init__(self, definition: PlatformEventDefinition) -> None:
        schema = platform_event_schema(definition)
        self.definition = definition
        self.schema_json = schema_json(schema)
        self.schema_id = schema_id(schema)
        self._parsed = parse_schema(schema)
        self._conversions = {field.name: CONVERSIONS.get(field.type, as_stored) for field in definition.custom_fields}

    def values(self, payload: bytes) -> dict[str, StoredValue] | None:
        """Return a payload's fields as stored values; None if it cannot be read."""
        body = decoded_payload(self._parsed, payload)
        if body is None:
            return None
        dates = {field.name for field in self.definition.custom_fields if field.type == "date"}
        try:
            return {
                name: milliseconds_to_date(value) if name in dates and isinstance(value, int) else value
                for name, value in body.items()
                if isinstance(value, str | int | float | None)
            }
        except (ValueError, OverflowError):
            return None  # a date that no calendar has

    def payload(self, values: Mapping[str, object], *, created_date: int, created_by: str) -> bytes:
        """Bare Avro binary of stored values; what is not given is null. `created_date`: epoch ms."""
        body: dict[str, object] = {"CreatedDate": created_date, "CreatedById": created_by}
        for name, convert in self._conversions.items():
            value = values.get(name)
            body[name] = None if value is None else convert(value)
        buffer = BytesIO()
        schemaless_writer(buffer, self._parsed, body)
        return buffer.getvalue()


def decoded_payload(schema: object, payload: bytes) -> dict[str, object] | None:
    """Return a payload's fields in Avro's values; None if it cannot be read in its schema, or not to its end."""
    buffer = BytesIO(payload)
    try:
        body = schemaless_reader(buffer, schema)
    except UNREADABLE:
        return None
    return body if isinstance(body, dict) and not buffer.read(1) else None
