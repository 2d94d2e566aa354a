"""Waiting to be interrupted, in a process with many threads."""

from __future__ import annotations

import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """SIGINT or SIGTERM came while work was to end for it. No Exception: what handles errors does not handle this."""


class Interruption:
    """While entered, SIGINT and SIGTERM end `wait` at once. For the main thread only, as signal handlers are.

    The kernel may give a signal to any thread, and Python runs the handler when the main thread next runs: one that
    waits on an event would notice only when its time is up. The descriptor signals are written to is noticed at once.
    """

    def __enter__(self) -> Interruption:
        self._reader, self._writer = socket.socketpair()
        self._reader.settimeout(0)
        self._writer.settimeout(0)
        self._previous_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._is_raised = False
        self._previous = {number: signal.signal(number, self._noted) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_fd)
        self._reader.close()
        self._writer.close()

    def wait(self, seconds: float) -> bool:
        """Return whether an interruption came within `seconds`, or had come before."""
        if not select.select([self._reader], [], [], seconds)[0]:
            return False
        return any(number in SIGNALS for number in self._reader.recv(4096))

    @contextmanager
    def raised(self) -> Iterator[None]:
        """End the work of the main thread with `Interrupted` while entered, once: the clean-up that follows is not
        disturbed by another one. One that came before ends it at once."""
        self._is_raised = True
        try:
            if self.wait(0):
                raise Interrupted
            yield
        finally:
            self._is_raised = False

    def _noted(self, _number: int, _frame: FrameType | None) -> None:
        """Do nothing: the signal's number is on the descriptor, which is all that `wait` needs."""
        if self._is_raised:
            self._is_raised = False
            raise Interrupted
