"""A stored event as CometD delivers it: the Avro payload with its fields under their names (Change Data Capture
Developer Guide, "Change Event Message Structure" and "JSON Change Event Messages"). A change event has the fields that
changed, a platform event has all of its own.

What an event that cannot be read is in JSON nobody has told; here its header names a field that no schema has, or it
has no header, and the message around it is whole: nobody could read on otherwise.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Any, Protocol

import fastavro

from sfcdc_assets.emulator.events.avro.field_bitmap import field_positions
from sfcdc_assets.emulator.events.event_store import StoredEvent
from sfcdc_assets.emulator.events.platform_events.event_codec import UNREADABLE, decoded_payload
from sfcdc_assets.runtime.times import utc

_HEADER = "ChangeEventHeader"
_BITMAPS = ("changedFields", "nulledFields", "diffFields")


class EventInJson(Protocol):
    """Writes the events of one schema."""

    def payload(self, avro: bytes) -> dict[str, Any]:
        """Return the payload's fields."""


class PlatformEventInJson:
    """Writes platform events: every field, with null for what is not set."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._parsed = fastavro.parse_schema(dict(schema))
        self._types = {field["name"]: _doc_type(field) for field in schema["fields"]}

    def payload(self, avro: bytes) -> dict[str, Any]:
        """Return the payload's fields."""
        body = decoded_payload(self._parsed, avro)
        try:
            if body is not None:
                return {name: self._shown(name, value) for name, value in body.items()}
        except OverflowError:
            pass  # a moment that no calendar has
        return {"unreadable": avro.hex()}

    def _shown(self, name: str, value: Any) -> Any:
        return None if value is None else _as_text(self._types[name], value)


class ChangeEventInJson:
    """Writes change events: the header, and what it says is changed."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._parsed = fastavro.parse_schema(schema)
        self._header = fastavro.parse_schema(schema["fields"][0]["type"])
        self._names = {position: path for path, position in field_positions(schema).items()}
        self._types = {field["name"]: _doc_type(field) for field in schema["fields"]}

    def payload(self, avro: bytes) -> dict[str, Any]:
        """Return the payload's fields; those that the event does not carry are not in it."""
        try:
            body: Any = fastavro.schemaless_reader(io.BytesIO(avro), self._parsed)
            return self._whole(body)
        except UNREADABLE:
            pass
        try:
            head: Any = fastavro.schemaless_reader(io.BytesIO(avro), self._header)
            return {_HEADER: self._head(head, ["NoSuchField"])}
        except UNREADABLE:
            return {"unreadable": avro.hex()}

    def _whole(self, body: dict[str, Any]) -> dict[str, Any]:
        head = body.pop(_HEADER)
        changed, nulled, diffs = (self._paths(head[name]) for name in _BITMAPS)
        written: dict[str, Any] = {}
        for name, value in body.items():
            if isinstance(value, dict):
                written[name] = {part: each for part, each in value.items() if each is not None}
            elif value is not None:
                written[name] = {"diff": value} if name in diffs else _as_text(self._types[name], value)
        # An event for all records, such as 001*, has an empty body: what it names is gone from every record.
        of_all = any(record_id.endswith("*") for record_id in head["recordIds"])
        for path in () if of_all else nulled:
            parent, _, child = path.partition(".")
            if not child:
                written[parent] = None
            else:
                written.setdefault(parent, {})[child] = None
        written = {name: value for name, value in written.items() if value != {}}
        named = changed + [path for path in nulled if path not in changed]
        return {_HEADER: self._head(head, named), **written}

    @staticmethod
    def _head(head: Mapping[str, Any], changed: Sequence[str]) -> dict[str, Any]:
        shown = {name: value for name, value in head.items() if name not in _BITMAPS}
        return {**shown, "changedFields": list(changed)}

    def _paths(self, bitmap: Sequence[str]) -> list[str]:
        """Return the names of what a bitmap names."""
        paths = []
        for element in bitmap:
            parent, _, digits = element.rpartition("-")
            bits = int(digits, 16)
            for bit in range(bits.bit_length()):
                if bits >> bit & 1:
                    paths.append(self._names[(int(parent), bit) if parent else (bit, None)])
        return paths


@lru_cache(maxsize=512)
def writer_of(schema_json: str) -> EventInJson:
    """Return the writer of a schema, made once."""
    schema = json.loads(schema_json)
    is_change = schema["fields"][0]["name"] == _HEADER
    return ChangeEventInJson(schema) if is_change else PlatformEventInJson(schema)


def message(event: StoredEvent, schema_json: str, channel: str, *, has_uuid: bool, dice: Random) -> dict[str, Any]:
    """Return the message that brings an event. The order of a payload's fields is not promised: `dice` shuffles it."""
    payload = list(writer_of(schema_json).payload(event.payload).items())
    dice.shuffle(payload)
    about: dict[str, Any] = {"replayId": event.counter}
    if has_uuid or event.is_platform_event:
        about["EventUuid"] = event.event_id
    return {"data": {"schema": event.schema_id, "payload": dict(payload), "event": about}, "channel": channel}


def _doc_type(field: Mapping[str, Any]) -> str:
    parts = str(field.get("doc", "")).split(":")
    return parts[1] if len(parts) > 1 else ""


def _as_text(doc_type: str, value: Any) -> Any:
    if doc_type not in ("DateTime", "DateOnly", "TimeOnly"):
        return value
    moment = utc(value)
    if doc_type == "DateOnly":
        return moment.date().isoformat()
    if doc_type == "TimeOnly":
        return moment.time().isoformat("milliseconds") + "Z"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
