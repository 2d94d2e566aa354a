"""The one clock of this process: what time it is, how long to wait, when to give up.

Everything that waits for the stream or dates what it received asks here and nowhere else, so that a test can let a
month pass in minutes: it installs a clock of its own with `using`, and waits end because that clock was moved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from threading import Condition, Thread

from sfcdc_assets.runtime.times import utc


class Clock:
    """The machine's time. A subclass may keep another one, as long as it never goes back."""

    def now_ms(self) -> int:
        """Epoch milliseconds, UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds since some moment; never set back."""
        return time.monotonic()

    def wait_for(self, condition: Condition, predicate: Callable[[], bool], seconds: float) -> bool:
        """Wait, holding `condition`, until `predicate` is true or `seconds` have passed; returns the predicate."""
        return condition.wait_for(predicate, max(0.0, seconds))

    def sleep(self, seconds: float) -> None:
        """Pause."""
        time.sleep(seconds)

    def start_thread(self, name: str, work: Callable[[], object]) -> Thread:
        """Do work in a thread beside this one, which does not keep the process alive. On another clock than the
        machine's its waits pass too."""
        thread = Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread


class _Installed:
    clock = Clock()


def current() -> Clock:
    """Return the clock in use."""
    return _Installed.clock


@contextmanager
def using(another: Clock) -> Iterator[None]:
    """Have everybody ask another clock, until the block ends."""
    before, _Installed.clock = _Installed.clock, another
    try:
        yield
    finally:
        _Installed.clock = before


def now_ms() -> int:
    """Epoch milliseconds, UTC, by the clock in use."""
    return _Installed.clock.now_ms()


def now() -> datetime:
    """Return the moment by the clock in use, in UTC, to the millisecond."""
    return utc(now_ms())


def sleep(seconds: float) -> None:
    """Pause by the clock in use."""
    _Installed.clock.sleep(seconds)
