"""A session that is subscribed, polled by a thread of its own: connects go out, events come in, no read waits without
end.

The thread connects again as soon as an answer has come (after the interval that the service advises), because a session
that does not for 40 seconds is forgotten, whoever takes the events or does not. It stops while `BYTES_WAITING` wait to
be taken: memory is bounded however slow the caller is, and a session that was lost by it goes on where its reader is.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from sfcdc_assets.clock import Clock
from sfcdc_assets.cometd.advice import RETRY
from sfcdc_assets.cometd.client import CONNECT, BayeuxClient, Connected
from sfcdc_assets.cometd.delivered import delivered_event
from sfcdc_assets.cometd.errors import EndedByService, SessionLost
from sfcdc_assets.cometd.refusal import Refusal
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.streams.delivered_event import DeliveredEvent

BYTES_WAITING = 16 * 1024 * 1024
"""Bytes of payloads that wait to be taken, beside those of the last answer."""
HELD_SHARE = 0.9
"""A connect that was held for this share of its time and brought no event says that there is none: one that is there
ends a connect at once."""
_CLOSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Arrival:
    """An answer that says something about the stream, and when it arrived: by the clock's seconds, and as epoch ms."""

    events: tuple[DeliveredEvent, ...]
    nothing_more: bool
    at: float
    at_ms: int

    @property
    def size(self) -> int:
        """Bytes of its payloads."""
        return sum(len(event.payload) for event in self.events)


class LongPoll:
    """A session whose subscription was accepted. Close it, also after an error.

    `last_sign` is when the service was last heard of, or asked; `responses` how many answers said something; `held`
    whether a connect was held and answered in good order.
    """

    def __init__(self, client: BayeuxClient, channel: str, clock: Clock) -> None:
        self.last_sign = clock.monotonic()
        self.responses = 0
        self.held = False
        self._client = client
        self._clock = clock
        self._changed = threading.Condition()
        self._arrived: deque[Arrival] = deque()
        self._bytes = 0
        self._error: Exception | None = None
        self._closed = False
        self._reader = threading.Thread(target=self._read, name=f"long poll {channel}", daemon=True)
        self._reader.start()

    @property
    def is_over(self) -> bool:
        """Whether the session was ended, by the service, the network or `close`; events before that may wait."""
        return self._closed or self._error is not None

    @property
    def longest_silence(self) -> float:
        """Seconds after which a connect that was not answered will not be."""
        return self._client.longest_answer

    def take(self, seconds: float) -> Arrival | None:
        """The next arrival, or None after `seconds` of silence. Raises the session's error once it is reached."""
        with self._changed:
            self._clock.wait_for(self._changed, lambda: bool(self._arrived or self._error), seconds)
            if self._arrived:
                arrival = self._arrived.popleft()
                self._bytes -= arrival.size
                self._changed.notify_all()
                return arrival
            if self._error is not None:
                raise self._error
            return None

    def close(self) -> None:
        """End the session. A service that is silent is not waited for: the thread ends when its request does."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._error is None:
            with suppress(SfcdcError):
                self._client.disconnect()
        self._reader.join(_CLOSE_SECONDS)
        self._client.http.close()

    def _read(self) -> None:
        try:
            while not self._closed:
                self.last_sign = self._clock.monotonic()
                connected = self._client.connect()
                if not self._put(connected):
                    return
                self._obey_advice()
        except Exception as error:  # noqa: BLE001 - whatever it is, the thread that takes has to be told
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _put(self, connected: Connected) -> bool:
        """Hand out what was brought, and wait until there is room for more; False if the session was closed."""
        at, at_ms = self._clock.monotonic(), self._clock.now_ms()
        self.last_sign = at
        was_held = connected.held >= self._client.advice.timeout * HELD_SHARE > 0
        events = tuple(delivered_event(message, at_ms) for message in connected.events)
        arrival = Arrival(events, was_held and not events, at, at_ms)
        with self._changed:
            self.held = self.held or was_held
            if events or arrival.nothing_more:
                self.responses += 1
                self._arrived.append(arrival)
                self._bytes += arrival.size
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._closed or self._bytes < BYTES_WAITING)
            return not self._closed

    def _obey_advice(self) -> None:
        advice = self._client.advice
        if advice.reconnect != RETRY:
            kind = SessionLost if advice.reconnect == "handshake" else EndedByService
            raise kind(Refusal(CONNECT, text=f"the advice is {advice.reconnect}"), advice.interval)
        if advice.interval:
            with self._changed:
                self._clock.wait_for(self._changed, lambda: self._closed, advice.interval)
