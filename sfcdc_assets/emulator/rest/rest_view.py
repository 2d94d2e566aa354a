"""What REST shows of the records: the present, or, as on the real thing at times, what was true a little while ago.

A delayed view keeps the rows that commits replaced. To read, it puts them back inside a database transaction, newest
commit first, runs the query, and rolls back. So every query sees one state that was true once, whatever it joins or
counts; nothing is copied, and without a delay nothing is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.org.clock import Clock
from sfcdc_assets.emulator.org.database import Database
from sfcdc_assets.emulator.org.store import RecordStore
from sfcdc_assets.emulator.org.transaction import StoredValue


@dataclass(frozen=True)
class ReplacedRow:
    """A row as it was before a transaction; None: there was none."""

    definition: ObjectDefinition
    record_id: str
    before: Mapping[str, StoredValue] | None


class RestView:
    """The view. `delay` (ms, by the org's clock) counts for commits from the moment it is not 0; 0 ends it."""

    def __init__(self, database: Database, store: RecordStore, clock: Clock, delay: Callable[[], int]) -> None:
        self._database = database
        self._store = store
        self._clock = clock
        self._commits: deque[tuple[int, Sequence[ReplacedRow]]] = deque()
        self._delay = delay

    @property
    def delay(self) -> int:
        """How long ago was what is shown (ms)."""
        return self._delay()

    def note(self, replaced: Sequence[ReplacedRow]) -> None:
        """Rows that the transaction just being committed replaced. Called while `delay` is not 0."""
        self._commits.append((self._clock(), replaced))

    def forget(self) -> None:
        """Show the present from now on, until the next commit: the tables themselves change."""
        with self._database.lock:
            self._commits.clear()

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query, as REST sees them."""
        with self.shown():
            return self._database.rows(sql, parameters)

    def stream(self, sql: str, parameters: Sequence[Any], block: int) -> Iterator[list[tuple[Any, ...]]]:
        """Rows in blocks, as REST sees them; consume it while holding the database's lock."""
        if not self._hidden():
            yield from self._database.stream(sql, parameters, block)
            return
        # The reader writes while it reads, which the rollback of the view would undo, so the rows come first.
        rows = self.rows(sql, parameters)
        for start in range(0, len(rows), block):
            yield rows[start : start + block]

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Inside, the database shows the records as REST sees them. What is written inside may be undone."""
        with self._database.lock:
            hidden = self._hidden()
            if not hidden:
                yield
                return
            with self._database.undone():
                for replaced in reversed(hidden):
                    for row in reversed(replaced):
                        self._store.put_back(row.definition, row.record_id, row.before)
                yield

    def _hidden(self) -> list[Sequence[ReplacedRow]]:
        """Return what REST does not see yet, oldest first; older commits are forgotten."""
        delay = self.delay
        visible_until = self._clock() - delay
        with self._database.lock:
            while self._commits and (not delay or self._commits[0][0] <= visible_until):
                self._commits.popleft()
            return [replaced for _, replaced in self._commits]
