"""Answers that pause in the middle of their body, with the pause in a test's hands."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from sfcdc_assets.emulator.rest import interrupted_body


class HeldBody:
    """`pauses`: seconds for which the org wants to wait in the middle of an answer; it does until `go_on`."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self._may_go_on = threading.Event()

    def go_on(self) -> None:
        self._may_go_on.set()

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        while not self._may_go_on.is_set():
            await asyncio.sleep(0.001)


@contextmanager
def held_body() -> Iterator[HeldBody]:
    """While entered, the second half of a slow answer is sent by `go_on` and no sooner."""
    held = HeldBody()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interrupted_body, "asyncio", SimpleNamespace(sleep=held.sleep))
        try:
            yield held
        finally:
            held.go_on()
