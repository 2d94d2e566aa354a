"""Faults an operator or a test arms; the emulated org commits each as often as it was armed (facts section 10)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from enum import StrEnum


class Fault(StrEnum):
    """What can go wrong with a Pub/Sub call."""

    STREAM_RESET = "stream_reset"
    """A stream ends as a reset one is seen by a client: INTERNAL, no trailers, no error code."""
    SILENT_STREAM = "silent_stream"
    """A stream stays open and sends nothing any more, no keepalive either."""
    STREAM_AUTH_ERROR = "stream_auth_error"
    """A stream ends with UNAUTHENTICATED in its midst."""
    UNAVAILABLE = "unavailable"
    """A call is refused at its start: INTERNAL with error code service.unavailable."""


class Faults:
    """Counters of armed faults. Thread-safe; each point of the service takes one when it commits the fault."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._armed: Counter[Fault] = Counter()
        self._on_armed: list[Callable[[], None]] = []

    def arm(self, fault: Fault, times: int = 1) -> None:
        """Commit `fault` at its next `times` points. Open streams notice at once, without waiting for an event."""
        with self._lock:
            self._armed[fault] += times
        for wake in self._on_armed:
            wake()

    def disarm(self) -> None:
        """Forget everything armed."""
        with self._lock:
            self._armed.clear()

    def armed(self, fault: Fault) -> int:
        """How often `fault` will still happen."""
        with self._lock:
            return self._armed[fault]

    def take(self, fault: Fault) -> bool:
        """Whether `fault` happens here and now; if so it is used up once."""
        with self._lock:
            if self._armed[fault] <= 0:
                return False
            self._armed[fault] -= 1
            return True

    def on_armed(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever a fault is armed."""
        self._on_armed.append(wake)
