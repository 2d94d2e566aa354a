"""Whether anything has changed in tables that were looked at, without opening one.

Who works out something from tables and will be asked for it again lets `seen` note which tables it opens, or finds
missing, and where their logs end. Nothing has changed for as long as each of them still ends there (`log_end`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from itertools import chain
from typing import Generic, TypeVar

from sfcdc_assets.lake.delta.log_end import MISSING, LogEnd, ends_at, facts_of
from sfcdc_assets.lake.warehouse import ENTITIES_AT_ONCE, Warehouse
from sfcdc_assets.runtime.concurrency import all_side_by_side


class Seen:
    """Tables of one warehouse, each at the version at which it was first seen."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._versions: dict[str, int] = {}
        self._ends: dict[str, LogEnd] = {}
        """Where the logs ended when that was seen; of a table that is changed while it is looked at, not its newest."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Their paths below the warehouse."""
        return tuple(self._versions)

    def note(self, warehouse: Warehouse, name: str, version: int | None, end: LogEnd | None = None) -> None:
        """Note that a table was opened at a version, or is missing. `end`: where its log ended then, if that is
        known."""
        if warehouse == self._warehouse and name not in self._versions:
            self._versions[name] = MISSING if version is None else version
            if end is not None:
                self._ends[name] = end

    def add(self, other: Seen) -> None:
        """Count what was seen there as seen here."""
        for name, version in other._versions.items():
            if name not in self._versions:
                self._versions[name] = version
                if name in other._ends:
                    self._ends[name] = other._ends[name]

    def close(self) -> None:
        """All was seen. What is not known yet is asked for."""
        with suppress(OSError):
            unknown = [at for at in self._versions.items() if at[0] not in self._ends]
            self._ends |= {name: end for (name, _), end in _ends(self._warehouse, unknown).items()}

    def is_unchanged(self) -> bool:
        """Return whether all tables are as they were. Never so where that cannot be known."""
        return unchanged(self._warehouse, [self]) == [True]

    def _is_as_in(self, ends: Mapping[tuple[str, int], LogEnd]) -> bool:
        """Return whether it all is as it was, and was the newest state then: a table may be changed while it is looked
        at."""
        now = ((name, ends[name, version]) for name, version in self._versions.items())
        return all(end.is_newest and self._ends.get(name) == end for name, end in now)


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


def note(warehouse: Warehouse, name: str, version: int | None, end: LogEnd | None = None) -> None:
    """Note that a table was opened at a version, or found missing: watchers are notified. See `Seen.note`."""
    for each in _WATCHING.get():
        each.note(warehouse, name, version, end)


def note_all(of: Seen) -> None:
    """Tables of which something is known already are as they were seen: watchers are notified."""
    for each in _WATCHING.get():
        each.add(of)


def unchanged(warehouse: Warehouse, of: Sequence[Seen]) -> list[bool]:
    """Return of each whether all its tables are as they were; all files are asked for at once."""
    try:
        ends = _ends(warehouse, dict.fromkeys(chain.from_iterable(each._versions.items() for each in of)))
    except OSError:
        return [False] * len(of)
    return [each._is_as_in(ends) for each in of]


def _ends(warehouse: Warehouse, tables: Iterable[tuple[str, int]]) -> dict[tuple[str, int], LogEnd]:
    """Table and version -> the end of its log there. Raises `OSError`."""
    wanted = list(tables)
    found = iter(facts_of(warehouse.filesystem(""), list(chain.from_iterable(ends_at(v, name) for name, v in wanted))))
    return {at: LogEnd(at[1], next(found), next(found)) for at in wanted}


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
