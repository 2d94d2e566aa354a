"""A channel's subscription, kept for as long as its owner wants and begun again after whatever breaks it.

What breaks (a silent or reset call, a session that was forgotten, an outage, an expired token) is mended here by
another call that resumes after what was taken; what cannot be mended is raised with its remedy. A refused replay id is
raised and never answered with LATEST: that would lose events silently.

Silence proves nothing by itself, and neither does a call that was accepted. `quiet_for` says how long the stream has
been silent since it last brought an event, and only of a call that has answered: what follows from it is the caller's
to say.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from sfcdc_assets.runtime import clock
from sfcdc_assets.streams.backoff import Backoff
from sfcdc_assets.streams.delivered_event import ReplayStart
from sfcdc_assets.streams.errors import TokenExpired, TransportError, TransportUnavailable
from sfcdc_assets.streams.open_call import Arrival, OpenCall
from sfcdc_assets.streams.resume import ResumePoint, StreamProgress
from sfcdc_assets.streams.transport import Received

log = logging.getLogger(__name__)

MEND_SECONDS = 5.0
"""How long a `take` that wants to be quick may pause for a broken call to be begun again."""
_SHORT_LIFE_SECONDS = 10.0
"""A call that worked and lived longer than this is begun again without a pause of our own."""


class Connection(Protocol):
    """What a protocol's connection has for its subscriptions."""

    @property
    def backoff(self) -> Backoff:
        """Between the attempts to begin a call."""

    @property
    def sleep(self) -> Callable[[float], None]:
        """Pauses for so many seconds."""

    def refresh_credentials(self) -> None:
        """Have a fresh token made for the calls that follow."""


AnyCall = TypeVar("AnyCall", bound=OpenCall)


