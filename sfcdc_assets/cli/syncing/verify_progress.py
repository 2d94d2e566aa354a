"""What a comparison with the org is at."""

from __future__ import annotations

import threading

from sfcdc_assets.cli.syncing.sync_progress import waiting_line
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.runtime.progress import ComparisonsLeft, Fact, PageCompared, RequestSent, StreamAwaited
from sfcdc_assets.runtime.times import duration_text


class VerifyProgress:
    """An observer: the rows that were compared, of which entity, and how long the rest of it takes."""

    def __init__(self) -> None:
        self._monotonic = clock.current().monotonic
        self._lock = threading.Lock()
        self._began = self._monotonic()
        self._requests = 0
        self._rows: dict[str, int] = {}
        self._now: PageCompared | None = None
        self._left = 0
        self._awaited: dict[str, StreamAwaited] = {}
        """By channel."""
        self._first: tuple[int, float] = (0, 0.0)

    def __call__(self, fact: Fact) -> None:
        """Take note of a fact."""
        with self._lock:
            if isinstance(fact, RequestSent):
                self._requests += 1
            elif isinstance(fact, PageCompared):
                if fact.entity not in self._rows:
                    self._first = (fact.rows, self._monotonic())
                self._rows[fact.entity] = fact.rows
                self._now = fact
            elif isinstance(fact, StreamAwaited):
                self._awaited.pop(fact.channel, None)
                if fact.what is not None:
                    self._awaited[fact.channel] = fact
            elif isinstance(fact, ComparisonsLeft):
                self._left, self._now = fact.records, None

    def lines(self) -> list[str]:
        """Write the progress for a terminal."""
        with self._lock:
            waiting = [f"  {waiting_line(each)}" for each in self._awaited.values()]
        return [self.line(), *waiting]

    def line(self) -> str:
        """Write the progress for a log."""
        with self._lock:
            now = self._monotonic()
            parts = [
                f"{counted(sum(self._rows.values()), 'record')} compared, {counted(self._requests, 'API request')}"
            ]
            if self._now is not None:
                parts.append(f"{self._now.entity}: {self._of(self._now, now)}")
            elif self._left:
                parts.append(f"the tables are brought up to date, to compare {counted(self._left, 'record')} again")
            return "; ".join([*parts, duration_text(now - self._began)])

    def _of(self, page: PageCompared, now: float) -> str:
        rows, since = self._first
        words = f"{page.rows:,} of about {max(page.rows, page.rows_expected):,}"
        if page.rows <= rows or now <= since:
            return words
        left = max(0, page.rows_expected - page.rows) * (now - since) / (page.rows - rows)
        return f"{words}, {duration_text(left)} left"
