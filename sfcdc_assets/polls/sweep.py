"""Records that are in a table and not in the org any more, found by counting: who is deleted for good raises no stamp.

The org counts the records of a window of Ids, and so does the table. Where both say the same, nothing is looked at;
where they differ, the window is parted, down to windows whose Ids are listed. A million records without a delete cost
one count, and each delete some five more.

Equal counts prove nothing where the table may not have all that the org has: one record more there hides one less.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from sfcdc_assets.salesforce.composite_query import PAGE_ROWS
from sfcdc_assets.snapshot.soql import IdWindow

LISTED = PAGE_ROWS
"""Records of a window whose Ids are listed."""
PARTS = 5
"""Of a window that differs: as many as one request counts."""
Ids = npt.NDArray[np.bytes_]
"""In order, each as wide as the longest: 18 characters."""
COUNTED = 2_000_000
"""The most records that the org is asked to count at once: on tens of millions it gives up."""


def left_out(ids: Ids, gone: Collection[str]) -> Ids:
    """Return the Ids (in order) without some. These are looked up and not compared as a set: numpy sorts all Ids for
    that, which takes half a minute for millions, and Python's sets take a gigabyte."""
    wanted = np.array(sorted(gone), np.bytes_)
    places = np.searchsorted(ids, wanted)
    within = places < len(ids)
    return np.delete(ids, places[within][ids[places[within]] == wanted[within]])


class Sweep:
    """The search over one object, step by step. `ids`: those of the table's living rows, in order."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._to_count: deque[IdWindow] = deque(_parted(ids, IdWindow(), -(-len(ids) // COUNTED) or 1))
        self._to_list: deque[IdWindow] = deque()
        self._has_differed = False

    def to_count(self, most: int) -> tuple[IdWindow, ...]:
        """Return windows that the org is to count next."""
        return tuple(self._to_count.popleft() for _ in range(min(most, len(self._to_count))))

    def to_list(self) -> IdWindow | None:
        """Return a window whose Ids the org is to list next."""
        return self._to_list.popleft() if self._to_list else None

    def counted(self, counts: Mapping[IdWindow, int]) -> None:
        """Take the org's counts."""
        for window, count in counts.items():
            ours = len(self.ids_in(window))
            if ours == count:
                continue
            self._has_differed = True
            if ours <= LISTED:
                self._to_list.append(window)
            else:
                self._to_count.extend(_parted(self.ids_in(window), window, PARTS))

    def gave_up(self, window: IdWindow) -> bool:
        """Take it that the org could not count a window; returns whether there is less to ask for instead."""
        ids = self.ids_in(window)
        if len(ids) <= LISTED:
            return False
        self._to_count.extend(_parted(ids, window, PARTS))
        return True

    def without(self, gone: Collection[str]) -> int:
        """Count again without Ids that are known to be gone; returns how many of them the table had."""
        before = len(self._ids)
        self._ids = left_out(self._ids, gone)
        if found := before - len(self._ids):
            self._to_list.clear()
            self._to_count = deque(_parted(self._ids, IdWindow(), -(-len(self._ids) // COUNTED) or 1))
        return found

    def list_all(self) -> None:
        """Have every Id listed, whatever was counted."""
        self._to_count.clear()
        self._to_list = deque(_parted(self._ids, IdWindow(), -(-len(self._ids) // LISTED) or 1))

    def has(self, record_id: str) -> bool:
        """Return whether the table has an Id."""
        place = int(np.searchsorted(self._ids, record_id.encode()))
        return place < len(self._ids) and self._ids[place] == record_id.encode()

    @property
    def differs(self) -> bool:
        """Whether a count has shown that something is missing."""
        return self._has_differed

    @property
    def held(self) -> int:
        """How many Ids it holds, 18 bytes each."""
        return len(self._ids)

    def ids_in(self, window: IdWindow) -> Ids:
        """Return the table's Ids in a window."""
        start = 0 if window.lower is None else int(np.searchsorted(self._ids, window.lower.encode()))
        end = len(self._ids) if window.upper is None else int(np.searchsorted(self._ids, window.upper.encode()))
        return self._ids[start:end]

    @property
    def is_over(self) -> bool:
        """Nothing is left to ask."""
        return not (self._to_count or self._to_list)


def _parted(ids: Ids, window: IdWindow, parts: int) -> list[IdWindow]:
    """Return the window in parts with about as many of the Ids each."""
    cuts = sorted({ids[len(ids) * number // parts].decode() for number in range(1, parts)}) if len(ids) else []
    ends = [window.lower, *(cut for cut in cuts if cut != window.lower), window.upper]
    return [IdWindow(lower, upper) for lower, upper in pairwise(ends)]
