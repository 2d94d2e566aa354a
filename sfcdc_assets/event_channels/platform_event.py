"""Platform events: Avro over Pub/Sub, JSON over CometD, typed by the Avro schema that both name.

The schema's first fields are `CreatedDate` (when the event was published) and `CreatedById`; the others are the
event's own, nullable ones as a union with null. A schema's doc says what Avro does not: dates and times are longs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sfcdc_assets.change_events.cell_value import is_in_calendar
from sfcdc_assets.change_events.errors import EventSchemaError
from sfcdc_assets.change_events.event_schema import (
    SchemaField,
    compile_avro,
    parse_event_schema,
    read_avro,
    schema_fields,
)
from sfcdc_assets.change_events.json_values import avro_value
from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.event_channels.field_reader import FieldReader, field_readers, read_fields, reader_of_schema_field
from sfcdc_assets.event_channels.typed_event import TypedEvent
from sfcdc_assets.streams.delivered_event import DeliveredEvent

PUBLISHED = "CreatedDate"


class PlatformEventReader:
    """Reads the events of one channel, which may bring events of several kinds: `event_name` says which."""

    own_columns = pa.schema([("event_name", pa.string())])

    def __init__(
        self, schema_json_of: Callable[[str], str | None], privacy: Privacy, carries: str | None = None
    ) -> None:
        """`schema_json_of`: the schema of an id; None for one that the org does not give out. `carries`: the only event
        of the channel; None where it may bring several."""
        self._schema_json_of = schema_json_of
        self._privacy = privacy
        self._keeps_unread = not privacy.concerns(carries)
        self._schemas: dict[str, _OneSchema] = {}

    @property
    def keeps_unread(self) -> bool:
        """See `EventReader.keeps_unread`."""
        return self._keeps_unread

    def read(self, event: DeliveredEvent) -> TypedEvent:
        """See `EventReader.read`."""
        schema = self._schemas.get(event.schema_id)
        if schema is None:
            text = self._schema_json_of(event.schema_id)
            if text is None:
                return self._unread(event, f"its schema {event.schema_id!r} is not known")
            try:
                schema = _OneSchema(text, self._privacy)
            except EventSchemaError as error:
                return self._unread(event, f"its schema {event.schema_id!r}: {error}")
            self._schemas[event.schema_id] = schema
        typed = schema.read(event.payload)
        return replace(typed, identity=_identity(event, typed))

    def _unread(self, event: DeliveredEvent, problem: str) -> TypedEvent:
        return TypedEvent(problem=problem, keeps_bytes=self._keeps_unread, identity=event.mark)


class _OneSchema:
    """Reads the events that were written with one schema."""

    def __init__(self, schema_json: str, privacy: Privacy) -> None:
        schema = parse_event_schema(schema_json)
        self._avro = compile_avro(schema)
        self._fields = {field.name: field for field in schema_fields(schema)}
        self.name = str(schema.get("name", ""))
        self._keeps_bytes = not privacy.concerns(self.name)
        typed = [reader_of_schema_field(field) for field in self._fields.values()]
        self._of_avro = field_readers(self.name, typed, privacy, as_json=False)
        self._of_json = field_readers(self.name, typed, privacy, as_json=True)

    def read(self, payload: bytes) -> TypedEvent:
        own = {"event_name": self.name}
        is_json = payload[:1] == b"{"
        found = _from_json(payload) if is_json else None
        if found is None:
            is_json, found = False, self._from_avro(payload)
        if found is None:
            problem = f"the payload cannot be read with the schema of {self.name}"
            return TypedEvent(None, own, problem=problem, keeps_bytes=self._keeps_bytes)
        readers: Mapping[str, FieldReader] = self._of_json if is_json else self._of_avro
        records = {} if is_json else {name: value for name, value in found.items() if isinstance(value, dict)}
        values, rescued, problems = read_fields(readers, {k: v for k, v in found.items() if k not in records})
        rescued |= records
        problems += [f"{name} is a record" for name in records]
        return TypedEvent(
            self._published_ms(found, is_json=is_json),
            own,
            values,
            rescued if self._keeps_bytes else {},
            "; ".join(problems) or None,
            self._keeps_bytes,
        )

    def _from_avro(self, payload: bytes) -> Mapping[str, Any] | None:
        try:
            return read_avro(self._avro, payload)
        except ValueError:
            return None

    def _published_ms(self, found: Mapping[str, Any], *, is_json: bool) -> int | None:
        field: SchemaField | None = self._fields.get(PUBLISHED)
        value = found.get(PUBLISHED)
        if field is None or value is None:
            return None
        try:
            published = int(avro_value(field, value) if is_json else value)
        except (ValueError, TypeError, OverflowError):
            return None
        return published if is_in_calendar(published) else None


def _identity(event: DeliveredEvent, typed: TypedEvent) -> str:
    """Return what identifies an event. A publisher may choose the id of its events, and count 1, 2, 3 again each day
    (Pub/Sub API guide, "PublishStream RPC Method"). So an event is the same only if its values are too, which are the
    same over both protocols; of one that cannot be read, its bytes."""
    if not typed.values:
        return event.mark
    said = sorted((column.name, value) for column, value in typed.values.items() if value is not None)
    return json.dumps([event.schema_id, typed.created_ms, said, typed.rescued], sort_keys=True, default=str)


def _from_json(payload: bytes) -> Mapping[str, Any] | None:
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
