"""A table beside `current_state` that batches append to: `history`, `text_fields`.

It follows the rule of `checkpoint`: rows of a batch count once `current_state` has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfcdc_assets.lake.delta.data_files import NewFile
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.entity_checkpoint import BATCH, Checkpoint

_BUILT, _CLEANED = "built", "cleaned"


@dataclass(frozen=True)
class Appended:
    """A handle on one snapshot of the table. `position`: the column that says at which position a row ends, or which it
    stands for."""

    table: Table
    position: str

    @property
    def is_built(self) -> bool:
        """It was built together with `current_state`; not so where the table is new, or a rebuild was interrupted."""
        return bool(self.table.transaction_version(_BUILT))

    def has_leftovers(self, checkpoint: Checkpoint) -> bool:
        """Return whether a batch that was not committed, or went back and did not come to clean, may have left rows."""
        last = self.table.transaction_version(BATCH) or 0
        cleaned = self.table.transaction_version(_CLEANED) or 0
        return last > checkpoint.batch or cleaned < checkpoint.rolled_back_in

    def clean(self, checkpoint: Checkpoint) -> int:
        """Remove what is not part of the tables; returns how many rows that were. Raises `ConcurrentCommit`.

        To be called by a writer that no other can overtake any more: see `CurrentState.fence`.
        """
        memory = {BATCH: checkpoint.batch, _CLEANED: checkpoint.rolled_back_in}
        removed = self.table.delete_rows(checkpoint.not_part(self.position), memory)
        if self.has_leftovers(checkpoint):
            self.table.append(self.table.schema.empty_table(), memory, {})  # nothing to delete is no commit
        return removed

    def empty(self) -> None:
        """Remove all rows: the table is built again. Raises `ConcurrentCommit`."""
        self.table.swap_files([], self.table.files(), {BATCH: 0, _BUILT: 0, _CLEANED: 0}, {})

    def append(self, files: Sequence[NewFile], batch: int) -> None:
        """Add a batch's files; also without any, so that of two batches at once one is refused. Raises
        `ConcurrentCommit`."""
        self.table.swap_files(files, [], {BATCH: batch}, {})

    def add(self, files: Sequence[NewFile]) -> None:
        """Add files of rows that are of no batch's own, with the number of the last one. Raises `ConcurrentCommit`,
        also where a batch has begun since this handle was opened; and so does a batch that was at work."""
        self.append(files, self.table.transaction_version(BATCH) or 0)

    def note_built(self) -> None:
        """Note that the table goes with `current_state` from now on. Raises `ConcurrentCommit`."""
        if not self.is_built:
            self.table.append(self.table.schema.empty_table(), {_BUILT: 1}, {})

    def memory(self) -> dict[str, int]:
        """Return what the table remembers, for one that takes its place and is still to be noted as built."""
        return {name: self.table.transaction_version(name) or 0 for name in (BATCH, _CLEANED)} | {_BUILT: 0}
