"""How long to wait before the next attempt: doubling, with jitter so that many clients do not return at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import random as system_random

from sfcdc_assets.runtime.doubling import doubled


@dataclass(frozen=True)
class Backoff:
    """`attempts` in all, after which the last error is raised; pauses in seconds, half of each is jitter."""

    attempts: int = 6
    first: float = 0.5
    longest: float = 20.0
    random: Callable[[], float] = system_random

    def pause(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row (1, 2, ...)."""
        return doubled(self.first, self.longest, failures) * (0.5 + self.random() / 2)
