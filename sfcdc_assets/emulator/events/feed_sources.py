"""What the org's feed is made of: change events and platform events from the bus, and from their log the notifications
of PushTopics and what is pushed to generic channels. Each source has numbers of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from sfcdc_assets.emulator.cometd.channels import StreamingTopics
from sfcdc_assets.emulator.cometd.event_json import writer_of
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.events.event_store import EVERYWHERE, OWN_TOPIC, StoredEvent
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.streaming.notifications import Notification
from sfcdc_assets.runtime.times import epoch_ms

_ONCE = (EVERYWHERE, OWN_TOPIC)
"""Channels on which every event is exactly once; custom ones have copies."""
_PAGE_BYTES = 3_000_000


class FeedKind(StrEnum):
    """What raised an event."""

    CHANGE = "change"
    PLATFORM_EVENT = "platform event"
    PUSH_TOPIC = "PushTopic"
    GENERIC = "generic"


@dataclass(frozen=True)
class FeedEvent:
    """One event, decoded. `number` is its source's own.

    `entity` is the object, the platform event, or the channel (`/topic/Name`, `/u/Name`). `payload` has what the event
    carries: for a change its fields under their names, ChangeEventHeader first; for a notification what its subscribers
    are sent as `data`; `unreadable` alone if it is not Avro of its schema. `at` is epoch ms, 0 if nothing in it says.
    """

    kind: FeedKind
    number: int
    replay_id: str
    """Hexadecimal; that of a notification is a number."""
    event_id: str
    """Empty for a notification, as is `schema_id`."""
    entity: str
    schema_id: str
    payload: Mapping[str, Any]
    at: int

    @property
    def header(self) -> Mapping[str, Any]:
        """The ChangeEventHeader; empty if it cannot be read, or if this is no change."""
        header: Mapping[str, Any] = self.payload.get("ChangeEventHeader", {})
        return header

    @property
    def what(self) -> str:
        """The change type, or what stands for it."""
        if self.kind is FeedKind.CHANGE:
            return str(self.header.get("changeType", "unreadable"))
        if self.kind is FeedKind.PUSH_TOPIC:
            return str(self.payload["event"]["type"])
        return "pushed" if self.kind is FeedKind.GENERIC else "published"

    @property
    def fields(self) -> dict[str, Any]:
        """What the event carries beside its header."""
        if self.kind is FeedKind.PUSH_TOPIC:
            return dict(self.payload["sobject"])
        if self.kind is FeedKind.GENERIC:
            return {"payload": self.payload["payload"]}
        return {name: value for name, value in self.payload.items() if name != "ChangeEventHeader"}

    @property
    def record_ids(self) -> tuple[str, ...]:
        """The records that it is about; a wildcard such as `001*` stands for all of an object."""
        if self.kind is FeedKind.PUSH_TOPIC:
            return (str(self.payload["sobject"]["Id"]),)
        return tuple(self.header.get("recordIds", ()))

    def names(self, record_id: str) -> bool:
        """Return whether the event is about a record."""
        return any(each == record_id or (each[3:] == "*" and each[:3] == record_id[:3]) for each in self.record_ids)


class FeedSource(Protocol):
    """Events of some kinds. `name` is an entity, as FeedEvent has it; empty for all."""

    def names(self) -> Collection[str]:
        """Every entity that may have events."""

    def after(self, number: int, most: int, name: str) -> tuple[Sequence[FeedEvent], int]:
        """Return the first `most` after a number, oldest first, and the number to read on after."""

    def before_newest(self, most: int, name: str) -> int:
        """Return the number after which only the newest `most` come."""

    def count_after(self, number: int, name: str) -> int:
        """Return how many come after a number."""


class BusFeed:
    """Change events and platform events, by default each once, or as they are on some `channels`."""

    def __init__(self, org: EmulatedOrg, bus: EventBus, channels: Collection[str] = _ONCE) -> None:
        self._org = org
        self._bus = bus
        self._channels = channels

    def names(self) -> Collection[str]:
        """See `FeedSource.names`."""
        return (*self._org.definitions, *self._org.platform_events.all)

    def after(self, number: int, most: int, name: str) -> tuple[Sequence[FeedEvent], int]:
        """See `FeedSource.after`."""
        batch = self._bus.read(
            self._entities(name), after=number, max_events=most, max_bytes=_PAGE_BYTES, channels=self._channels
        )
        return [self._decoded(each) for each in batch.events], batch.through

    def before_newest(self, most: int, name: str) -> int:
        """See `FeedSource.before_newest`."""
        return self._bus.before_newest(self._entities(name), most, self._channels)

    def count_after(self, number: int, name: str) -> int:
        """See `FeedSource.count_after`."""
        return self._bus.lag(self._entities(name), number, self._channels)

    def _entities(self, name: str) -> Collection[str]:
        return tuple(each for each in self.names() if name in ("", each))

    def _decoded(self, event: StoredEvent) -> FeedEvent:
        payload = writer_of(self._bus.schema_of(event)).payload(event.payload)
        kind = FeedKind.PLATFORM_EVENT if event.is_platform_event else FeedKind.CHANGE
        at = payload.get("ChangeEventHeader", {}).get("commitTimestamp") or _epoch_ms(payload.get("CreatedDate"))
        replay_id = event.replay_id.hex()
        return FeedEvent(kind, event.number, replay_id, event.event_id, event.entity, event.schema_id, payload, at)


class NotificationFeed:
    """Notifications of PushTopics and pushes to generic channels, under the names that their channels have now."""

    def __init__(self, topics: StreamingTopics) -> None:
        self._topics = topics

    def names(self) -> Collection[str]:
        """See `FeedSource.names`."""
        return tuple(self._channels().values())

    def after(self, number: int, most: int, name: str) -> tuple[Sequence[FeedEvent], int]:
        """See `FeedSource.after`."""
        channels = self._channels()
        found, through = self._topics.log.read(self._sources(name), number, most)
        return [self._shown(each, channels.get(each.source, each.source)) for each in found], through

    def before_newest(self, most: int, name: str) -> int:
        """See `FeedSource.before_newest`."""
        return self._topics.log.before_newest(self._sources(name), most)

    def count_after(self, number: int, name: str) -> int:
        """See `FeedSource.count_after`."""
        return self._topics.log.count_after(self._sources(name), number)

    def _channels(self) -> dict[str, str]:
        """Id of the PushTopic or StreamingChannel -> its channel."""
        topics = {each.id: f"/topic/{each.name}" for each in self._topics.push_topics.all()}
        return topics | {each.id: each.name for each in self._topics.channels.all()}

    def _sources(self, name: str) -> Collection[str] | None:
        """Ids of the channels of a name; None: of all, those included that are deleted."""
        return None if not name else [key for key, channel in self._channels().items() if channel == name]

    @staticmethod
    def _shown(each: Notification, channel: str) -> FeedEvent:
        event = {**each.body["event"], "replayId": each.replay_id}
        is_push = "payload" in each.body
        kind = FeedKind.GENERIC if is_push else FeedKind.PUSH_TOPIC
        data = {"payload": each.body["payload"]} if is_push else {"sobject": each.body["sobject"]}
        return FeedEvent(
            kind, each.number, str(each.replay_id), "", channel, "", {"event": event, **data}, each.created
        )


def _epoch_ms(moment: object) -> int:
    return epoch_ms(datetime.fromisoformat(moment)) if isinstance(moment, str) else 0
