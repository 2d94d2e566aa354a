"""Counts delivered events, as the org's allowance of deliveries in 24 hours does (docs/salesforce-streams.md, "Delivery
limits")."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Sequence

from sfcdc_assets.emulator.org.clock import Clock
from sfcdc_assets.emulator.org.settings import DAY, HOUR

WINDOW_MS = DAY


class DeliveryMeter:
    """Events handed to subscribers, summed over all of them; kept in memory, so a restart starts from zero.

    An event counts each time it is delivered: two subscribers, or a client that asks for it again, count twice. Stored
    events are named by their number in the bus, which is not the replay id.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._recent: deque[tuple[int, tuple[int, ...]]] = deque()
        self._counts: Counter[int] = Counter()
        self._in_window = 0
        self._by_hour: Counter[tuple[int, bool]] = Counter()
        self._total = 0

    def delivered(self, numbers: Sequence[int], platform_events: int = 0) -> None:
        """Count one response's events. `platform_events`: how many of them are such."""
        with self._lock:
            self._forget()
            self._recent.append((self._clock(), tuple(numbers)))
            hour = self._clock() // HOUR
            self._by_hour[hour, True] += platform_events
            self._by_hour[hour, False] += len(numbers) - platform_events
            self._counts.update(numbers)
            self._in_window += len(numbers)
            self._total += len(numbers)

    def in_last_24_hours(self) -> int:
        """Deliveries in the rolling window that ends now."""
        with self._lock:
            self._forget()
            return self._in_window

    def delivered_between(self, start: int, end: int, *, platform_events: bool) -> int:
        """Deliveries of platform events, or of change events, from the full hour `start` to the full hour `end` (epoch
        ms)."""
        with self._lock:
            return sum(self._by_hour[hour, platform_events] for hour in range(start // HOUR, end // HOUR))

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
            _, numbers = self._recent.popleft()
            self._in_window -= len(numbers)
            self._counts.subtract(numbers)
            for number in numbers:
                if self._counts[number] <= 0:
                    del self._counts[number]
