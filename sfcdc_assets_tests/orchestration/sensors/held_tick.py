"""Ticks in threads of their own: one that stops in its midst, and the wait for the end of any."""

from __future__ import annotations

import threading

import pytest

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.orchestration.sensors.channel import tick
from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually
from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer
from sfcdc_assets_tests.pipeline.stream import CHANNEL
from sfcdc_assets_tests.simulated_clock import SimulatedClock


class HeldTick:
    """A tick that stops in its midst, in a thread of its own, until it is let go."""

    def __init__(self, server: CodeServer, patch: pytest.MonkeyPatch) -> None:
        self._inside, self._go = threading.Event(), threading.Event()
        self.opened = server.open()
        land = self.opened.reader.land

        def held(timeouts: object) -> object:
            self._inside.set()
            assert self._go.wait(BOUND_SECONDS)
            return land(TICK)

        patch.setattr(self.opened.reader, "land", held)
        self.failures: list[BaseException] = []
        self._clock = server.stream.clock
        self._thread = threading.Thread(target=self._run, args=(server,), daemon=True)
        self._thread.start()
        assert self._inside.wait(BOUND_SECONDS)

    def _run(self, server: CodeServer) -> None:
        try:
            tick(ASSETS, server.instance, CHANNEL, self.opened, TICK)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.failures.append(error)

    def let_go(self) -> None:
        self._go.set()
        joined(self._thread, clock=self._clock)


def joined(*threads: threading.Thread, clock: SimulatedClock) -> None:
    """Wait for threads; what they wait for passes meanwhile."""

    def are_over() -> bool:
        clock.advance(50)
        return not any(thread.is_alive() for thread in threads)

    eventually(are_over, "a tick to end")
