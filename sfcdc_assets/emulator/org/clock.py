"""Time of the emulated org: a function that returns epoch milliseconds (UTC), so that tests decide what time it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

Clock = Callable[[], int]
"""Returns epoch milliseconds, UTC."""


def system_clock() -> int:
    """Return the machine's time in epoch milliseconds (UTC)."""
    return time.time_ns() // 1_000_000


@runtime_checkable
class MovableClock(Protocol):
    """A clock that may jump: whoever waits until a time has to look again then."""

    def on_move(self, moved: Callable[[], None]) -> None:
        """Call `moved` after each jump."""


@runtime_checkable
class AdvancingClock(Protocol):
    """A clock that is moved rather than waited for."""

    def advance(self, milliseconds: int) -> object:
        """Move it forward."""


class ManualClock:
    """A clock that stands still until told to move. Safe to share between threads."""

    def __init__(self, now: int = 1_735_689_600_000) -> None:
        """Start at `now` (epoch ms); by default 2025-01-01T00:00:00Z."""
        self._now = now
        self._lock = threading.Lock()
        self._on_move: list[Callable[[], None]] = []

    def on_move(self, moved: Callable[[], None]) -> None:
        """Call `moved` whenever the clock was moved."""
        self._on_move.append(moved)

    def __call__(self) -> int:
        """Return the time that was set, in epoch milliseconds."""
        with self._lock:
            return self._now

    def advance(self, milliseconds: int) -> int:
        """Move forward (never back) and return the new time."""
        if milliseconds < 0:
            raise ValueError(f"a clock cannot go back by {-milliseconds} ms")
        with self._lock:
            self._now += milliseconds
            now = self._now
        for moved in self._on_move:
            moved()
        return now


def whole_second(milliseconds: int) -> int:
    """Return the start of the second that holds this time: Salesforce keeps audit fields and commit timestamps in whole
    seconds."""
    return milliseconds - milliseconds % 1000
