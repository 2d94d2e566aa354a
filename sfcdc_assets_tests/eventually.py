"""Waiting for what another thread, process or machine does.

A test that waits for a condition passes on any machine, however busy; one that waits for a length of time, or holds the
wall clock against what something took, fails one day. So tests wait here, and the bound is one that nothing which works
comes near: it only says which condition never came.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

BOUND_SECONDS = 120.0
"""The longest wait, well below the 600 s after which pytest ends a test."""
_FIRST_PAUSE, _GROWTH, _LONGEST_PAUSE = 0.0005, 1.2, 0.25

Found = TypeVar("Found")


def eventually(condition: Callable[[], Found], what: object, *, seconds: float = BOUND_SECONDS) -> Found:
    """The condition's first true value. It is asked again after pauses that grow with the wait, by the machine's clock.

    `what`: named by the AssertionError of a condition that stays false for so many seconds; a function is asked then.
    """
    deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} s for {what() if callable(what) else what}")
        time.sleep(pause)
        pause = min(pause * _GROWTH, _LONGEST_PAUSE)
    return found
