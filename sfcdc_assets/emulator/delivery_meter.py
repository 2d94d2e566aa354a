"""Counts delivered events, as the org's allowance of deliveries in 24 hours does (docs/salesforce-streams.md, "Delivery
limits")."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Sequence

from sfcdc_assets.emulator.clock import Clock

WINDOW_MS = 24 * 3600 * 1000


class DeliveryMeter:
    """Events handed to subscribers, summed over all of them; kept in memory, so a restart starts from zero.

    An event counts each time it is delivered: two subscribers, or a client that asks for it again, count twice. Stored
    events are named by their number in the bus, which is not the replay id.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._recent: deque[tuple[int, tuple[int, ...], int]] = deque()
        self._counts: Counter[int] = Counter()
        self._in_window = 0
        self._platform_events = 0
        self._total = 0

    def delivered(self, numbers: Sequence[int], platform_events: int = 0) -> None:
        """Count one response's events. `platform_events`: how many of them are such."""
        with self._lock:
            self._forget()
            self._recent.append((self._clock(), tuple(numbers), platform_events))
            self._platform_events += platform_events
            self._counts.update(numbers)
            self._in_window += len(numbers)
            self._total += len(numbers)

    def in_last_24_hours(self) -> int:
        """Deliveries in the rolling window that ends now."""
        with self._lock:
            self._forget()
            return self._in_window

    def platform_events_in_last_24_hours(self) -> int:
        """Those of them that were platform events; they draw on the same allowance as change events."""
        with self._lock:
            self._forget()
            return self._platform_events

    @property
    def total(self) -> int:
        """Deliveries since the process started."""
        with self._lock:
            return self._total

    def more_than_once(self) -> dict[int, int]:
        """Numbers of events that were delivered more than once in the last 24 hours, with how often."""
        with self._lock:
            self._forget()
            return {number: count for number, count in self._counts.items() if count > 1}

    def _forget(self) -> None:
        since = self._clock() - WINDOW_MS
        while self._recent and self._recent[0][0] <= since:
            _, numbers, platform_events = self._recent.popleft()
            self._platform_events -= platform_events
            self._in_window -= len(numbers)
            self._counts.subtract(numbers)
            for number in numbers:
                if self._counts[number] <= 0:
                    del self._counts[number]
