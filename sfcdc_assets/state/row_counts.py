"""How many rows of `current_state` count as what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

COUNTED = ("_is_deleted", "_in_doubt")
"""The columns that rows are counted by."""


@dataclass(frozen=True)
class RowCounts:
    """Rows in all, those of deleted records, and those that are in doubt."""

    rows: int = 0
    deleted: int = 0
    in_doubt: int = 0

    @classmethod
    def of(cls, rows: pl.DataFrame | pa.Table) -> RowCounts:
        """Of rows with the columns `COUNTED`; a null is no."""
        flags = rows.select(list(COUNTED))
        frame = flags if isinstance(flags, pl.DataFrame) else pl.DataFrame(flags)
        deleted, in_doubt = (int(frame[name].sum()) for name in COUNTED)
        return cls(frame.height, deleted, in_doubt)

    @classmethod
    def sum(cls, counts: Iterable[RowCounts]) -> RowCounts:
        """All of them together."""
        total = cls()
        for each in counts:
            total += each
        return total

    def __add__(self, other: RowCounts) -> RowCounts:
        return RowCounts(self.rows + other.rows, self.deleted + other.deleted, self.in_doubt + other.in_doubt)

    def __sub__(self, other: RowCounts) -> RowCounts:
        return RowCounts(self.rows - other.rows, self.deleted - other.deleted, self.in_doubt - other.in_doubt)
