"""A channel's Subscribe call, kept open for as long as its owner wants and resumed after whatever breaks it.

What breaks (a silent or reset stream, an outage, an expired token) is mended here by resuming after what was taken;
what cannot be mended is raised with its remedy. A refused replay id is raised and never answered with LATEST: that
would lose events silently.

Silence proves nothing by itself. `quiet_for` tells how long the stream has been silent since it last brought an event,
and only of a call that has answered: what follows from it is the caller's to say.
"""

from __future__ import annotations

import logging

from sfcdc_assets import clock
from sfcdc_assets.pubsub.channel import UNARY_DEADLINE_SECONDS, PubSubConnection
from sfcdc_assets.pubsub.errors import (
    AuthenticationRefused,
    PubSubError,
    PubSubUnavailable,
    Refusal,
    TokenExpired,
    TopicNotPermitted,
)
from sfcdc_assets.pubsub.fetch_stream import Arrival, FetchStream
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.resume import ResumePoint, StreamProgress
from sfcdc_assets.streams.transport import SILENCE_SECONDS, Received

log = logging.getLogger(__name__)

MOST_OUTSTANDING = 100
"""The service's cap on the events asked for and not yet delivered, over all requests of a call."""

MEND_SECONDS = 5.0
"""How long a `take` that wants to be quick may pause for a broken call to be begun again."""

_SHORT_LIFE_SECONDS = 10.0
"""A call that answered and lived longer than this is begun again without a pause."""


