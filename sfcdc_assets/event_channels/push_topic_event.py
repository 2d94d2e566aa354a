"""Notifications of a PushTopic: what happened, and the selected fields of one record, typed by describe.

Over CometD: `{"event": {"createdDate": ..., "replayId": ..., "type": "updated"}, "sobject": {"Id": ..., ...}}`
(Streaming API guide, "Message Structure"). The notification of a deletion has the `Id` alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from sfcdc_assets.change_events.field_types import field_type
from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.event_channels.field_reader import FieldReader, field_readers, read_fields, reader_of_type
from sfcdc_assets.event_channels.messages import about_event, created_ms, message_of, parts_in
from sfcdc_assets.event_channels.typed_event import TypedEvent
from sfcdc_assets.salesforce.object_description import COMPOUND_TYPES, ObjectDescription
from sfcdc_assets.streams.delivered_event import DeliveredEvent


class PushTopicReader:
    """Reads the notifications of one PushTopic. The object is described again when a notification has a field that it
    did not have: the topic's query, or the object, was changed."""

    own_columns = pa.schema([("event_type", pa.string()), ("carried_fields", pa.list_(pa.string()))])
    """What happened, and the fields that the notification has: of the others it says nothing, which is not null."""

    def __init__(
        self,
        describe: Callable[[], ObjectDescription | None],
        privacy: Privacy,
        remembered: ObjectDescription | None = None,
    ) -> None:
        """`describe`: the topic's object, as the org describes it now; None where it does not to this user.
        `remembered`: what it was when it was last described; which rules of privacy it has is asked of that one until
        it is described again."""
        self._describe = describe
        self._privacy = privacy
        self._described: ObjectDescription | None = None
        self._remembered = remembered
        self._tried: set[str] = set()
        self._readers: dict[str, FieldReader] = {}

    def read(self, event: DeliveredEvent) -> TypedEvent:
        """See `EventReader.read`."""
        message, problem = message_of(event.payload)
        record = message.get("sobject")
        if problem is None and not isinstance(record, dict):
            problem = "the message has no sobject"
        happened = about_event(message).get("type")
        own: dict[str, Any] = {"event_type": happened if isinstance(happened, str) else None}
        if problem is not None or not isinstance(record, dict):
            return TypedEvent(created_ms(message), own, problem=problem, keeps_bytes=self._keeps_bytes)
        given = {name: value for name, value in record.items() if name != "attributes"}
        self._check_remembered(given)
        self._know(given)
        parts = self._parts(given)
        self._know(parts)
        # A compound value (an address) has no one type: its column holds its JSON, beside those of its parts.
        plain = {
            name: json.dumps(value, sort_keys=True, ensure_ascii=False) if isinstance(value, dict | list) else value
            for name, value in {**parts, **given}.items()
        }
        own["carried_fields"] = sorted(plain)
        readers = {name: self._readers[name] for name in plain if name in self._readers}
        values, rescued, problems = read_fields(readers, plain)
        rescued = rescued if self._keeps_bytes else {}
        return TypedEvent(created_ms(message), own, values, rescued, "; ".join(problems) or None, self._keeps_bytes)

    @property
    def keeps_unread(self) -> bool:
        """See `EventReader.keeps_unread`."""
        return self._keeps_bytes

    @property
    def _keeps_bytes(self) -> bool:
        known = self._described or self._remembered
        return not self._privacy.concerns(known.name if known else None)

    def _check_remembered(self, given: Mapping[str, Any]) -> None:
        """Forget what the object was if a record is none of its: the topic's query was changed."""
        prefix = self._remembered.key_prefix if self._remembered else None
        if prefix is not None and not str(given.get("Id", "")).startswith(prefix):
            self._remembered = None

    def _parts(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the fields that the addresses and geolocations in a message consist of."""
        found: dict[str, Any] = {}
        for field in self._described.fields if self._described else ():
            value = given.get(field.name)
            if field.name in given and field.type in COMPOUND_TYPES and (value is None or isinstance(value, dict)):
                assert self._described is not None
                found |= parts_in(value, [part.name for part in self._described.parts_of(field.name)])
        return found

    def _know(self, names: Iterable[str]) -> None:
        """Have a reader for each field; one that describe does not know is a text."""
        new = set(names) - self._readers.keys()
        if not new:
            return
        known = self._described.field_names if self._described else frozenset()
        if new - known - self._tried:
            self._described = self._describe() or self._described
            self._tried |= new
        described = {field.name: field for field in self._described.fields} if self._described else {}
        entity = self._described.name if self._described else None
        fields = [
            reader_of_type(name, field_type(described[name].type if name in described else "string")) for name in new
        ]
        compounds = self._described.showing_the_same() if self._described else {}
        self._readers |= field_readers(entity, fields, self._privacy, as_json=True, compounds=compounds)
