"""Times of day, dates and moments: an event has each of them as the same long, and the id of its schema is the same for
all of them (docs/salesforce-streams.md, "Field types").

So what a custom field was when an event was written only describe says, by the position at which it was looked at. An
event may have been written before its field was changed and come after that position, or between two changes that
nobody looked in between. It then waits for a copy of its entity, or is perhaps older than one; and a value that is one
of another kind as well proves nothing. A date is the same as the moment at its midnight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfcdc_assets.change_events.cell_value import TIMES
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.type_conversion import CellValue

_DAY_US = 86_400_000_000
_CUSTOM = ("__c", "__pc")
"""Ends of the names of fields whose type can be changed."""


@dataclass(frozen=True)
class Unsettled:
    """Events whose fields may be of another type than the columns have at their positions. `spans`: those after the
    first position and up to the second wait for a read, since something happened to the entity as a whole. `late`:
    positions of those that may be older than a read that they come after."""

    spans: tuple[tuple[int, int], ...] = ()
    late: frozenset[int] = frozenset()

    def among(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of the positions are of such events."""
        found = np.isin(positions, np.fromiter(self.late, np.int64, len(self.late)))
        for after, up_to in self.spans:
            found |= (positions > after) & (positions <= up_to)
        return found

    def waits(self, position: int) -> bool:
        """Return whether the event there waits for a read."""
        return any(after < position <= up_to for after, up_to in self.spans)


ALL_SETTLED = Unsettled()


def is_changeable(column: Column) -> bool:
    """Return whether it is a time, of one kind or another, whose kind can be changed."""
    return column.salesforce_type in TIMES and column.name.endswith(_CUSTOM)


def is_of_another_kind_too(column: Column, value: CellValue) -> bool:
    """Return whether a value of the column is in an event what a different one of another kind is: a time of day may be
    a moment of the first day of 1970. A hash hides what it is."""
    if value is None or not is_changeable(column):
        return False
    if column.hash_key is not None or column.salesforce_type == "time":
        return True
    assert isinstance(value, int)
    return 0 <= value < (1 if column.salesforce_type == "date" else _DAY_US)
