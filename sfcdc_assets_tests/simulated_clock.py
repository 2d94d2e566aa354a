"""A clock for an emulated org and its client at once: nobody waits, time is moved instead.

The sockets stay real. A wait of the thread that drives the test first gives what is on its way over a socket the time
to arrive; only when the org has nothing to do before some later moment is the clock moved there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from threading import Condition

from sfcdc_assets.clock import Clock
from sfcdc_assets.emulator.pubsub_service import PubSubService

ARRIVAL_SECONDS = 0.03
"""What a message may take over loopback, by the machine's clock."""
BOUND_SECONDS = 10.0
"""The longest the org may be busy, by the machine's clock, before time goes on all the same."""


class SimulatedClock(Clock):
    """Tells the same time to everybody: to the org as a function, to the client as its `Clock`.

    With `runs` the machine's own time passes too, so that what is dated by others is not far off.
    """

    def __init__(self, now: int | None = None, *, runs: bool = False) -> None:
        """Start at `now` (epoch ms)."""
        self._lock = threading.Lock()
        self._runs = runs
        self._real = time.time_ns
        start = time.time_ns() // 1_000_000 if now is None else now
        self._offset = start - (time.time_ns() // 1_000_000 if runs else 0)
        self._moved: list[Callable[[], None]] = []
        self._service: Callable[[], PubSubService | None] = lambda: None
        self._driver = threading.get_ident()

    def follow(self, service: Callable[[], PubSubService | None]) -> None:
        """Know what the streams of an org are waiting for."""
        self._service = service

    def on_move(self, moved: Callable[[], None]) -> None:
        """Call `moved` after each jump."""
        self._moved.append(moved)

    def __call__(self) -> int:
        with self._lock:
            return self._offset + (time.time_ns() // 1_000_000 if self._runs else 0)

    def now_ms(self) -> int:
        return self()

    def monotonic(self) -> float:
        return self() / 1000

    def advance(self, milliseconds: int) -> int:
        """Let time pass; returns the new time."""
        with self._lock:
            self._offset += max(0, milliseconds)
        for moved in self._moved:
            moved()
        return self()

    def sleep(self, seconds: float) -> None:
        self.advance(max(1, round(seconds * 1000)))

    def wait_for(self, condition: Condition, predicate: Callable[[], bool], seconds: float) -> bool:
        deadline = self.monotonic() + seconds
        waited_since = time.monotonic()
        while not predicate():
            left = deadline - self.monotonic()
            if left <= 0:
                return False
            if threading.get_ident() != self._driver:
                condition.wait(ARRIVAL_SECONDS)
                continue
            until = self._idle_until(time.monotonic() - waited_since)
            if until is None:
                condition.wait(0.002)
            elif not condition.wait(ARRIVAL_SECONDS) and not predicate():
                # Nothing may be held while the clock is moved: those who are woken may want to put something here.
                condition.release()
                try:
                    self.advance(max(1, min(round(left * 1000), until - self())))
                finally:
                    condition.acquire()
                waited_since = time.monotonic()
        return True

    def _idle_until(self, waited: float) -> int | None:
        """When the org does something next; None while it is at work, or no stream was begun yet."""
        service = self._service()
        due = service.next_due() if service is not None else None
        if due is not None and due > self():
            return due
        return self() + 1_000 if waited > BOUND_SECONDS else None
