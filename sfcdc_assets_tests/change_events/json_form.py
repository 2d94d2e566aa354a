"""Change events in JSON, as CometD delivers them, written from what an org wrote in Avro.

Fields are named, not numbered: `changedFields` has names, and nulledFields and diffFields are absent. A field that is
null was nulled, one that is an object of `diff` holds a diff, times are ISO texts (Change Data Capture Developer Guide,
"Change Event Message Structure" and "Sending Data Differences for Fields of Updated Records").
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import fastavro

from sfcdc_assets.change_events import decode_field_bitmap
from sfcdc_assets.change_events.event_schema import HEADER_FIELD, SchemaField, schema_fields

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
TIMES = ("DateTime", "DateOnly", "TimeOnly")
BITMAPS = ("changedFields", "nulledFields", "diffFields")


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
    for name in head["changedFields"]:
        parent, _, child = name.partition(".")
        if not child:
            written.setdefault(parent, None)
        elif isinstance(written.setdefault(parent, {}), dict):
            written[parent].setdefault(child, None)
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
