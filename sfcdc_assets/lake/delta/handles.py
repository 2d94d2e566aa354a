"""Handles of Delta tables, used again in one process.

To open a table means to list its log and to read its checkpoint, which takes longer the older the table is: 0.1 s after
100,000 commits on a local disk. A sensor's process opens the same tables every few seconds. So a handle that nobody
holds any more is kept, and who opens the table next gets it, after a look at three files of the log: the commit it
stands at must be the very file it was, and so must the checkpoint it was opened with, because with a newer one older
commits may go. If there is a next commit, the handle catches up.

A handle has one holder at a time. Commits go through the snapshot that was read from it, as with a new one.
"""

from __future__ import annotations

import os
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow import fs

from sfcdc_assets.lake.delta.log_end import File, LogEnd, ends_at, facts_of
from sfcdc_assets.lake.delta.transaction_versions import LAST_CHECKPOINT, Log, Replayed, replay

T = TypeVar("T")

KEPT_TABLES = 3000
"""Tables that handles are kept of; those of the one that was used longest ago go first. Enough for 500 entities of five
tables, which otherwise are opened from nothing by each run; a handle takes 20 to 160 kB."""
KEPT_OF_A_TABLE = 3


class Answers:
    """What a handle was asked of its log, and said: a version does not change, and each question reads through all of
    its actions. They go with the handle from holder to holder."""

    def __init__(self, log: Log | None = None) -> None:
        self._log = log
        self._version = -1
        self._known: dict[object, Any] = {}
        self._replayed: tuple[int, Replayed | None] = (-1, None)
        self._schema: tuple[int, Any] = (-1, None)

    def transactions(self, version: int) -> Mapping[str, int] | None:
        """Return all of them, where the log was gone through here up to that version."""
        at, replayed = self._replayed
        return replayed.transactions if at == version and replayed is not None else None

    def transaction(self, version: int, application: str, ask: Callable[[], int | None]) -> int | None:
        """Return the version of an application's last transaction; asked where the log is not gone through here."""
        replayed = self._replay(version)
        if replayed is None:
            return self.of(version, ("transaction", application), ask)
        return replayed.transactions.get(application)

    def schema(self, version: int, ask: Callable[[], T]) -> T:
        """Return the table's schema, asked when it may have changed."""
        replayed = self._replay(version)
        layout = version if replayed is None else replayed.layout
        if self._schema[0] != layout:
            self._schema = layout, ask()
        found: T = self._schema[1]
        return found

    def _replay(self, version: int) -> Replayed | None:
        if self._log is not None and self._replayed[0] != version:
            self._replayed = version, replay(self._log, version, self._replayed[1])
        return self._replayed[1]

    def of(self, version: int, question: object, ask: Callable[[], T]) -> T:
        """Return the answer at a version, asked once."""
        if version != self._version:
            self._version, self._known = version, {}
        if question not in self._known:
            self._known[question] = ask()
        found: T = self._known[question]
        return found

    def carry(self, version: int, transactions: Mapping[str, int], *, changes_files: bool) -> None:
        """Go on to the next version, which differs in these transactions alone, and in its files: then nothing else is
        known of it any more."""
        if self._version == version - 1:
            known = {} if changes_files else self._known
            changed: dict[object, Any] = {
                ("transaction", application): number for application, number in transactions.items()
            }
            self._version, self._known = version, {**known, **changed}
        last = self._replayed[1]
        if last is not None and last.version == version - 1:
            self._replayed = version, last.followed_by(version, transactions)


@dataclass(frozen=True)
class Handle:
    """A handle on a table, the checkpoint it was opened with, what was asked of it, and the process that opened it.
    `newest`: where the log ended when it was taken; None where that was not asked."""

    delta: DeltaTable
    checkpoint: File
    process: int = field(default_factory=os.getpid)
    answers: Answers = field(default_factory=Answers)
    newest: LogEnd | None = None

    @classmethod
    def new(cls, uri: str, log: Log) -> Handle:
        """Open a handle on the newest version. Raises what deltalake raises."""
        (checkpoint,) = facts_of(log(), [LAST_CHECKPOINT])
        delta = DeltaTable(uri)
        return cls(delta, checkpoint, answers=Answers(log))


class Handles:
    """Handles that nobody holds, by the table's URI; some, because one who holds a table may open it again. Threads may
    share it: each step is one of a dictionary's or a list's own."""

    def __init__(self) -> None:
        self._idle: OrderedDict[str, list[tuple[Handle, File]]] = OrderedDict()

    def take(self, uri: str, log: Log) -> Handle:
        """Return a handle on the newest version, which the caller holds alone. Raises what deltalake raises."""
        try:
            handle, commit = self._idle.get(uri, []).pop()
        except IndexError:
            return Handle.new(uri, log)
        version = handle.delta.version()
        present, following, checkpoint = facts_of(log(), [*ends_at(version), LAST_CHECKPOINT])
        if handle.process != os.getpid() or (present, checkpoint) != (commit, handle.checkpoint):
            return Handle.new(uri, log)
        end = LogEnd(version, present, following)
        if end.is_newest:
            return replace(handle, newest=end)
        try:
            handle.delta.update_incremental()
        except (DeltaError, OSError):
            return Handle.new(uri, log)
        return replace(handle, newest=None)

    def give_back(self, uri: str, log: Log, handle: Handle) -> None:
        """Give a handle back, which the caller holds no more. It is not kept where its log cannot be looked at."""
        version, newest = handle.delta.version(), handle.newest
        try:
            is_known = newest is not None and newest.version == version
            commit = newest.commit if newest and is_known else facts_of(log(), ends_at(version)[:1])[0]
        except OSError:
            return
        idle = self._idle.setdefault(uri, [])
        if commit.type is fs.FileType.File and len(idle) < KEPT_OF_A_TABLE:
            idle.append((handle, commit))
        with suppress(KeyError):
            self._idle.move_to_end(uri)
            while len(self._idle) > KEPT_TABLES:
                self._idle.popitem(last=False)

    def idle(self, uri: str) -> int:
        """Return how many are kept of a table."""
        return len(self._idle.get(uri, ()))

    def tables(self) -> tuple[str, ...]:
        """Return the URIs of tables that one is kept of, the one used last at the end."""
        return tuple(uri for uri, idle in self._idle.items() if idle)


HANDLES = Handles()
"""Those of this process."""


class Held:
    """Gives a handle back when its owner is gone, unless something through it failed: nobody knows where it stands."""

    def __init__(self, owner: object, uri: str, log: Log, handle: Handle) -> None:
        self._is_sound = [True]
        finalizer = weakref.finalize(owner, _give_back, self._is_sound, uri, log, handle)
        finalizer.atexit = False

    def spoil(self) -> None:
        """Mark a handle as not to be used again."""
        self._is_sound.clear()


def _give_back(is_sound: list[bool], uri: str, log: Log, handle: Handle) -> None:
    if is_sound:
        HANDLES.give_back(uri, log, handle)
