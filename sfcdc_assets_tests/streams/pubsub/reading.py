"""Reading a scripted service: whole, event by event, and on a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets.streams.delivered_event import DeliveredEvent, ReplayStart
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.streams.pubsub.subscription import PubSubSubscription
from sfcdc_assets.streams.pubsub.transport import PubSubTransport
from sfcdc_assets.streams.resume import ResumePoint
from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually
from sfcdc_assets_tests.streams.pubsub.conftest import Client
from sfcdc_assets_tests.streams.pubsub.scripted_service import Abort, event

Connect = Callable[..., Client]
TOPIC = "/data/ChangeEvents"
CUT = Abort()


@dataclass
class OrgRead:
    """What was read, whether the service said that there is nothing more, and where to go on."""

    events: list[DeliveredEvent]
    nothing_more: bool
    point: ResumePoint

    @property
    def names(self) -> list[str]:
        return [event.event_id for event in self.events]


def subscribe(client: Client, start: ReplayStart = ReplayStart.EARLIEST) -> PubSubSubscription:
    return PubSubTransport(client.connection).subscribe(TOPIC, start, ResumePoint())


def read(client: Client, start: ReplayStart = ReplayStart.EARLIEST) -> OrgRead:
    """Read until the service says that there is nothing more."""
    events: list[DeliveredEvent] = []
    with closing(subscribe(client, start)) as subscription:
        while (received := subscription.take(BOUND_SECONDS)) is not None:
            events += received.events
            if received.nothing_more:
                return OrgRead(events, True, subscription.resume_point)
            subscription.top_up(sparingly=True)
        return OrgRead(events, False, subscription.resume_point)


class StoppedClock(Clock):
    """No time passes between a failure and the pause after it, however long the machine takes."""

    def monotonic(self) -> float:
        return 0.0


def numbered(first: int, last: int) -> list[pb.ConsumerEvent]:
    return [event(number) for number in range(first, last + 1)]


def starts(client: Client) -> list[tuple[int, bytes]]:
    return [(call.requests[0].replay_preset, call.requests[0].replay_id) for call in client.service.calls]


def taken(subscription: PubSubSubscription) -> list[str]:
    """The next events, waited for by the machine's clock."""

    def events() -> Sequence[DeliveredEvent]:
        received = subscription.take(0)
        return received.events if received is not None else ()

    return [event.event_id for event in eventually(events, "the next events")]
