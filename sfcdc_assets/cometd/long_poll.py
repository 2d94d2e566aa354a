"""A session that is subscribed, polled by a thread of its own: connects go out, events come in.

The thread connects again as soon as an answer has come (after the interval that the service advises), because a session
that does not for 40 seconds is forgotten, whoever takes the events or does not.
"""

from __future__ import annotations

from contextlib import suppress

from sfcdc_assets.clock import Clock
from sfcdc_assets.cometd.advice import RETRY
from sfcdc_assets.cometd.client import CONNECT, BayeuxClient, Connected
from sfcdc_assets.cometd.delivered import delivered_event
from sfcdc_assets.cometd.errors import CometdUnavailable, EndedByService, SessionLost
from sfcdc_assets.cometd.refusal import Refusal
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.streams.open_call import Arrival, OpenCall

HELD_SHARE = 0.9
"""A connect that was held for this share of its time and brought no event says that there is none: one that is there
ends a connect at once."""


class LongPoll(OpenCall):
    """A session whose subscription was accepted. Close it, also after an error.

    `held`: a connect was held and answered in good order, with events or without.
    """

    is_given_up_at_once = True
    _close_seconds = 2.0

    def __init__(self, client: BayeuxClient, channel: str, clock: Clock) -> None:
        super().__init__(clock)
        self._client = client
        self._begin_to_read(f"long poll {channel}")

    @property
    def longest_silence(self) -> float:
        """Seconds after which a connect that was not answered will not be."""
        return self._client.longest_answer

    def close(self) -> None:
        """See `OpenCall.close`: the thread ends when its request does."""
        super().close()
        self._client.http.close()

    def _end(self) -> None:
        if self._error is None:
            with suppress(SfcdcError):
                self._client.disconnect()

    def _read(self) -> CometdUnavailable | None:
        while not self._closed:
            self.last_sign = self._clock.monotonic()
            if not self._note(self._client.connect()):
                return None
            if (ended := self._obey_advice()) is not None:
                return ended
        return None

    def _note(self, connected: Connected) -> bool:
        """Hand over what was brought; False if the session was closed."""
        at, at_ms = self._clock.monotonic(), self._clock.now_ms()
        self.last_sign = at
        was_held = connected.held >= self._client.advice.timeout * HELD_SHARE > 0
        self.held = self.held or was_held
        events = [delivered_event(message, at_ms) for message in connected.events]
        if not events and not was_held:
            return not self._closed
        size = sum(len(event.payload) for event in events)
        return self._put(Arrival(events, not events, size, at, at_ms))

    def _obey_advice(self) -> CometdUnavailable | None:
        """Wait as long as the service asks; the end of the session where it wants no further connect."""
        advice = self._client.advice
        if advice.reconnect != RETRY:
            kind = SessionLost if advice.reconnect == "handshake" else EndedByService
            return kind(Refusal(CONNECT, text=f"the advice is {advice.reconnect}"), advice.interval)
        if advice.interval:
            with self._changed:
                self._clock.wait_for(self._changed, lambda: self._closed, advice.interval)
        return None