class PubSubSubscription:
    """The subscription to one topic, from where `progress` is on (see `streams.transport.Subscription`).

    The first `take` begins the call. No more than `batch` events (at most 100) are asked for and not yet taken: every
    delivered event counts against the org's allowance.
    """

    def __init__(
        self, connection: PubSubConnection, topic: str, progress: StreamProgress, *, batch: int = MOST_OUTSTANDING
    ) -> None:
        self._progress = progress
        self._connection = connection
        self._topic = topic
        self._batch = max(1, min(batch, MOST_OUTSTANDING))
        self._clock = clock.current()
        self._stream: FetchStream | None = None
        self._begun_at = 0.0
        self._answered_at: float | None = None
        self._last_events_at = 0.0
        self._failures = 0
        self._refreshed = False
        self._retry_at: float | None = None
        self._last_error: PubSubError | None = None

    def take(self, seconds: float) -> Received | None:
        """The next response, or None after `seconds` of silence.

        Raises `ReplayIdRefused`, `AuthenticationRefused`, `TopicNotFound`, `TopicNotPermitted`, `DeliveryLimitReached`;
        and `PubSubUnavailable` when the next attempt is further away than `seconds` (and than `MEND_SECONDS`), or the
        attempts of the connection's backoff are used up. The subscription may be read on after any of them.
        """
        deadline = self._clock.monotonic() + seconds
        mend_until = max(deadline, self._clock.monotonic() + MEND_SECONDS)
        while True:
            try:
                stream = self._stream or self._begin(mend_until)
                arrival = stream.take(deadline - self._clock.monotonic())
                if arrival is not None:
                    return self._received(arrival)
                self._check_signs_of_life(stream)
                return None
            except TokenExpired as error:
                self.close()
                if self._refreshed:
                    # The caller may read on; by then this token too may be out of date, so a fresh one is due again.
                    self._refreshed = False
                    raise AuthenticationRefused(error.refusal) from None
                self._refreshed = True
                self._connection.refresh_credentials()
            except PubSubUnavailable as error:
                self._pause_after(error, mend_until)
            except PubSubError:
                self.close()
                raise

    @property
    def resume_point(self) -> ResumePoint:
        """Where to resume after all that was taken."""
        return self._progress.point

    def top_up(self, *, sparingly: bool = False) -> None:
        """Ask for as many events as may be outstanding; `sparingly`: once no more than half of those are.

        Without it the service closes the call once all are served; too many requests are refused.
        """
        at_least = self._batch // 2 if sparingly else 1
        if self._stream is not None and self._batch - self._stream.outstanding >= max(1, at_least):
            self._stream.request(self._batch - self._stream.outstanding)

    @property
    def outstanding(self) -> int:
        """Events asked for on the open call and not yet taken."""
        return 0 if self._stream is None else self._stream.outstanding

    @property
    def is_open(self) -> bool:
        """Whether a call was begun and not ended by either side, as far as is known."""
        return self._stream is not None and not self._stream.is_over

    @property
    def responses(self) -> int:
        """Responses that have arrived on the open call, those not taken yet included."""
        return 0 if self._stream is None else self._stream.responses

    @property
    def has_answered(self) -> bool:
        """Whether the open call has brought a response: that a call could be made says nothing about the stream."""
        return self._answered_at is not None

    def open_for(self) -> float:
        """Seconds since the open call was begun; 0 without one."""
        return 0.0 if self._stream is None else self._clock.monotonic() - self._begun_at

    def quiet_for(self) -> float | None:
        """Seconds since the open call last brought events, all of which were taken; None if it has not answered."""
        if self._stream is None or self._answered_at is None:
            return None
        return self._clock.monotonic() - max(self._answered_at, self._last_events_at)

    def close(self) -> None:
        """End the call. What had arrived and was not taken comes again with the next one."""
        stream, self._stream = self._stream, None
        self._answered_at = None
        if stream is not None:
            stream.close()

    def _begin(self, mend_until: float) -> FetchStream:
        if self._retry_at is not None:
            self._wait_until(self._retry_at, mend_until)
        # Shows that the way to the service works and that the topic may be read; nothing about the stream itself.
        topic = self._connection.probe(self._topic, UNARY_DEADLINE_SECONDS)
        if not topic.can_subscribe:
            raise TopicNotPermitted(Refusal("Subscribe", self._topic, "OK", "", "can_subscribe is false", "", ""))
        self._begun_at = self._clock.monotonic()
        self._answered_at, self._last_events_at = None, self._begun_at
        self._stream = FetchStream(self._connection, self._topic, self._progress.resume(), self._batch, self._clock)
        return self._stream

    def _received(self, arrival: Arrival) -> Received:
        # Only an answer on the stream shows that the stream works; a service that accepts calls and fails them must
        # not be called without end.
        self._failures, self._refreshed, self._retry_at = 0, False, None
        if self._answered_at is None:
            self._answered_at = arrival.at
        response = arrival.response
        if not response.events:
            # With nothing requested an empty response would say nothing.
            nothing_more = response.pending_num_requested > 0
            if nothing_more:
                self._progress.nothing_more(response.latest_replay_id, arrival.at_ms)
            return Received((), nothing_more, arrival.at_ms)
        self._last_events_at = arrival.at
        events = [
            DeliveredEvent(event.id, event.schema_id, event.payload, each.replay_id, arrival.at_ms)
            for each in response.events
            for event in (each.event,)
        ]
        return Received(tuple(self._progress.admit_all(events)), False, arrival.at_ms)

    def _check_signs_of_life(self, stream: FetchStream) -> None:
        silent = self._clock.monotonic() - stream.last_sign
        if stream.outstanding and silent > SILENCE_SECONDS:
            raise PubSubUnavailable(
                Refusal("Subscribe", self._topic, "OK", "", f"no sign of life for {silent:.0f} s", "", "")
            )

    def _pause_after(self, error: PubSubUnavailable, mend_until: float) -> None:
        """Set the time of the next attempt. Raises `error` when it is final or too far away."""
        if self._last_error is error and self._retry_at is not None:
            raise error  # the next attempt is still to come
        lived = self._answered_at is not None and self._clock.monotonic() - self._begun_at > _SHORT_LIFE_SECONDS
        self.close()
        # A connection that broke is not used again: a half-open one would keep new calls waiting.
        self._connection.close()
        self._failures += 1
        backoff = self._connection.backoff
        pause = 0.0 if lived else backoff.pause(self._failures)
        now = self._clock.monotonic()
        self._retry_at, self._last_error = now + pause, error
        if self._failures >= backoff.attempts or now + pause > mend_until:
            raise error
        log.warning("%s: %s; attempt %d follows in %.1f s", self._topic, error, self._failures + 1, pause)

    def _wait_until(self, retry_at: float, mend_until: float) -> None:
        if retry_at > mend_until and self._last_error is not None:
            raise self._last_error
        pause = retry_at - self._clock.monotonic()
        if pause > 0:
            self._connection.sleep(pause)
        self._retry_at = None
