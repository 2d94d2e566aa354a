"""Reading a channel: from a place in its stream to its tip, or for as long as the caller allows.

What breaks on the way (a silent or reset stream, an outage, an expired token) is mended here by resuming after what the
caller has; what cannot be mended is raised with its remedy. A refused replay id is raised and never answered with
LATEST: that would lose events silently.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from sfcdc_assets.pubsub.channel import UNARY_DEADLINE_SECONDS, PubSubConnection
from sfcdc_assets.pubsub.errors import (
    AuthenticationRefused,
    PubSubUnavailable,
    Refusal,
    TokenExpired,
    TopicNotPermitted,
)
from sfcdc_assets.pubsub.fetch_stream import FetchStream
from sfcdc_assets.pubsub.place import DeliveredEvent, Place
from sfcdc_assets.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.pubsub.replay import ReplayStart

__all__ = ["DeliveredEvent", "Delivery", "deliveries"]

log = logging.getLogger(__name__)

MOST_OUTSTANDING = 100
"""The service's cap on the events asked for and not yet delivered, over all requests of a call."""

CALL_GRACE_SECONDS = 30.0
"""How much longer than the budget gRPC lets a call live: a last resort, the reader ends its calls itself."""

_TIP_LIKELY = 0.25
"""Share of `settle` that is waited when the last event's id is the response's `latest_replay_id`. Not zero: some
responses are only a part (3 MB, facts section 2) and the next part follows at once."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Events in stream order; the last delivery of a reading has none and says how the reading ended."""

    events: tuple[DeliveredEvent, ...]
    latest_replay_id: bytes
    """Where to resume once this delivery is kept: all up to here is complete. Empty when no such place is known yet."""
    at_tip: bool
    """Whether the stream had nothing more; only ever true in the last delivery."""


def deliveries(
    connection: PubSubConnection,
    topic: str,
    start: ReplayStart,
    *,
    settle: float = 2.0,
    budget: float,
    stop_after: int | None = None,
    stop_at: Callable[[DeliveredEvent], bool] | None = None,
    clock: Callable[[], float] = time.monotonic,
    wall_clock: Callable[[], float] = time.time,
    batch: int = MOST_OUTSTANDING,
) -> Generator[Delivery]:
    """Deliver what the channel has, each event once, until its tip, `budget` seconds or `stop_after` events.

    The tip is a keepalive, or `settle` seconds of silence on a connection that was just shown to work. No more events
    are asked for than `batch` (at most 100) or than `stop_after` leaves: every delivered event counts against the org's
    allowance. When the budget ends, what has arrived already is delivered too; so it is when `stop_at` says of the last
    event of a response that it is far enough, which is how a reading of a stream that never rests comes to an end.

    Close the generator (`contextlib.closing`) when it is left early, so that its call ends at once.

    Raises `ReplayIdRefused`, `AuthenticationRefused`, `TopicNotFound`, `TopicNotPermitted`, `DeliveryLimitReached`; and
    `PubSubUnavailable` when the retries of the connection's backoff are used up, or the budget is before any response.
    """
    return _Reading(
        connection,
        topic,
        Place(start),
        settle=settle,
        deadline=clock() + budget,
        stop_after=math.inf if stop_after is None else stop_after,
        stop_at=stop_at,
        clock=clock,
        wall_clock=wall_clock,
        batch=max(1, min(batch, MOST_OUTSTANDING)),
    ).run()


