"""How long an org that answers nothing is waited for, by work that is in a hurry: a tick of a sensor, or a run whose
events wait.

A request has six tries of two minutes each, which is right for a copy that goes on for hours. An org whose REST side
is a black hole while its events come would hold up everything for that long, one request after another. So whoever is
in a hurry says how much time in all may pass with requests that are not answered. Answers cost none of it, however
many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import TypeVar

import tenacity

from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.errors import OrgUnavailable
from sfcdc_assets.salesforce.retry import Transient, backoff

T = TypeVar("T")

LONGEST_S = 60.0
"""What patience grows to."""
LEAST_TRY_S = 0.05
"""A shorter try is none."""


class UnansweredTime:
    """Seconds that are left for requests that are not answered; several threads may spend them."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._left = self._given = seconds
        self._lock = Lock()

    @property
    def left(self) -> float:
        """Seconds; not less than what a try takes."""
        return max(LEAST_TRY_S, self._left)

    @property
    def is_over(self) -> bool:
        """Whether nobody is to be asked any more."""
        return self._left < LEAST_TRY_S

    def lengthen(self, failed_before: int) -> None:
        """Have twice as much of it, in all, for each time that the same was asked for in vain; none if it is over."""
        with self._lock:
            wanted = min(self.seconds * 2.0 ** min(failed_before, 30), max(LONGEST_S, self.seconds))
            if wanted > self._given and not self.is_over:
                self._left += wanted - self._given
                self._given = wanted

    def spent_by(self, one_try: Callable[[], T]) -> T:
        """Make a try; one that is not answered spends what it takes. Raises what it raises."""
        began = clock.current().monotonic()
        try:
            return one_try()
        except Transient:
            self._spend(clock.current().monotonic() - began)
            raise

    def pause(self, state: tenacity.RetryCallState) -> float:
        """Seconds to wait before the next try (`backoff`), which are spent."""
        seconds = min(backoff(state), self.left)
        self._spend(seconds)
        return seconds

    def _spend(self, seconds: float) -> None:
        with self._lock:
            self._left -= seconds


_CURRENT: ContextVar[UnansweredTime | None] = ContextVar("patience", default=None)


def unanswered_time() -> UnansweredTime | None:
    """Return the time of the work under way; None where it has no end but that of the tries."""
    return _CURRENT.get()


def unanswered_time_for(url: str) -> UnansweredTime | None:
    """Return the time of the work under way, for a request that is to be sent. Raises `OrgUnavailable` when it is
    over."""
    patience = _CURRENT.get()
    if patience is not None and patience.is_over:
        problem = f"it has answered nothing for {patience.seconds:.0f} s, and what waits for it goes on without"
        raise OrgUnavailable(url.partition("?")[0], 0, problem, timed_out=True)
    return patience


def lengthen_unanswered_time(failed_before: int) -> None:
    """Lengthen the time of the work under way, where it has an end: see `UnansweredTime.lengthen`."""
    if (patience := _CURRENT.get()) is not None:
        patience.lengthen(failed_before)


@contextmanager
def unanswered_at_most(patience: UnansweredTime) -> Iterator[None]:
    """Spend this patience on requests of this thread, and of those that it has work side by side, while entered."""
    token = _CURRENT.set(patience)
    try:
        yield
    finally:
        _CURRENT.reset(token)