class ReconnectingSubscription(ABC, Generic[AnyCall]):
    """The subscription to one channel, from where `progress` is on (see `streams.transport.Subscription`).

    A protocol says how a call is begun (`_begin`), what may be on its way (`outstanding`, `top_up`), how its silence is
    reported (`_silent`) and what has to be given up after a call broke (`_give_up`).
    """

    def __init__(self, connection: Connection, channel: str, progress: StreamProgress) -> None:
        self._connection = connection
        self._channel = channel
        self._progress = progress
        self._clock = clock.current()
        self._call: AnyCall | None = None
        self._begun_at = 0.0
        self._answered_at: float | None = None
        self._last_events_at = 0.0
        self._failures = 0
        self._refreshed = False
        self._retry_at: float | None = None
        self._last_error: TransportUnavailable | None = None

    @abstractmethod
    def _begin(self, start: ReplayStart) -> AnyCall:
        """Return a new call from `start` on. Raises `TransportError`."""

    @abstractmethod
    def _silent(self, seconds: float) -> TransportUnavailable:
        """Return the error of a call that has given no sign of life for so long."""

    def _give_up(self) -> None:
        """Give up a call that broke, before another is begun."""

    @abstractmethod
    def top_up(self, *, sparingly: bool = False) -> None:
        """See `Subscription.top_up`."""

    @property
    @abstractmethod
    def outstanding(self) -> int:
        """See `Subscription.outstanding`."""

    def take(self, seconds: float) -> Received | None:
        """Return the next response that says something about the stream, or None after `seconds` of silence.

        Raises `ReplayIdRefused`, `AuthenticationRefused`, `ChannelNotFound`, `ChannelNotPermitted`,
        `DeliveryLimitReached` and other `TransportError`s; and `TransportUnavailable` when the next attempt is further
        away than `seconds` (and than `MEND_SECONDS`), or the attempts of the connection's backoff are used up. The
        subscription may be read on after any of them.
        """
        deadline = self._clock.monotonic() + seconds
        mend_until = max(deadline, self._clock.monotonic() + MEND_SECONDS)
        while True:
            try:
                call = self._call or self._begun(mend_until)
                now = self._clock.monotonic()
                given_up = call.last_sign + call.longest_silence if call.is_given_up_at_once else deadline
                arrival = call.take(min(deadline, given_up) - now)
                if arrival is not None:
                    return self._received(arrival)
                self._check_signs_of_life(call)
                if self._clock.monotonic() >= deadline:
                    return None
            except TokenExpired as error:
                self.close()
                if self._refreshed:
                    # The caller may read on; by then this token too may be out of date, so a fresh one is due again.
                    self._refreshed = False
                    raise error.final() from None
                self._refreshed = True
                self._connection.refresh_credentials()
            except TransportUnavailable as error:
                self._pause_after(error, mend_until)
            except TransportError:
                self.close()
                raise

    @property
    def resume_point(self) -> ResumePoint:
        """Where to resume after all that was taken."""
        return self._progress.point

    @property
    def is_open(self) -> bool:
        """Whether a call was begun and not ended by either side, as far as is known."""
        call = self._call
        return call is not None and not call.is_over

    @property
    def responses(self) -> int:
        """Responses that have arrived on the open call, those not taken yet included."""
        return 0 if self._call is None else self._call.responses

    def has_arrived(self, seconds: float) -> bool:
        """See `Subscription.has_arrived`."""
        call = self._call
        return call is not None and call.has_arrived(seconds)

    @property
    def has_answered(self) -> bool:
        """Whether the open call has brought a response that was taken: that a call could be made, and was accepted,
        says nothing about the stream."""
        return self._answered_at is not None

    def landed(self, point: ResumePoint) -> None:
        """See `Subscription.landed`. Most protocols have nobody to tell."""

    def open_for(self) -> float:
        """Seconds since the open call was begun; 0 without one."""
        return 0.0 if self._call is None else self._clock.monotonic() - self._begun_at

    def quiet_for(self) -> float | None:
        """See `Subscription.quiet_for`."""
        call, answered_at = self._call, self._answered_at  # another thread may close the call meanwhile
        if call is None or answered_at is None:
            return None
        since = call.listening_since
        if since is None:
            return 0.0
        return self._clock.monotonic() - max(answered_at, self._last_events_at, since)

    def close(self) -> None:
        """End the call. What had arrived and was not taken comes again with the next one."""
        call, self._call = self._call, None
        self._answered_at = None
        if call is not None:
            call.close()

    def _begun(self, mend_until: float) -> AnyCall:
        if self._retry_at is not None:
            self._wait_until(self._retry_at, mend_until)
        self._call = self._begin(self._progress.resume())
        self._begun_at = self._clock.monotonic()
        self._answered_at, self._last_events_at = None, self._begun_at
        return self._call

    def _received(self, arrival: Arrival) -> Received:
        # Only an answer on the stream shows that the stream works; a service that accepts calls and fails them must
        # not be called without end.
        self._failures, self._refreshed, self._retry_at = 0, False, None
        if self._answered_at is None:
            self._answered_at = arrival.at
        if arrival.events:
            self._last_events_at = arrival.at
        if arrival.nothing_more:
            self._progress.nothing_more(arrival.latest_replay_id, arrival.at_ms)
        events = tuple(self._progress.admit_all(arrival.events))
        return Received(events, arrival.nothing_more, arrival.at_ms, len(arrival.events) - len(events))

    def _check_signs_of_life(self, call: AnyCall) -> None:
        silent = self._clock.monotonic() - call.last_sign
        if silent >= call.longest_silence:
            raise self._silent(silent)

    def _pause_after(self, error: TransportUnavailable, mend_until: float) -> None:
        """Set the time of the next attempt. Raises `error` when it is final or too far away."""
        if self._last_error is error and self._retry_at is not None:
            raise error  # the next attempt is still to come
        worked = self._call is not None and (self._answered_at is not None or self._call.held)
        lived = worked and self._clock.monotonic() - self._begun_at > _SHORT_LIFE_SECONDS
        self.close()
        self._give_up()
        self._failures += 1
        backoff = self._connection.backoff
        pause = max(error.pause, 0.0 if lived else backoff.pause(self._failures))
        now = self._clock.monotonic()
        self._retry_at, self._last_error = now + pause, error
        if self._failures >= backoff.attempts or error.ends_take or now + pause > mend_until:
            raise error
        log.warning("%s: %s; attempt %d follows in %.1f s", self._channel, error, self._failures + 1, pause)

    def _wait_until(self, retry_at: float, mend_until: float) -> None:
        if retry_at > mend_until and self._last_error is not None:
            raise self._last_error
        pause = retry_at - self._clock.monotonic()
        if pause > 0:
            self._connection.sleep(pause)
        self._retry_at = None
