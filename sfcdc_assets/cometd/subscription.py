"""A channel's subscription over CometD, kept for as long as its owner wants and begun again after whatever breaks it.

What breaks (a session that was forgotten, a lost cookie, a reset or silent connection, an outage, an expired token) is
mended here by a new handshake and a subscription after what was taken; what cannot be mended is raised with its remedy.
A refused replay id is raised and never answered with -1: that would lose events silently.

That a subscription was accepted is no answer of the stream: old events are replayed after it, when the service likes.
The first event is one, or a connect that was held for its whole time and brought none.
"""

from __future__ import annotations

import logging

from sfcdc_assets import clock
from sfcdc_assets.cometd.client import CONNECT
from sfcdc_assets.cometd.connection import CometdConnection
from sfcdc_assets.cometd.errors import (
    AuthenticationRefused,
    CometdError,
    CometdUnavailable,
    EndedByService,
    TokenExpired,
)
from sfcdc_assets.cometd.long_poll import Arrival, LongPoll
from sfcdc_assets.cometd.refusal import Refusal
from sfcdc_assets.streams.resume import ResumePoint, StreamProgress
from sfcdc_assets.streams.transport import Received

log = logging.getLogger(__name__)

MEND_SECONDS = 5.0
"""How long a `take` that wants to be quick may pause for a broken session to be begun again."""
_SHORT_LIFE_SECONDS = 10.0
"""A session that answered and lived longer than this is begun again without a pause of our own."""


class CometdSubscription:
    """The subscription to one channel, from where `progress` is on (see `streams.transport.Subscription`)."""

    def __init__(self, connection: CometdConnection, channel: str, progress: StreamProgress) -> None:
        self._connection = connection
        self._channel = channel
        self._progress = progress
        self._clock = clock.current()
        self._poll: LongPoll | None = None
        self._begun_at = 0.0
        self._answered_at: float | None = None
        self._last_events_at = 0.0
        self._failures = 0
        self._refreshed = False
        self._retry_at: float | None = None
        self._last_error: CometdUnavailable | None = None

    def take(self, seconds: float) -> Received | None:
        """The next answer that says something about the stream, or None after `seconds` of silence.

        Raises `ReplayIdRefused`, `AuthenticationRefused`, `ChannelNotFound`, `ChannelNotPermitted`,
        `DeliveryLimitReached` and other `CometdError`s; and `CometdUnavailable` when the next attempt is further away
        than `seconds` (and than `MEND_SECONDS`), or the attempts of the connection's backoff are used up. The
        subscription may be read on after any of them.
        """
        deadline = self._clock.monotonic() + seconds
        mend_until = max(deadline, self._clock.monotonic() + MEND_SECONDS)
        while True:
            try:
                poll = self._poll or self._begin(mend_until)
                left = deadline - self._clock.monotonic()
                arrival = poll.take(min(left, poll.last_sign + poll.longest_silence - self._clock.monotonic()))
                if arrival is not None:
                    return self._received(arrival)
                self._check_signs_of_life(poll)
                if self._clock.monotonic() >= deadline:
                    return None
            except TokenExpired as error:
                self.close()
                if self._refreshed:
                    # The caller may read on; by then this token too may be out of date, so a fresh one is due again.
                    self._refreshed = False
                    raise AuthenticationRefused(error.refusal) from None
                self._refreshed = True
                self._connection.refresh_token()
            except CometdUnavailable as error:
                self._pause_after(error, mend_until)
            except CometdError:
                self.close()
                raise

    @property
    def resume_point(self) -> ResumePoint:
        """Where to resume after all that was taken."""
        return self._progress.point

    def top_up(self, *, sparingly: bool = False) -> None:
        """Nobody asks: the service pushes."""

    @property
    def outstanding(self) -> int:
        """1 while a session is open, as events may be on their way at any time."""
        return int(self.is_open)

    @property
    def is_open(self) -> bool:
        """Whether a session was begun and not ended by either side, as far as is known."""
        return self._poll is not None and not self._poll.is_over

    @property
    def responses(self) -> int:
        """Answers that said something about the stream, those not taken yet included."""
        return 0 if self._poll is None else self._poll.responses

    @property
    def has_answered(self) -> bool:
        """Whether one of them was taken since the session was begun."""
        return self._answered_at is not None

    def open_for(self) -> float:
        """Seconds since the session was begun; 0 without one."""
        return 0.0 if self._poll is None else self._clock.monotonic() - self._begun_at

    def quiet_for(self) -> float | None:
        """Seconds since the session last brought events, all of which were taken; None if it has not answered."""
        if self._poll is None or self._answered_at is None:
            return None
        return self._clock.monotonic() - max(self._answered_at, self._last_events_at)

    def close(self) -> None:
        """End the session. What had arrived and was not taken comes again with the next one."""
        poll, self._poll = self._poll, None
        self._answered_at = None
        if poll is not None:
            poll.close()

    def _begin(self, mend_until: float) -> LongPoll:
        if self._retry_at is not None:
            self._wait_until(self._retry_at, mend_until)
        client = self._connection.client(self._clock)
        try:
            client.handshake()
            client.subscribe({self._channel: self._progress.resume()})
        except BaseException:
            client.http.close()
            raise
        self._begun_at = self._clock.monotonic()
        self._answered_at, self._last_events_at = None, self._begun_at
        self._poll = LongPoll(client, self._channel, self._clock)
        return self._poll

    def _received(self, arrival: Arrival) -> Received:
        # Only an answer of the stream shows that it works: a service that accepts sessions and ends them must not be
        # called without end.
        self._failures, self._refreshed, self._retry_at = 0, False, None
        if self._answered_at is None:
            self._answered_at = arrival.at
        if arrival.nothing_more:
            self._progress.nothing_more(b"", arrival.at_ms)
            return Received((), True, arrival.at_ms)
        self._last_events_at = arrival.at
        return Received(tuple(filter(self._progress.admit, arrival.events)), False, arrival.at_ms)

    def _check_signs_of_life(self, poll: LongPoll) -> None:
        silent = self._clock.monotonic() - poll.last_sign
        if silent >= poll.longest_silence:
            raise CometdUnavailable(Refusal(CONNECT, self._channel, 0, f"no answer for {silent:.0f} s"))

    def _pause_after(self, error: CometdUnavailable, mend_until: float) -> None:
        """Set the time of the next attempt. Raises `error` when it is final or too far away."""
        if self._last_error is error and self._retry_at is not None:
            raise error  # the next attempt is still to come
        lived = self._poll is not None and (self._answered_at is not None or self._poll.held)
        lived = lived and self._clock.monotonic() - self._begun_at > _SHORT_LIFE_SECONDS
        self.close()
        self._failures += 1
        backoff = self._connection.backoff
        pause = max(error.pause, 0.0 if lived else backoff.pause(self._failures))
        now = self._clock.monotonic()
        self._retry_at, self._last_error = now + pause, error
        is_final = self._failures >= backoff.attempts or isinstance(error, EndedByService)
        if is_final or now + pause > mend_until:
            raise error
        log.warning("%s: %s; attempt %d follows in %.1f s", self._channel, error, self._failures + 1, pause)

    def _wait_until(self, retry_at: float, mend_until: float) -> None:
        if retry_at > mend_until and self._last_error is not None:
            raise self._last_error
        pause = retry_at - self._clock.monotonic()
        if pause > 0:
            self._connection.sleep(pause)
        self._retry_at = None
