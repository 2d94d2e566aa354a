"""A condition that many threads wait at, each for the same news and for some of its own."""

from __future__ import annotations

import threading
from weakref import WeakSet


class SharedCondition(threading.Condition):
    """Notifying it wakes who waits at it and at each of its parts; notifying a part wakes who waits there, and nobody
    else. All have one lock. With one condition, each request of one of 500 clients would wake 500 threads."""

    def __init__(self) -> None:
        lock = threading.RLock()
        super().__init__(lock)
        self._shared_lock = lock
        self._parts: WeakSet[threading.Condition] = WeakSet()

    def part(self) -> threading.Condition:
        """Return a new part; it is one for as long as its owner keeps it."""
        with self:
            part = threading.Condition(self._shared_lock)
            self._parts.add(part)
        return part

    def notify_all(self) -> None:
        """Wake everybody, at the parts too. The caller holds the condition."""
        super().notify_all()
        for part in self._parts:
            part.notify_all()
