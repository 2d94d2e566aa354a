"""Checkpoint: what an entity's tables have, in the commit that makes it so.

`current_state`'s commit is the commit point of a batch. Rows of `history` and `text_fields` say which batch wrote them;
what a later batch than the checkpoint's wrote is not part of the tables, and neither is what an earlier one wrote after
a position that a later batch went back to. Readers leave it out, and the next writer removes it before it works.

The numbers are kept as Delta's transaction versions, which log cleanup does not remove and checkpoints of the log carry
on for ever.
"""

from __future__ import annotations

from dataclasses import dataclass

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.delta.transaction_versions import stored_as, stored_names

BATCH = "batch"
"""Every commit of a batch sets it, on each of the entity's tables, so that of two batches at once one is refused."""


@dataclass(frozen=True)
class Checkpoint:
    """Of one entity: positions are those of its channel; 0 where there is nothing yet."""

    position: int = 0
    """Events up to it are in the rows."""
    batch: int = 0
    """Number of the last batch."""
    snapshot: int = 0
    """Number of the last snapshot in the rows."""
    read_back: int = stored_as("refetch")
    """Number of the last read-back in the rows."""
    suspected: int = 0
    """Position of the last entry about the whole entity for which the rows were marked."""
    read_at: int = 0
    """When the newest rows that were read from the org were read, epoch ms by our clock: they may be ahead of the
    events that were landed before."""
    rolled_back_in: int = 0
    """Number of the last batch that went back to a snapshot's watermark."""
    rolled_back_to: int = 0
    """That watermark."""
    built_at: int = 0
    """When the tables were built from nothing, epoch ms by our clock: batches are numbered within that. 0 where an
    earlier release wrote them."""
    retyped_at: int = 0
    """When rows were written again because a field got another type, likewise."""

    @classmethod
    def of(cls, table: Table, channel: str) -> Checkpoint:
        """Return the checkpoint that a handle on `current_state` has."""
        numbers = {name: table.transaction_version(stored) or 0 for name, stored in _NUMBERS.items()}
        return cls(position=table.transaction_version(channel) or 0, **numbers)

    def versions(self, channel: str) -> dict[str, int]:
        """Return the checkpoint as transaction versions."""
        return {channel: self.position} | {stored: getattr(self, name) for name, stored in _NUMBERS.items()}

    def part(self, position: str) -> str:
        """Return the condition under which a row of `history` or `text_fields` is part of the tables. `position` is the
        column that says where it ends, or stands."""
        rolled_back = (
            f" and (_batch >= {self.rolled_back_in} or {position} <= {self.rolled_back_to})"
            if self.rolled_back_in
            else ""
        )
        return f"_batch <= {self.batch}{rolled_back}"

    def not_part(self, position: str) -> str:
        """Return the opposite of `part`."""
        rolled_back = (
            f" or (_batch < {self.rolled_back_in} and {position} > {self.rolled_back_to})"
            if self.rolled_back_in
            else ""
        )
        return f"_batch > {self.batch}{rolled_back}"


BUILT_AT, RETYPED_AT = "built_at", "retyped_at"
"""The transaction versions of the fields of these names."""

_NUMBERS = {name: stored for name, stored in stored_names(Checkpoint).items() if name != "position"}
"""The fields with the names of their transaction versions."""
