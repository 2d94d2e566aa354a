"""Cells as Arrow holds them: a list of them for each change."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from sfcdc_assets.change_events.change_event import Cell
from sfcdc_assets.change_events.column_types import FORMS
from sfcdc_assets.change_events.columns import Column

CELL = pa.struct([("column", pa.int32()), ("s", pa.string()), ("d", pa.float64()), ("l", pa.int64())])
"""A value: the column's index, and the value in the member of its type; all null means null was written.

`s` strings; `d` doubles; `l` integers, booleans (0, 1), dates (days since 1970-01-01), timestamps (microseconds UTC).
"""

MEMBERS = "sdl"
"""Members of a cell, in the order of `CELL`."""


def members_of(columns: Sequence[Column]) -> tuple[int, ...]:
    """Return for each column the member of `CELL` (by its place in `MEMBERS`) that holds its values."""
    return tuple(MEMBERS.index(FORMS[column.type].member) for column in columns)


class CellLists:
    """Collects a list of cells after another; Arrow arrays are built once at the end."""

    def __init__(self, members: Sequence[int]) -> None:
        """`members`: see `members_of`."""
        self._members = members
        self._offsets = [0]
        self._column: list[int] = []
        self._values: tuple[list[object], list[object], list[object]] = ([], [], [])

    def add(self, cells: Collection[Cell]) -> None:
        """Add one list."""
        if not cells:
            self._offsets.append(self._offsets[-1])
            return
        members = self._members
        strings, doubles, longs = self._values
        for index, value in sorted(cells, key=_column):
            member = members[index]
            self._column.append(index)
            strings.append(value if member == 0 else None)
            doubles.append(value if member == 1 else None)
            longs.append(int(value) if member == 2 and value is not None else None)
        self._offsets.append(len(self._column))

    def build(self) -> pa.ListArray:
        """All lists, cells in the order of their columns."""
        strings, doubles, longs = self._values
        cells = pa.StructArray.from_arrays(
            [
                pa.array(self._column, pa.int32()),
                pa.array(strings, pa.string()),
                pa.array(doubles, pa.float64()),
                pa.array(longs, pa.int64()),
            ],
            fields=list(CELL),
        )
        return pa.ListArray.from_arrays(pa.array(self._offsets, pa.int32()), cells)


def _column(cell: Cell) -> int:
    return cell[0]
