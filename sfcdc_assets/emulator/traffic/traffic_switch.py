"""The traffic that a served org makes by itself: on at a rate, or off."""

from __future__ import annotations

import threading

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.traffic.traffic import TrafficGenerator

MOST_TRANSACTIONS = 10_000
"""A second."""


class TrafficSwitch:
    """Thread-safe. Switched on again, the generator goes on where it stopped."""

    def __init__(self, org: EmulatedOrg, seed: int = 0) -> None:
        self._org = org
        self._seed = seed
        self._lock = threading.Lock()
        self._generator: TrafficGenerator | None = None
        self._rate = 0.0

    @property
    def rate(self) -> float:
        """Transactions a second; 0 while it is off."""
        return self._rate

    def set(self, rate: float) -> None:
        """Make that many transactions a second from now on, at most 10,000; 0 stops after the one in progress."""
        if not 0 <= rate <= MOST_TRANSACTIONS:
            raise ValueError(f"{rate:g} transactions a second are not possible; give 0 to {MOST_TRANSACTIONS}")
        with self._lock:
            if self._generator is not None:
                self._generator.stop()
            self._rate = 0.0
            if rate:
                self._generator = self._generator or TrafficGenerator(self._org, self._seed)
                self._generator.start(rate)
                self._rate = rate
