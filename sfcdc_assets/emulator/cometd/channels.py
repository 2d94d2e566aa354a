"""Which channels can be subscribed to: `/data/` change events, `/event/` platform events, `/topic/` PushTopics, `/u/`
generic ones."""

from __future__ import annotations

from random import Random

from sfcdc_assets.emulator.cometd import refusals
from sfcdc_assets.emulator.cometd.allowances import Allowance
from sfcdc_assets.emulator.cometd.refusals import BayeuxRefused
from sfcdc_assets.emulator.cometd.sources import BusEvents, ChannelSource, Notifications
from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.events.topic import find_topic, readable
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.streaming.notifications import NotificationLog
from sfcdc_assets.emulator.streaming.push_topics import PushTopics
from sfcdc_assets.emulator.streaming.streaming_channels import StreamingChannels
from sfcdc_assets.emulator.streaming.subscription_filter import MalformedFilterError, SubscriptionFilter


class StreamingTopics:
    """The channels of one org, and the records behind those that are no change events."""

    def __init__(self, org: EmulatedOrg, bus: EventBus) -> None:
        self.log = NotificationLog(org)
        self.push_topics = PushTopics(org, self.log, bus.wake)
        self.channels = StreamingChannels(org, self.log)
        self._org = org
        self._bus = bus
        self._dice = Random(org.seed)

    def source(self, channel: str) -> ChannelSource:
        """Return where a channel's messages come from. Raises BayeuxRefused."""
        if channel.startswith(("/data/", "/event/")):
            return self._bus_events(channel)
        name, _, expression = channel.partition("?")
        if name.startswith("/topic/"):
            return self._push_topic(name.removeprefix("/topic/"), expression)
        if name.startswith("/u/"):
            return self._generic(name)
        if channel.startswith(("/meta/", "/service/")):
            raise BayeuxRefused(refusals.RESTRICTED_CHANNEL)
        raise BayeuxRefused(refusals.UNKNOWN_CHANNEL)

    def _bus_events(self, channel: str) -> ChannelSource:
        topic = find_topic(self._org, channel)
        if topic is None:
            raise BayeuxRefused(refusals.no_such_channel(channel))
        if topic.entity is not None and not readable(self._org, topic):
            is_change = channel.startswith("/data/")
            raise BayeuxRefused(refusals.NO_ACCESS_TO_CHANGES if is_change else refusals.NO_ACCESS_TO_ENTITY)
        allowance = Allowance.BUS if topic.is_high_volume else Allowance.STANDARD_EVENTS
        return BusEvents(self._org, self._bus, topic, self._dice, allowance)

    def _push_topic(self, name: str, expression: str) -> ChannelSource:
        topics = [each for each in self.push_topics.all() if each.values["IsActive"]]
        topic = next((each for each in topics if each.name == name), None)
        if topic is None:
            by_case = any(each.name.lower() == name.lower() for each in topics)
            raise BayeuxRefused(refusals.ONLY_BY_CASE if by_case else refusals.UNKNOWN_CHANNEL)
        if "PushTopic" in self._org.unreadable_objects:
            raise BayeuxRefused(refusals.NO_ACCESS_TO_CHANNEL)
        query = self.push_topics.query_of(topic)
        if query.entity in self._org.unreadable_objects | self._org.hidden_objects:
            raise BayeuxRefused(refusals.NO_ACCESS_TO_ENTITY)
        if self._org.field_security.hidden(query.entity) & set(query.where_fields):
            raise BayeuxRefused(refusals.NO_ACCESS_TO_WHERE)
        if not expression:
            return Notifications(self._org, self.log, topic.id, Allowance.PUSH_TOPICS)
        try:
            wanted = SubscriptionFilter.of(expression)
        except MalformedFilterError as error:
            raise BayeuxRefused(refusals.malformed_filter(str(error))) from None
        selected = {field.lower() for field in query.selected}
        unknown = [field for field in wanted.fields if field.lower() not in selected]
        if unknown:
            raise BayeuxRefused(refusals.no_such_fields(unknown))
        return Notifications(self._org, self.log, topic.id, Allowance.PUSH_TOPICS, wanted)

    def _generic(self, name: str) -> ChannelSource:
        channels = self.channels.all()
        found = next((each for each in channels if each.name == name), None)
        if found is None:
            if any(each.name.lower() == name.lower() for each in channels):
                raise BayeuxRefused(refusals.ONLY_BY_CASE)
            if not self._org.settings.dynamic_streaming_channels:
                raise BayeuxRefused(refusals.UNKNOWN_CHANNEL)
            try:
                found = self.channels.create({"Name": name}, is_dynamic=True)
            except ApiError:
                raise BayeuxRefused(refusals.CANNOT_CREATE_CHANNEL) from None
        if "StreamingChannel" in self._org.unreadable_objects:
            raise BayeuxRefused(refusals.NO_ACCESS_TO_CHANNEL)
        return Notifications(self._org, self.log, found.id, Allowance.GENERIC)
