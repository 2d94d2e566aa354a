"""Who listens to the org: each subscriber's place in the stream and how far behind it is."""

from __future__ import annotations

from dataclasses import dataclass

from sfcdc_assets.emulator.cometd.client_session import ChannelSubscription
from sfcdc_assets.emulator.cometd.service import CometdService
from sfcdc_assets.emulator.cometd.sources import BusEvents
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.events.topic import readable
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.pubsub.pubsub_service import PubSubService
from sfcdc_assets.emulator.pubsub.subscription import Subscription


@dataclass(frozen=True)
class Subscriber:
    """One stream or one channel of a session. Times are epoch ms by the org's clock."""

    protocol: str
    channel: str
    read_through: int
    """Number of the event, in the org's own count, up to which everything was sent or did not concern it."""
    lag: int | None
    """Events of the channel that are published and not sent yet; None for channels that have no change events."""
    delivered: int | None
    """Events sent on this stream; None where nobody counts them for each channel."""
    requested: int | None
    """Events requested and not sent yet (flow control); None in the Streaming API, which has no such thing."""
    since: int | None
    ended: int | None
    """When the stream ended; None while it is open."""


def subscribers(org: EmulatedOrg, bus: EventBus, service: PubSubService, cometd: CometdService) -> list[Subscriber]:
    """Open streams and sessions, then the streams that ended last."""
    streams = [_of_stream(org, bus, stream) for stream in service.streams]
    sessions = [
        _of_session(org, bus, channel, subscription)
        for session in cometd.sessions
        for channel, subscription in tuple(session.subscriptions.items())
    ]
    found = [each for each in (*streams, *sessions) if each is not None]
    return sorted(found, key=lambda each: each.ended is not None)


def _of_stream(org: EmulatedOrg, bus: EventBus, stream: Subscription) -> Subscriber | None:
    if stream.place is None:
        return None
    topic, through = stream.place
    return Subscriber(
        protocol="Pub/Sub API",
        channel=topic.name,
        read_through=through,
        lag=bus.lag(readable(org, topic), through, topic.channels),
        delivered=stream.events_sent,
        requested=None if stream.ended_at is not None else stream.pending,
        since=stream.opened_at,
        ended=stream.ended_at,
    )


def _of_session(org: EmulatedOrg, bus: EventBus, channel: str, subscription: ChannelSubscription) -> Subscriber:
    source, through = subscription.source, subscription.read_through
    lag = None
    if isinstance(source, BusEvents):
        lag = bus.lag(readable(org, source.topic), through, source.topic.channels)
    return Subscriber(
        protocol="Streaming API",
        channel=channel,
        read_through=through,
        lag=lag,
        delivered=None,
        requested=None,
        since=None,
        ended=None,
    )
