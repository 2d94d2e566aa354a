"""Whether anything has changed in tables that were looked at, without opening one.

Who works out something from tables and will be asked for it again lets `seen` note which tables it opens, or finds
missing, and at which versions. Nothing has changed for as long as each of them has no later commit, and the commit that
it stood at is the very file it was: a table may be removed and made again. That is two questions about files a table,
however old it is, where opening it takes milliseconds; a store that lists slowly is not listed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from itertools import chain
from typing import Generic, TypeVar

from pyarrow import fs

from sfcdc_assets.lake.delta.transaction_versions import commit_file
from sfcdc_assets.lake.warehouse import ENTITIES_AT_ONCE, Warehouse
from sfcdc_assets.runtime.concurrency import all_side_by_side

File = tuple[fs.FileType, int | None, int | None]
"""Whether there is a file, when it was written (ns), and its size."""
NO_FILE: File = (fs.FileType.NotFound, None, None)
_MISSING = -1
"""The version of a table that there is not."""


class Seen:
    """Tables of one warehouse, each at the version at which it was first seen."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._versions: dict[str, int] = {}
        self._files: dict[str, File] = {}
        """Of the commits that the tables stood at, and of those after them, as they were when that was seen."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Their paths below the warehouse."""
        return tuple(self._versions)

    def note(self, warehouse: Warehouse, name: str, version: int | None, stood: File | None = None) -> None:
        """Note that a table was opened at a version, or is missing. `stood`: the version's commit, and there was no
        later one."""
        if warehouse == self._warehouse and name not in self._versions:
            self._versions[name] = _MISSING if version is None else version
            if stood is not None:
                self._files |= zip(_commits_of(name, self._versions[name]), (stood, NO_FILE), strict=True)

    def add(self, other: Seen) -> None:
        """Count what was seen there as seen here."""
        for name, version in other._versions.items():
            if name not in self._versions:
                self._versions[name] = version
                self._files |= {path: other._files[path] for path in _commits_of(name, version) if path in other._files}

    def close(self) -> None:
        """All was seen. What is not known yet is asked for."""
        with suppress(OSError):
            self._files |= _files(self._warehouse, [path for path in self._commits() if path not in self._files])

    def is_unchanged(self) -> bool:
        """Return whether all tables are as they were. Never so where that cannot be known."""
        return unchanged(self._warehouse, [self]) == [True]

    def _is_as_in(self, files: Mapping[str, File]) -> bool:
        """Return whether it all is as it was, and was the newest state then: a table may be changed while it is looked
        at."""
        stood, following = self._commits()[::2], self._commits()[1::2]
        versions = self._versions.values()
        return (
            all(self._files.get(path) == files[path] for path in self._commits())
            and all(files[path][0] is fs.FileType.NotFound for path in following)
            and all(files[p][0] is fs.FileType.File or v == _MISSING for p, v in zip(stood, versions, strict=True))
        )

    def _commits(self) -> list[str]:
        """Return of each table the commit that it stood at and the one after it, whether or not they are there."""
        return list(chain.from_iterable(_commits_of(name, version) for name, version in self._versions.items()))


def _commits_of(name: str, version: int) -> tuple[str, str]:
    """Return the commit that a table stood at, and the next one."""
    return f"{name}/{commit_file(max(version, 0))}", f"{name}/{commit_file(version + 1)}"


_WATCHING: ContextVar[tuple[Seen, ...]] = ContextVar("seen", default=())


@contextmanager
def seen(warehouse: Warehouse) -> Iterator[Seen]:
    """Note what this thread opens of the warehouse's tables while it is entered."""
    found = Seen(warehouse)
    token = _WATCHING.set((*_WATCHING.get(), found))
    try:
        yield found
    finally:
        _WATCHING.reset(token)
    found.close()


def note(warehouse: Warehouse, name: str, version: int | None, stood: File | None = None) -> None:
    """Note that a table was opened at a version, or found missing: watchers are notified. See `Seen.note`."""
    for each in _WATCHING.get():
        each.note(warehouse, name, version, stood)


def note_all(of: Seen) -> None:
    """Tables of which something is known already are as they were seen: watchers are notified."""
    for each in _WATCHING.get():
        each.add(of)


def unchanged(warehouse: Warehouse, of: Sequence[Seen]) -> list[bool]:
    """Return of each whether all its tables are as they were; all files are asked for at once."""
    try:
        files = _files(warehouse, list(dict.fromkeys(path for each in of for path in each._commits())))
    except OSError:
        return [False] * len(of)
    return [each._is_as_in(files) for each in of]


def _files(warehouse: Warehouse, paths: Sequence[str]) -> dict[str, File]:
    found = warehouse.filesystem("").get_file_info(list(paths))
    return {path: (info.type, info.mtime_ns, info.size) for path, info in zip(paths, found, strict=True)}


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """Answers to questions about tables of a warehouse; of those not asked for longest all but so many are forgotten.

    An answer is a value that nobody changes, and follows from tables alone. Threads may share it: each step is one of a
    dictionary's own.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[tuple[Warehouse, K], tuple[Seen, V]] = OrderedDict()

    def of(self, warehouse: Warehouse, questions: Sequence[K], ask: Callable[[K], V]) -> dict[K, V]:
        """Return the answer to each question; `ask` works out those that are not known, or that a changed table takes
        part in. Raises what it raises."""
        kept = {each: self._known.get((warehouse, each)) for each in questions}
        tables = {each: of[0] for each, of in kept.items() if of is not None}
        still = dict(zip(tables, unchanged(warehouse, list(tables.values())), strict=True))

        def answer_to(question: K) -> V:
            return self._answer(warehouse, question, kept[question] if still.get(question) else None, ask)

        # An object store answers after a while, and of hundreds of entities each has five tables.
        at_once = 1 if warehouse.is_local else ENTITIES_AT_ONCE
        return dict(zip(questions, all_side_by_side(answer_to, questions, at_once), strict=True))

    def _answer(self, warehouse: Warehouse, question: K, known: tuple[Seen, V] | None, ask: Callable[[K], V]) -> V:
        if known is None:
            with seen(warehouse) as tables:
                answer = ask(question)
            known = tables, answer
            self._known[warehouse, question] = known
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        else:
            note_all(known[0])
            with suppress(KeyError):
                self._known.move_to_end((warehouse, question))
        return known[1]
