"""Change events in JSON, as CometD delivers them: a second form of payload, for tests of the seam between the two.

Fields are named, not numbered: `changedFields` has names, and nulledFields and diffFields are absent. A field that is
null was nulled, one that is an object of `diff` holds a diff, times are ISO texts (Change Data Capture Developer Guide,
"Change Event Message Structure" and "Sending Data Differences for Fields of Updated Records").
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import fastavro

from sfcdc_assets.change_events import decode_field_bitmap
from sfcdc_assets.change_events.change_event import ChangeEventHeader, DecodedEvent, header_of
from sfcdc_assets.change_events.change_type import ChangeType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.errors import HeaderError, PayloadError
from sfcdc_assets.change_events.event_cells import EventCells
from sfcdc_assets.change_events.event_schema import (
    HEADER_FIELD,
    FieldBit,
    SchemaField,
    entity_of_schema,
    parse_event_schema,
    schema_fields,
)
from sfcdc_assets.change_events.payload_form import PayloadForm

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
TIMES = ("DateTime", "DateOnly", "TimeOnly")
BITMAPS = ("changedFields", "nulledFields", "diffFields")


# -- reading


def read_json_header(payload: bytes, _: Mapping[str, Any] | None = None) -> ChangeEventHeader:
    return _header(_parsed(payload))


class JsonDecoder:
    """As `EventDecoder`, for JSON."""

    def __init__(self, schema_json: str, columns: Sequence[Column]) -> None:
        schema = parse_event_schema(schema_json)
        self._layout = schema_fields(schema)
        self._entity = entity_of_schema(schema)
        self._cells = EventCells(self._entity, self._layout, columns)

    def decode(self, payload: bytes) -> DecodedEvent:
        values = _parsed(payload)
        header, diffs = _header(values), []
        body: dict[str, Any] = {HEADER_FIELD: values[HEADER_FIELD]}
        try:
            for field in self._layout[1:]:
                value = values.get(field.name)
                if isinstance(value, dict) and "diff" in value:
                    value, _ = value["diff"], diffs.append((field.position, None))
                body[field.name] = _as_avro(field, value)
            changed = self._bits(values[HEADER_FIELD]["changedFields"])
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise PayloadError(self._entity, f"its JSON does not fit the schema ({error})") from None
        update = self._cells.update(changed, (), diffs) if header.change_type is ChangeType.UPDATE else None
        return self._cells.event(header, body, update)

    def _bits(self, names: Sequence[str]) -> list[FieldBit]:
        by_name = {field.name: field for field in self._layout}
        bits: list[FieldBit] = []
        for name in names:
            parent, _, child = name.partition(".")
            field = by_name[parent]
            bits.append((field.position, [each.name for each in field.children or ()].index(child) if child else None))
        return bits


JSON = PayloadForm("JSON", read_json_header, JsonDecoder)


def _parsed(payload: bytes) -> dict[str, Any]:
    try:
        values = json.loads(payload)
        return {**values, HEADER_FIELD: {**values[HEADER_FIELD]}}
    except (ValueError, TypeError, KeyError) as error:
        raise HeaderError(f"it is not JSON with a header ({error})") from None


def _header(values: dict[str, Any]) -> ChangeEventHeader:
    try:
        return header_of(values[HEADER_FIELD], values[HEADER_FIELD]["changeType"])
    except (KeyError, TypeError) as error:
        raise HeaderError(f"it lacks something ({error})") from None


def _as_avro(field: SchemaField, value: Any) -> Any:
    if isinstance(value, dict):
        return {child.name: value.get(child.name) for child in field.children or ()}
    if isinstance(value, str) and field.scalar == "long":
        if field.doc_type == "TimeOnly":
            value = f"1970-01-01T{value}"
        moment = datetime.fromisoformat(value)
        return (moment.replace(tzinfo=moment.tzinfo or UTC) - EPOCH) // MILLISECOND
    return value


# -- writing, from what an org wrote in Avro


def as_json(payload: bytes, schema: Mapping[str, Any]) -> bytes:
    """The event of an Avro payload as CometD would deliver it."""
    body: Any = fastavro.schemaless_reader(io.BytesIO(payload), fastavro.parse_schema(dict(schema)))
    head = body.pop(HEADER_FIELD)
    changed, nulled, diffs = (decode_field_bitmap(head.pop(name), dict(schema)) for name in BITMAPS)
    head["changedFields"] = changed + [name for name in nulled if name not in changed]
    written: dict[str, Any] = {}
    for field in schema_fields(schema)[1:]:
        value = body[field.name]
        if isinstance(value, dict):
            value = {name: part for name, part in value.items() if part is not None}
        if value is not None:
            written[field.name] = {"diff": value} if field.name in diffs else _as_text(field, value)
    for name in nulled:
        parent, _, child = name.partition(".")
        if not child:
            written[parent] = None
        elif isinstance(written.setdefault(parent, {}), dict):
            written[parent][child] = None
    return json.dumps({HEADER_FIELD: head, **written}).encode()


def _as_text(field: SchemaField, value: Any) -> Any:
    if field.scalar != "long" or field.doc_type not in TIMES:
        return value
    moment = EPOCH + value * MILLISECOND
    if field.doc_type == "DateOnly":
        return moment.date().isoformat()
    if field.doc_type == "TimeOnly":
        return moment.time().isoformat("milliseconds") + "Z"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
