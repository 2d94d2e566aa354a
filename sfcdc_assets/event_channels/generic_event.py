"""Events of a generic channel: a text of up to 3,000 characters, which may be JSON of a known shape.

Over CometD: `{"event": {"createdDate": ..., "replayId": ...}, "payload": "..."}` (Streaming API guide, "Generic
Streaming").
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.event_channels.field_reader import field_readers, read_fields, reader_of_type
from sfcdc_assets.event_channels.messages import created_ms, message_of
from sfcdc_assets.event_channels.payload_schema import PayloadSchema
from sfcdc_assets.event_channels.typed_event import TypedEvent
from sfcdc_assets.streams.delivered_event import DeliveredEvent

NOT_AN_OBJECT = "the payload is not a JSON object"


class GenericReader:
    """Reads the events of one channel; with a schema, the members of a JSON payload become columns."""

    own_columns = pa.schema([("payload", pa.string())])

    def __init__(self, name: str, schema: PayloadSchema | None, privacy: Privacy) -> None:
        """`name`: what rules of privacy call the channel."""
        self._schema = schema
        self._keeps_bytes = not privacy.concerns(name)
        fields = [] if schema is None else [reader_of_type(each.name, each.type) for each in schema.columns]
        self._readers = field_readers(name, fields, privacy, as_json=True)

    @property
    def keeps_unread(self) -> bool:
        """See `EventReader.keeps_unread`."""
        return self._keeps_bytes

    def read(self, event: DeliveredEvent) -> TypedEvent:
        """See `EventReader.read`."""
        message, problem = message_of(event.payload)
        payload = message.get("payload")
        text = payload if isinstance(payload, str) or payload is None else json.dumps(payload, ensure_ascii=False)
        own = {"payload": text if self._keeps_bytes else None}
        made = created_ms(message)
        if self._schema is None or problem is not None:
            return TypedEvent(made, own, problem=problem, keeps_bytes=self._keeps_bytes)
        body = _json_object(text)
        found, rest = ({}, {}) if body is None else self._schema.taken_apart(body)
        values, rescued, problems = read_fields(self._readers, found)
        problems += [f"{name} has no column" for name in rest]
        if body is None:
            problems.append(NOT_AN_OBJECT)
        return TypedEvent(
            made,
            own,
            values,
            {**rescued, **rest} if self._keeps_bytes else {},
            "; ".join(problems) or None,
            self._keeps_bytes,
        )


def _json_object(text: str | None) -> Mapping[str, Any] | None:
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
