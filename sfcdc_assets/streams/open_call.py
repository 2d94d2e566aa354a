"""One call of the service that a thread of its own reads: what arrives waits to be taken, and no `take` is without end.

A protocol's own read blocks for as long as the service is silent, so a thread does it and notes when each response
came; the caller takes them with a deadline. The thread stops reading while `BYTES_WAITING` wait to be taken: memory is
bounded however slow the caller is, and a call that is lost by it goes on where its reader is.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.transport import SILENCE_SECONDS

BYTES_WAITING = 16 * 1024 * 1024
"""Bytes that wait to be taken, beside those of the last response."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A response that says something about the stream.

    `at`, `at_ms`: when it arrived, by the clock's seconds and as epoch ms UTC. `nothing_more`: the service says that no
    event follows; then the stream can be resumed after `latest_replay_id`, where it gives one. `size`: bytes, as far as
    they count against `BYTES_WAITING`.
    """

    events: Sequence[DeliveredEvent]
    nothing_more: bool
    size: int
    at: float
    at_ms: int
    latest_replay_id: bytes = b""


class OpenCall(ABC):
    """A call that is begun by its constructor. Close it, also after an error.

    `last_sign` is when the service was last heard of, or asked; `responses` how many arrivals there were, those not
    taken yet included; `held` whether the service has shown that it serves the call, also without an arrival.
    """

    held = False
    is_given_up_at_once = False
    """Whether another call is begun as soon as this one was silent for too long. Otherwise that is looked at when a
    `take` of the subscription ends, so that a silence which outlasts a patient one is raised as an outage."""

    def __init__(self, clock: Clock) -> None:
        """Prepare a call. A subclass makes its call after this, and then has it read with `_begin_to_read`."""
        self.last_sign = clock.monotonic()
        self.responses = 0
        self._clock = clock
        self._changed = threading.Condition()
        self._arrived: deque[Arrival] = deque()
        self._bytes = 0
        self._error: Exception | None = None
        self._closed = False
        self._has_room_since: float | None = self.last_sign

    @property
    def listening_since(self) -> float | None:
        """Since when (monotonic seconds) the service could bring more; None while it cannot, because too much waits to
        be taken. A silence of another time is ours, and says nothing about the stream."""
        return self._has_room_since

    @property
    def is_over(self) -> bool:
        """Whether the call was ended, by the service, the network or `close`; what came before that may wait to be
        taken."""
        return self._closed or self._error is not None

    @property
    def longest_silence(self) -> float:
        """Seconds without a sign of life after which none is to be expected: infinite where nothing was asked for."""
        return SILENCE_SECONDS

    def take(self, seconds: float) -> Arrival | None:
        """Return the next arrival, or None after `seconds` of silence. Raises the call's error once it is reached."""
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

    def has_arrived(self, seconds: float) -> bool:
        """Wait until a response can be taken, from any thread; False after `seconds` of silence, and of a call that is
        over."""
        with self._changed:
            self._clock.wait_for(self._changed, lambda: bool(self._arrived) or self.is_over, seconds)
            return bool(self._arrived)

    def close(self) -> None:
        """End the call and wait for its thread, within bounds: a service that is silent is not waited for."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._end()
        self._reader.join(self._close_seconds)

    _close_seconds = 10.0

    @abstractmethod
    def _read(self) -> Exception | None:
        """Hand over each response with `_put`, until that returns False or the call is over; what ended the call."""

    @abstractmethod
    def _end(self) -> None:
        """Have the call end, so that `_read` returns."""

    def _begin_to_read(self, name: str) -> None:
        self._reader = threading.Thread(target=self._read_to_the_end, name=name, daemon=True)
        self._reader.start()

    def _read_to_the_end(self) -> None:
        try:
            error = self._read()
        except Exception as raised:  # noqa: BLE001 - whatever it is, `take` raises it
            error = raised
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _put(self, arrival: Arrival) -> bool:
        """Let it be taken, and wait until there is room for more; False if the call was closed."""
        with self._changed:
            self.last_sign = arrival.at
            self.responses += 1
            self._arrived.append(arrival)
            self._bytes += arrival.size
            self._changed.notify_all()
            if self._bytes >= BYTES_WAITING:
                self._has_room_since = None
                self._changed.wait_for(lambda: self._closed or self._bytes < BYTES_WAITING)
                self._has_room_since = self._clock.monotonic()
            return not self._closed
