"""What the reading of a field history is at."""

from __future__ import annotations

import threading

from sfcdc_assets.cli.syncing.sync_progress import duration
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.runtime.progress import Fact, FieldHistoryRead, RequestSent


class HistoryProgress:
    """An observer: the rows that were read, of which entity, the versions that came of them, and what it cost."""

    def __init__(self) -> None:
        self._monotonic = clock.current().monotonic
        self._lock = threading.Lock()
        self._began = self._monotonic()
        self._requests = 0
        self._now: FieldHistoryRead | None = None

    def __call__(self, fact: Fact) -> None:
        """Take note of a fact."""
        with self._lock:
            if isinstance(fact, RequestSent):
                self._requests += 1
            elif isinstance(fact, FieldHistoryRead):
                self._now = fact

    def lines(self) -> list[str]:
        """Write the progress for a terminal."""
        return [self.line()]

    def line(self) -> str:
        """Write the progress for a log."""
        with self._lock:
            parts = [counted(self._requests, "API request"), duration(self._monotonic() - self._began)]
            if self._now is not None:
                of = f" of {self._now.rows_expected:,}" if self._now.rows_expected is not None else ""
                rows = f"{self._now.entity}: {self._now.rows:,}{of} rows of its field history read"
                parts = [rows, f"{counted(self._now.versions, 'version')} written", *parts]
            return "; ".join(parts)
