"""A run says every ten seconds that it lives: Dagster itself cannot tell that a run's process is gone when the code
server that started it went with it, and whoever waits for that run would wait for hours.

By the machine's own clock: it is about processes, and not about what they read.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

from sfcdc_assets.lake.store.runs_at_work import note_at_work, remove_at_work
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets.runtime.errors import SfcdcError

BEAT_SECONDS = 10.0
log = logging.getLogger(__name__)


class Heartbeat:
    """Of one run, from `begin` to `end`."""

    def __init__(self, warehouse: Warehouse, run_id: str) -> None:
        self._warehouse, self._run_id = warehouse, run_id
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def begin(self) -> None:
        """Note it for the first time, then again and again."""
        self._note()
        self._thread.start()

    def end(self) -> None:
        """End with the run."""
        self._is_over.set()
        self._thread.join(BEAT_SECONDS)
        with suppress(SfcdcError):
            remove_at_work(self._warehouse, self._run_id)

    def _beat(self) -> None:
        while not self._is_over.wait(BEAT_SECONDS):
            self._note()

    def _note(self) -> None:
        try:
            note_at_work(self._warehouse, self._run_id, Clock().now_ms())
        except SfcdcError as error:
            # The work itself will say so where it matters.
            log.warning("Run %s cannot note that it is at work: %s", self._run_id, error)
