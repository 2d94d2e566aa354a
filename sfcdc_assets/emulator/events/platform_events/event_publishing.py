"""Publishing platform events: what REST and the Pub/Sub API have in common (docs/salesforce-streams.md, "Platform
events").

REST gives values, which are checked; the Pub/Sub API gives payloads, which nobody looks at. Both end here: an event is
on its own topic and on the custom channels it is a member of, and in the oracle's log, in one database transaction.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sfcdc_assets.emulator.definitions.platform_event_definition import PlatformEventDefinition
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.events.bus_event import BusEvent
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.events.event_filter import matches
from sfcdc_assets.emulator.events.platform_events.event_log import PlatformEventLog, PublishedEvent
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import HOUR
from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.emulator.records.field_value import stored_value

GARBAGE = b"\xff" * 24
"""No Avro reader gets past this."""


@dataclass(frozen=True)
class EventToPublish:
    """An event that was accepted. `values` are stored values, None where only the payload is known."""

    definition: PlatformEventDefinition
    event_id: str
    schema_id: str
    schema_json: str
    payload: bytes
    user_id: str
    values: Mapping[str, StoredValue] | None = None


class EventPublisher:
    """Publishes the platform events of one org. Thread-safe; keeps nothing but what is in the org's database."""

    def __init__(self, org: EmulatedOrg, bus: EventBus) -> None:
        self._org = org
        self._bus = bus
        self._log = PlatformEventLog(org.database)

    def published(self, after: int = 0, limit: int = -1) -> list[PublishedEvent]:
        """Return the published events, the oracle: every event that was accepted, those of a `lost_event` fault left
        out, after a number."""
        with self._org.database.lock:
            return self._log.since(after, limit)

    def publish(self, name: str, values: Mapping[str, object], *, user_id: str | None = None) -> str:
        """Publish one event as REST does, for tests and demonstrations; returns its EventUuid. Raises RecordError, and
        KeyError for an event that the org does not have."""
        definition = self._org.platform_events.all[name]
        event = self.draft(definition, values, user_id or self._org.users.integration)
        self.store([event])
        return event.event_id

    def draft(
        self, definition: PlatformEventDefinition, values: Mapping[str, object], user_id: str, *, waiting: int = 0
    ) -> EventToPublish:
        """Return an event of a client's values. Raises RecordError for what cannot be published. `waiting`: events that
        were drafted before and are not stored yet."""
        self.check_accepted(definition, waiting)
        given: dict[str, StoredValue] = {field.name: field.default for field in definition.custom_fields}
        for name, value in values.items():
            field = definition.shape.field(name)
            if field is None:
                message = f"No such column '{name}' on sobject of type {definition.name}"
                raise RecordError("INVALID_FIELD", message, (name,))
            if not field.createable:
                message = f"Unable to create/update fields: {field.name}. Please check the security settings of this "
                message += "field and verify that it is read/write for your profile or permission set."
                raise RecordError("INVALID_FIELD_FOR_INSERT_UPDATE", message, (field.name,))
            given[field.name] = stored_value(field, value)
        missing = [f.name for f in definition.custom_fields if not f.nillable and given[f.name] is None]
        if missing:
            message = f"Required fields are missing: [{', '.join(missing)}]"
            raise RecordError("REQUIRED_FIELD_MISSING", message, tuple(missing))
        codec = self._org.platform_events.codec(definition.name)
        payload = codec.payload(given, created_date=self._org.clock(), created_by=user_id)
        event_id = str(uuid.uuid4())
        return EventToPublish(definition, event_id, codec.schema_id, codec.schema_json, payload, user_id, given)

    def of_payload(
        self,
        definition: PlatformEventDefinition,
        payload: bytes,
        schema_id: str,
        event_id: str,
        user_id: str,
        *,
        waiting: int = 0,
    ) -> EventToPublish:
        """Return an event of a payload in any schema that the event has or had; nobody looks whether it is. `event_id`:
        the publisher's own, which stays the event's. Raises RecordError, for a schema that is another's too."""
        self.check_accepted(definition, waiting)
        codec = self._org.platform_events.codec(definition.name)
        schema_json = self._bus.schema_json(schema_id) if schema_id else None
        if schema_json is None or json.loads(schema_json)["name"] != definition.name:
            message = f"The schema ID {schema_id or 'that is blank'} is no schema of {definition.name}."
            raise RecordError("INVALID_SCHEMA_ID", message)
        values = codec.values(payload) if schema_id == codec.schema_id else None
        chosen = event_id or str(uuid.uuid4())
        return EventToPublish(definition, chosen, schema_id, schema_json, payload, user_id, values)

    def check_accepted(self, definition: PlatformEventDefinition, waiting: int = 0) -> None:
        """Raise RecordError: LIMIT_EXCEEDED when the hour's events are used up, or that publishing is unavailable where
        that fault is armed."""
        if self._bus.faults.take(Fault.PUBLISH_FAILED):
            message = "Publishing platform event messages failed because a service was temporarily unavailable. "
            raise RecordError("PLATFORM_EVENT_PUBLISHING_UNAVAILABLE", message + "Try again later.", status=503)
        if self.left_in_this_hour(high_volume=definition.is_high_volume) <= waiting:
            message = "The number of published platform event messages exceeded the hourly publishing limit."
            raise RecordError("LIMIT_EXCEEDED", message, status=403)

    def left_in_this_hour(self, *, high_volume: bool = True) -> int:
        """Return how many events of a kind may still be published in the hour that ends now."""
        settings = self._org.settings
        most = settings.hourly_published_events if high_volume else settings.hourly_published_standard_events
        return most - self._count(HOUR, high_volume=high_volume)

    def published_between(self, start: int, end: int) -> int:
        """Events of both kinds published from one full minute to another (epoch ms)."""
        with self._org.database.lock:
            return self._log.count_between(start, end)

    def _count(self, milliseconds: int, *, high_volume: bool) -> int:
        names = [each.name for each in self._org.platform_events.all.values() if each.is_high_volume == high_volume]
        with self._org.database.lock:
            return self._log.count(names, self._org.clock() - milliseconds)

    def store(self, events: Sequence[EventToPublish]) -> list[bytes]:
        """Publish events in their order; returns their replay ids. An event that a fault loses has one nevertheless:
        that of the event before it."""
        if not events:
            return []
        with self._org.database.transaction():
            kept = [each for each in events if not self._bus.faults.take(Fault.LOST_EVENT)]
            stored = self._bus.publish([self._bus_event(each) for each in kept])
            places = {id(each): found.replay_id for each, found in zip(kept, stored, strict=True)}
            for each in kept:
                self._log.add(
                    each.definition.name,
                    each.event_id,
                    places[id(each)],
                    each.schema_id,
                    each.payload,
                    self._org.clock(),
                    each.user_id,
                )
            return [places.get(id(each)) or self._bus.latest_replay_id() for each in events]

    def _bus_event(self, event: EventToPublish) -> BusEvent:
        faults = self._bus.faults
        is_garbled = any(faults.take(fault) for fault in (Fault.GARBLED_BODY, Fault.GARBLED_HEADER))
        payload = GARBAGE if is_garbled else event.payload
        name = event.definition.name
        channels = self._org.channels.custom_channels_of(name)
        is_doubled = faults.take(Fault.DUPLICATE)
        return BusEvent(
            entity=name,
            schema_id=event.schema_id,
            schema_json=event.schema_json,
            payload=payload,
            event_id=event.event_id,
            copy_after=int(faults.option(Fault.DUPLICATE, "after", 0)) if is_doubled else None,
            is_selected=False,
            channel_payloads=tuple((each, (payload,)) for each in channels if self._is_on(each, event)),
        )

    def _is_on(self, channel: str, event: EventToPublish) -> bool:
        """Return whether the values are in the channel's filter; an event that tells no values is in none."""
        expression = self._org.channels.filter_expression(channel, event.definition.name)
        if expression is None:
            return True
        if event.values is None:
            return False
        return matches(expression, event.definition.filterable, event.values, self._org.database, self._org.clock())
