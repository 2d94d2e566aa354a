"""The responses of one stream: the events of its topic in order, one response ahead of its client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sfcdc_assets.emulator.events.event_bus import Batch, EventBus
from sfcdc_assets.emulator.events.event_store import StoredEvent
from sfcdc_assets.emulator.events.topic import Topic
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb

MAX_PAYLOAD_BYTES = 3_000_000
"""Payload bytes of one response, unless a single event is larger."""


@dataclass(frozen=True)
class _Ahead:
    """A response made before it was requested, while the client makes something of the last one.

    Its events are those that follow as long as the client may read the same `entities`, and the bus has removed none.
    """

    events: tuple[StoredEvent, ...]
    response: pb.FetchResponse
    after: int
    entities: frozenset[str]
    removals: int


class TopicReader:
    """Reads what follows a place in a topic. `readable`: the entities whose events the client may read now."""

    def __init__(
        self, bus: EventBus, topic: Topic, readable: Callable[[Topic], frozenset[str]], read_through: int
    ) -> None:
        self._bus = bus
        self.topic = topic
        self._readable = readable
        self.read_through = read_through
        """The number of the event that the client has read through."""
        self._ahead: _Ahead | None = None

    @property
    def has_more(self) -> bool:
        """Whether the bus has events after the place, of whatever topic."""
        return self._bus.last_number > self.read_through

    def read(self, most: int) -> tuple[Batch, pb.FetchResponse]:
        """Return at most so many of the events that follow, and a response with them; the place moves on by
        `passed`."""
        entities = self._readable(self.topic)
        ahead, self._ahead = self._ahead, None
        if ahead and most <= len(ahead.events) and self._follows(ahead, entities):
            events = ahead.events[:most]
            del ahead.response.events[most:]
            return Batch(events, events[-1].number, events[-1].replay_id), ahead.response
        batch = self._batch(entities, most)
        return batch, _with_events(batch.events)

    def passed(self, batch: Batch) -> None:
        """Note that the client gets these events, or that there are none for it."""
        self.read_through = batch.through

    def read_ahead(self, count: int) -> None:
        """Read as many events as the last response had, if there are more than that."""
        removals, entities = self._bus.removals, self._readable(self.topic)
        batch = self._batch(entities, count)
        if batch.events and batch.through == batch.events[-1].number < self._bus.last_number:
            self._ahead = _Ahead(batch.events, _with_events(batch.events), self.read_through, entities, removals)

    def _batch(self, entities: frozenset[str], most: int) -> Batch:
        return self._bus.read(
            entities,
            after=self.read_through,
            max_events=most,
            max_bytes=MAX_PAYLOAD_BYTES,
            channels=self.topic.channels,
        )

    def _follows(self, ahead: _Ahead, entities: frozenset[str]) -> bool:
        return (ahead.after, ahead.entities, ahead.removals) == (self.read_through, entities, self._bus.removals)


def _with_events(events: Sequence[StoredEvent]) -> pb.FetchResponse:
    """Put events into a response, in place: messages that are made apart are copied into the one around them."""
    response = pb.FetchResponse()
    for event in events:
        consumed = response.events.add()
        consumed.replay_id = event.replay_id
        produced = consumed.event
        produced.id, produced.schema_id, produced.payload = event.event_id, event.schema_id, event.payload
    return response