class _Reading:
    """The state of one reading, over all the calls it takes."""

    def __init__(
        self,
        connection: PubSubConnection,
        topic: str,
        place: Place,
        *,
        settle: float,
        deadline: float,
        stop_after: float,
        stop_at: Callable[[DeliveredEvent], bool] | None,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        batch: int,
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._place = place
        self._settle = settle
        self._deadline = deadline
        self._left = stop_after
        self._stop_at = stop_at
        self._clock = clock
        self._wall_clock = wall_clock
        self._batch = batch
        self._failures = 0
        self._refreshed = False
        self._answered = False

    def run(self) -> Generator[Delivery]:
        while True:
            try:
                yield from self._one_call()
                return
            except TokenExpired as error:
                if self._refreshed:
                    raise AuthenticationRefused(error.refusal) from None
                self._refreshed = True
                self._connection.refresh_credentials()
                continue
            except PubSubUnavailable as error:
                pause = self._pause_after(error)
            if pause is None:
                yield self._last(at_tip=False)
                return
            self._connection.sleep(pause)

    def _pause_after(self, error: PubSubUnavailable) -> float | None:
        """Seconds until the next call; None when the budget has no room for it. Raises `error` when it is final."""
        backoff = self._connection.backoff
        self._failures += 1
        pause = backoff.pause(self._failures)
        in_budget = self._clock() + pause < self._deadline
        if self._failures >= backoff.attempts or not (in_budget or self._answered):
            raise error
        # A connection that broke is not used again: a half-open one would keep new calls waiting.
        self._connection.close()
        log.warning("%s: %s; attempt %d follows in %.1f s", self._topic, error, self._failures + 1, pause)
        return pause if in_budget else None

    def _one_call(self) -> Iterator[Delivery]:
        left = self._deadline - self._clock()
        # A call to a service that is not there is as silent as one to a quiet channel. Only after an answer over the
        # same connection does silence mean that there is nothing.
        topic = self._connection.probe(self._topic, max(0.001, min(UNARY_DEADLINE_SECONDS, left)))
        if not topic.can_subscribe:
            raise TopicNotPermitted(Refusal("Subscribe", self._topic, "OK", "", "can_subscribe is false", "", ""))
        number = int(min(self._batch, self._left))
        if number <= 0:
            yield self._last(at_tip=False)
            return
        timeout = None if left == math.inf else left + CALL_GRACE_SECONDS
        stream = FetchStream(self._connection, self._topic, self._place.resume, number, timeout)
        try:
            yield from self._responses(stream)
        finally:
            stream.close()

    def _responses(self, stream: FetchStream) -> Iterator[Delivery]:
        quiet = self._settle
        while True:
            left = self._deadline - self._clock()
            response = stream.take(min(quiet, left))
            if response is None:
                yield self._last(at_tip=quiet <= left)
                return
            # Only an answer on the stream shows that the stream works; a service that accepts calls and fails them
            # must not be called without end.
            self._failures, self._refreshed, self._answered = 0, False, True
            if not response.events:
                self._place.reach_tip(response.latest_replay_id)
                if response.pending_num_requested > 0:
                    yield self._last(at_tip=True)
                    return
            events = tuple(event for event in map(self._event, response.events) if self._place.admit(event))
            self._left -= len(events)
            if events and self._stop_at is not None and self._stop_at(events[-1]):
                self._deadline = min(self._deadline, self._clock())
            self._top_up(stream)
            if events:
                yield Delivery(events, self._place.resume.replay_id, at_tip=False)
            if self._left <= 0:
                yield self._last(at_tip=False)
                return
            quiet = self._settle * (_TIP_LIKELY if _ends_at_latest(response) else 1.0)

    def _top_up(self, stream: FetchStream) -> None:
        """Ask for more before the last one is served, while the caller still has the events at hand."""
        if stream.outstanding * 2 > self._batch or self._clock() >= self._deadline:
            return
        number = int(min(self._batch, self._left)) - stream.outstanding
        if number > 0:
            stream.request(number)

    def _last(self, *, at_tip: bool) -> Delivery:
        if at_tip:
            self._place.reach_tip()
        return Delivery((), self._place.resume.replay_id, at_tip)

    def _event(self, event: pb.ConsumerEvent) -> DeliveredEvent:
        received_at_ms = int(self._wall_clock() * 1000)
        return DeliveredEvent(
            event.event.id, event.event.schema_id, event.event.payload, event.replay_id, received_at_ms
        )


def _ends_at_latest(response: pb.FetchResponse) -> bool:
    return (
        response.pending_num_requested > 0
        and len(response.events) > 0
        and response.events[-1].replay_id == response.latest_replay_id
    )
