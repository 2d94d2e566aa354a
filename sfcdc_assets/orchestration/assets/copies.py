"""Copies of many entities, some at a time: while the org prepares one, the rows of others are read.

They are begun in the order in which they are given. A run does not have to finish them: the rows of a page are
committed with the progress after it, so a copy that pauses between two pages goes on in the next run, and a run that
ends now and then lets the next one begin with what is small and new.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from queue import SimpleQueue
from types import TracebackType

from sfcdc_assets.entities.entity_state import EntityState
from sfcdc_assets.orchestration.assets.reports import Log
from sfcdc_assets.org_reads.take_snapshot import SnapshotReport
from sfcdc_assets.runtime.errors import counted

AT_ONCE = 4
"""Bulk jobs that are open beside each other; each has a page in memory, some tens of MB."""


class CopyPaused(Exception):
    """A copy was not begun, or stopped before a page; the next run goes on. `rows`: how many are read by then."""

    def __init__(self, entity: str, rows: int, reason: str) -> None:
        self.entity, self.rows, self.reason = entity, rows, reason
        how = f"its copy pauses after {counted(rows, 'row')}" if rows else "its copy waits"
        super().__init__(f"{entity}: {how}: {reason}. The next run goes on.")


@dataclass(frozen=True)
class _Copy:
    """One entity's, under way: what it comes to, and what it logs until then."""

    lines: SimpleQueue[Callable[[Log], None] | None] = field(default_factory=SimpleQueue)
    outcome: Future[SnapshotReport] = field(default_factory=Future)


@dataclass(frozen=True)
class _Lines:
    """A log whose lines wait for the step that shows them."""

    lines: SimpleQueue[Callable[[Log], None] | None]

    def info(self, message: str) -> None:
        self.lines.put(lambda log: log.info(message))

    def warning(self, message: str) -> None:
        self.lines.put(lambda log: log.warning(message))


class Copies:
    """Of the entities, each made by `take`, which raises `CopyPaused` when `why_not_now` gives a reason.

    A context manager: at its end nothing more is begun, and what is under way pauses after its page.
    """

    def __init__(
        self,
        states: Sequence[EntityState],
        take: Callable[[EntityState, Log, Callable[[], str | None]], SnapshotReport],
        why_not: Callable[[], str | None],
    ) -> None:
        self._take = take
        self._why_not = why_not
        self._is_ending = threading.Event()
        self._states = {state.entity: state for state in states}
        self._copies = {entity: _Copy() for entity in self._states}
        self._threads = ThreadPoolExecutor(AT_ONCE, "copy")

    def __enter__(self) -> Copies:
        for entity in self._copies:
            self._begin(entity)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_ending.set()
        self._threads.shutdown()

    def result(self, entity: str, log: Log) -> SnapshotReport:
        """Wait until the entity's copy has ended, and show what it logs. Raises `CopyPaused`, and what stopped it."""
        copy = self._copies[entity]
        while (line := copy.lines.get()) is not None:
            line(log)
        return copy.outcome.result()

    def begin_again(self, entity: str) -> None:
        """Begin one that failed again."""
        self._copies[entity] = _Copy()
        self._begin(entity)

    def _begin(self, entity: str) -> None:
        self._threads.submit(copy_context().run, self._make, self._states[entity], self._copies[entity])

    def _make(self, state: EntityState, copy: _Copy) -> None:
        try:
            if reason := self._why_not_now():
                raise CopyPaused(state.entity, 0, reason)
            copy.outcome.set_result(self._take(state, _Lines(copy.lines), self._why_not_now))
        except BaseException as error:  # noqa: BLE001 - who waits for the result raises it
            copy.outcome.set_exception(error)
        finally:
            copy.lines.put(None)

    def _why_not_now(self) -> str | None:
        return "the run is over" if self._is_ending.is_set() else self._why_not()
