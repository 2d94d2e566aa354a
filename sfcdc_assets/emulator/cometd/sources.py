"""Where the messages of a channel come from: change events and platform events from the bus, notifications from their
log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from sfcdc_assets.emulator.cometd.allowances import Allowance
from sfcdc_assets.emulator.cometd.event_json import message as event_message
from sfcdc_assets.emulator.errors import ReplayIdCorruptedError
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.events.event_store import StoredEvent
from sfcdc_assets.emulator.events.replay_id import replay_id
from sfcdc_assets.emulator.events.topic import Topic, readable
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.streaming.notifications import Notification, NotificationLog
from sfcdc_assets.emulator.streaming.subscription_filter import EVERYTHING, SubscriptionFilter
from sfcdc_assets.streams.pubsub.proto.pubsub_api_pb2 import ReplayPreset

MOST_EVENTS = 200
"""Of one channel in one answer."""
MOST_BYTES = 3_000_000
"""Payload bytes of one channel in one answer, unless a single event is larger."""
NEW, ALL = -1, -2


@dataclass(frozen=True)
class Found:
    """Messages, each with what puts it in order; the number to read on after; numbers of events that are metered,
    and how many of them are platform events."""

    messages: Sequence[tuple[int, dict[str, Any]]]
    through: int
    metered: Sequence[int] = ()
    platform_events: int = 0


class ChannelSource(Protocol):
    """One channel. A number says how far it was read, and means nothing to another source."""

    @property
    def allowance(self) -> Allowance:
        """What its deliveries are counted against."""

    @property
    def last_number(self) -> int:
        """Of the newest message of any channel of the kind: a hint when to read."""

    def start(self, place: int) -> int:
        """Return the number to read on after, for -1, -2 or a replay id. Raises ReplayIdCorruptedError."""

    def read(self, channel: str, user_id: str, after: int, most: int) -> Found:
        """Return at most `most` messages for a user, oldest first; `channel` is what its subscription is called."""


@dataclass(frozen=True)
class BusEvents:
    """A channel of change events or platform events."""

    org: EmulatedOrg
    bus: EventBus
    topic: Topic
    dice: Random
    allowance: Allowance = Allowance.BUS

    @property
    def last_number(self) -> int:
        """The number of the bus's newest event."""
        return self.bus.last_number

    def start(self, place: int) -> int:
        """See `ChannelSource.start`."""
        if place == NEW:
            return self.bus.start(ReplayPreset.LATEST)
        if place == ALL:
            return self.bus.start(ReplayPreset.EARLIEST, retention_ms=self.topic.retention_ms)
        try:
            return self.bus.start(ReplayPreset.CUSTOM, replay_id(place), self.topic.retention_ms)
        except OverflowError:
            raise ReplayIdCorruptedError(str(place).encode()) from None

    def read(self, channel: str, _user_id: str, after: int, most: int) -> Found:
        """See `ChannelSource.read`."""
        batch = self.bus.read(
            readable(self.org, self.topic),
            after=after,
            max_events=most,
            max_bytes=MOST_BYTES,
            channels=self.topic.channels,
        )
        has_uuid = self.org.settings.cometd_event_uuids

        def message(each: StoredEvent) -> dict[str, Any]:
            return event_message(each, self.bus.schema_of(each), channel, has_uuid=has_uuid, dice=self.dice)

        messages = [(each.number, message(each)) for each in batch.events]
        platform_events = sum(each.is_platform_event for each in batch.events)
        return Found(messages, batch.through, [each.number for each in batch.events], platform_events)


@dataclass(frozen=True)
class Notifications:
    """A PushTopic or a generic channel, by the id of its record: another name changes nothing for who is subscribed."""

    org: EmulatedOrg
    log: NotificationLog
    source: str
    allowance: Allowance
    filter: SubscriptionFilter = EVERYTHING

    @property
    def last_number(self) -> int:
        """The number of the newest notification of any topic."""
        return self.log.last_number

    def start(self, place: int) -> int:
        """See `ChannelSource.start`."""
        return self.log.start(place)

    def read(self, channel: str, user_id: str, after: int, most: int) -> Found:
        """See `ChannelSource.read`."""
        found, through = self.log.read((self.source,), after, most)
        shown = ((each, self._data(each, user_id)) for each in found)
        messages = [(each.number, {"data": data, "channel": channel}) for each, data in shown if data]
        return Found(messages, through, [number for number, _ in messages])

    def _data(self, each: Notification, user_id: str) -> dict[str, Any] | None:
        """Return what the user is sent; None for what is not for this user, or not let through."""
        event = {**each.body["event"], "replayId": each.replay_id}
        if "payload" in each.body:
            users = each.body["users"]
            return {"event": event, "payload": each.body["payload"]} if not users or user_id in users else None
        entity, values = each.body["entity"], each.body["sobject"]
        hidden = self.org.field_security.hidden(entity)
        is_hidden = entity in self.org.hidden_objects | self.org.unreadable_objects or hidden & set(each.body["where"])
        if is_hidden or not self.filter.lets_through(values):
            return None
        return {"event": event, "sobject": {name: value for name, value in values.items() if name not in hidden}}
