"""The client's side of a streaming call: requests come from a thread of gRPC's, and the thread that answers waits for
them at a part of the bus's condition, which also says when there are new events, so nothing polls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from sfcdc_assets.emulator.events.shared_condition import SharedCondition
from sfcdc_assets.emulator.org.clock import Clock

Request = TypeVar("Request")


class RequestStream(Generic[Request]):
    """What has arrived and not been answered, and whether more may come."""

    def __init__(self, changed: SharedCondition, clock: Clock) -> None:
        self._changed = changed.part()
        self._clock = clock
        self._requests: deque[Request] = deque()
        self._ended = False
        self._is_closing = False

    def put(self, request: Request) -> None:
        """Take a request that has arrived."""
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()

    def close(self) -> None:
        """Note that the client sends no more: what it sent is answered."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()

    def end(self) -> None:
        """End the stream: the client cancelled, or the server stops."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _wait(self, is_due: Callable[[], bool], due_at: Callable[[], int]) -> bool:
        """Wait until there is something to do; False if the time (epoch ms by the org's clock) came first. Both are
        asked again whenever something changes, and a clock that is moved wakes everybody who waits on the bus. The
        caller holds the condition."""
        while not (in_time := is_due()) and (left := due_at() - self._clock()) > 0:
            self._changed.wait(left / 1000)
        return in_time
