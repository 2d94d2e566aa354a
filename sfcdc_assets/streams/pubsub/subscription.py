"""A channel's Subscribe call, kept open by asking for as many events as are taken."""

from __future__ import annotations

from sfcdc_assets.streams.delivered_event import ReplayStart
from sfcdc_assets.streams.pubsub.channel import UNARY_DEADLINE_SECONDS, PubSubConnection
from sfcdc_assets.streams.pubsub.errors import PubSubUnavailable, Refusal, TopicNotPermitted
from sfcdc_assets.streams.pubsub.fetch_stream import FetchStream
from sfcdc_assets.streams.reconnecting_subscription import ReconnectingSubscription
from sfcdc_assets.streams.resume import StreamProgress

MOST_OUTSTANDING = 100
"""The service's cap on the events asked for and not yet delivered, over all requests of a call."""


class PubSubSubscription(ReconnectingSubscription[FetchStream]):
    """The subscription to one topic, from where `progress` is on (see `streams.transport.Subscription`).

    The first `take` begins the call. No more than `batch` events (at most 100) are asked for and not yet taken: every
    delivered event counts against the org's allowance.
    """

    _connection: PubSubConnection

    def __init__(
        self, connection: PubSubConnection, topic: str, progress: StreamProgress, *, batch: int = MOST_OUTSTANDING
    ) -> None:
        super().__init__(connection, topic, progress)
        self._batch = max(1, min(batch, MOST_OUTSTANDING))

    def top_up(self, *, sparingly: bool = False) -> None:
        """Ask for as many events as may be outstanding; `sparingly`: once no more than half of those are.

        Without it the service closes the call once all are served; too many requests are refused.
        """
        at_least = self._batch // 2 if sparingly else 1
        if self._call is not None and self._batch - self._call.outstanding >= max(1, at_least):
            self._call.request(self._batch - self._call.outstanding)

    @property
    def outstanding(self) -> int:
        """Events asked for on the open call and not yet taken."""
        return 0 if self._call is None else self._call.outstanding

    def _begin(self, start: ReplayStart) -> FetchStream:
        return self._subscribed(self._channel, start)

    def _subscribed(self, topic: str, start: ReplayStart) -> FetchStream:
        """Begin a Subscribe call. Raises `PubSubError`."""
        # Shows that the way to the service works and that the topic may be read; nothing about the stream itself.
        if not self._connection.probe(topic, UNARY_DEADLINE_SECONDS).can_subscribe:
            raise TopicNotPermitted(Refusal("Subscribe", topic, "OK", "", "can_subscribe is false", "", ""))
        return FetchStream(self._connection, topic, start, self._batch, self._clock)

    def _silent(self, seconds: float) -> PubSubUnavailable:
        return PubSubUnavailable(
            Refusal("Subscribe", self._channel, "OK", "", f"no sign of life for {seconds:.0f} s", "", "")
        )

    def _give_up(self) -> None:
        # A connection that broke is not used again: a half-open one would keep new calls waiting.
        self._connection.close()
