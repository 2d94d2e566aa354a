"""What was worked out from tables, for as long as none of them has changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from sfcdc_assets.lake.seen import Seen, note_all, seen, unchanged
from sfcdc_assets.lake.warehouse import ENTITIES_AT_ONCE, Warehouse
from sfcdc_assets.side_by_side import all_side_by_side

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
        """The answer to each question; `ask` works out those that are not known, or that a changed table takes part
        in. Raises what it raises."""
        kept = {each: self._known.get((warehouse, each)) for each in questions}
        tables = {each: of[0] for each, of in kept.items() if of is not None}
        still = dict(zip(tables, unchanged(warehouse, list(tables.values())), strict=True))

        def answer_to(question: K) -> V:
            return self._told(warehouse, question, kept[question] if still.get(question) else None, ask)

        # An object store answers after a while, and of hundreds of entities each has five tables.
        at_once = 1 if warehouse.is_local else ENTITIES_AT_ONCE
        return dict(zip(questions, all_side_by_side(answer_to, questions, at_once), strict=True))

    def _told(self, warehouse: Warehouse, question: K, known: tuple[Seen, V] | None, ask: Callable[[K], V]) -> V:
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
