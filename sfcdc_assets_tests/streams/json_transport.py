"""A second transport, for tests: an org's bus read in this process, without gRPC and Avro.

It is as CometD is: replay ids are numbers and stored as their texts, payloads are JSON, nobody asks for events, and an
empty response names no replay id. It never waits: time is moved instead.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import fastavro

from sfcdc_assets.change_events.errors import HeaderError
from sfcdc_assets.change_events.event_schema import HEADER_FIELD, header_schema
from sfcdc_assets.change_events.header import AVRO_READ_ERRORS, read_header
from sfcdc_assets.emulator.errors import ReplayIdCorruptedError
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.events.event_store import StoredEvent
from sfcdc_assets.emulator.events.replay_id import replay_id
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.runtime import clock
from sfcdc_assets.streams.delivered_event import DeliveredEvent, ReplayPreset, ReplayStart
from sfcdc_assets.streams.errors import ReplayIdRefused, SchemaNotFound
from sfcdc_assets.streams.pubsub.proto.pubsub_api_pb2 import ReplayPreset as BusPreset
from sfcdc_assets.streams.resume import ResumePoint, StreamProgress
from sfcdc_assets.streams.transport import Received
from sfcdc_assets_tests.change_events.json_form import as_json

MOST = 50
"""Events of one response: fewer than a transaction may have."""


class JsonTransport:
    """Implements `Transport` for an org that has one channel of all its objects. `breaks` are the numbers of the
    responses after which a call breaks, over all subscriptions."""

    def __init__(self, org: EmulatedOrg, bus: EventBus, breaks: Sequence[int] = ()) -> None:
        self.name = "cometd"
        self.org = org
        self.bus = bus
        self.breaks = set(breaks)
        self.begun: list[ReplayStart] = []
        """How each call was begun."""
        self.taken = 0
        """Responses with events."""
        self.delivered = 0
        """Events."""
        self.names_schemas = True
        """Whether events say which schema they were written with."""

    def subscribe(self, channel: str, begun: ReplayStart, resume: ResumePoint) -> JsonSubscription:
        return JsonSubscription(self, channel, StreamProgress(begun, resume))

    def schema(self, schema_id: str) -> str:
        found = self.bus.schema_json(schema_id)
        if found is None:
            raise SchemaNotFound(f"There is no schema {schema_id}.")
        return found

    def schemas(self, schema_ids: Sequence[str]) -> Mapping[str, str]:
        found = {}
        for schema_id in schema_ids:
            with suppress(SchemaNotFound):
                found[schema_id] = self.schema(schema_id)
        return found

    def newest_schema_id(self, entity: str) -> str:
        return self.bus.newest_schema_id(entity)

    def close(self) -> None:
        """There is nothing to close."""

    def readable(self) -> frozenset[str]:
        return frozenset(self.org.definitions) - self.org.hidden_objects - self.org.unreadable_objects

    def payload(self, event: StoredEvent) -> bytes:
        """What an org that speaks JSON would have sent; as broken where the event is."""
        schema = json.loads(self.bus.schema_json(event.schema_id) or "")
        try:
            return as_json(event.payload, schema)
        except AVRO_READ_ERRORS:
            pass
        try:
            read_header(event.payload, schema)
        except HeaderError:
            return b"{broken"
        compiled = fastavro.parse_schema(dict(header_schema(schema)))
        head: Any = fastavro.schemaless_reader(io.BytesIO(event.payload), compiled)
        return json.dumps({HEADER_FIELD: {**head, "changedFields": ["NoSuchField"]}}).encode()


class JsonSubscription:
    """Implements `Subscription`."""

    def __init__(self, transport: JsonTransport, channel: str, progress: StreamProgress) -> None:
        self._transport = transport
        self._channel = channel
        self._progress = progress
        self._after: int | None = None
        self._told_at: int | None = None
        """After which event it was said that there is nothing more."""
        self._begun_at = 0.0
        self._brought_at: float | None = None
        self.responses = 0

    @property
    def resume_point(self) -> ResumePoint:
        return self._progress.point

    @property
    def outstanding(self) -> int:
        return 0 if self._after is None else 1

    @property
    def is_open(self) -> bool:
        return self._after is not None

    @property
    def has_answered(self) -> bool:
        return self._brought_at is not None

    def take(self, seconds: float) -> Received | None:
        if self._after is None:
            self._after = self._begin()
        bus = self._transport.bus
        batch = bus.read(self._transport.readable(), after=self._after, max_events=MOST, max_bytes=10**9)
        if not batch.events and self._told_at == self._after:
            clock.sleep(seconds)
            return None
        self.responses += 1
        now, now_ms = clock.current().monotonic(), clock.now_ms()
        if not batch.events:
            self._after = self._told_at = batch.through
            self._brought_at = self._brought_at or now
            self._progress.nothing_more(b"", now_ms)
            return Received((), True, now_ms)
        self._brought_at = now
        self._after = batch.events[-1].number
        events = [
            DeliveredEvent(
                each.event_id,
                each.schema_id if self._transport.names_schemas else "",
                self._transport.payload(each),
                str(each.counter).encode(),
                now_ms,
            )
            for each in batch.events
        ]
        self._transport.taken += 1
        self._transport.delivered += len(events)
        if self._transport.taken in self._transport.breaks:
            self.close()
        return Received(tuple(filter(self._progress.admit, events)), False, now_ms)

    def has_arrived(self, seconds: float) -> bool:
        return False

    def top_up(self, *, sparingly: bool = False) -> None:
        """Nobody asks."""

    def landed(self, point: ResumePoint) -> None:
        """Nobody keeps a place."""

    def open_for(self) -> float:
        return 0.0 if self._after is None else clock.current().monotonic() - self._begun_at

    def quiet_for(self) -> float | None:
        if self._after is None or self._brought_at is None:
            return None
        return clock.current().monotonic() - self._brought_at

    def close(self) -> None:
        self._after = self._told_at = self._brought_at = None

    def _begin(self) -> int:
        start = self._progress.resume()
        self._transport.begun.append(start)
        self._begun_at = clock.current().monotonic()
        if start.preset is not ReplayPreset.CUSTOM:
            return self._transport.bus.start(BusPreset.Value(start.preset.value))
        try:
            return self._transport.bus.start(BusPreset.CUSTOM, replay_id(int(start.replay_id)))
        except ReplayIdCorruptedError:
            said = f"400::The replayId {{{start.replay_id.decode()}}} you provided was invalid."
            raise ReplayIdRefused(f"{self._channel}: {said}") from None
