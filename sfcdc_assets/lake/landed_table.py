"""A table that channels are landed in: rows, each with its position and replay id, and the `StoredCheckpoint` of each
channel, in one commit (guarantee 1)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from sfcdc_assets import clock
from sfcdc_assets.lake.commit_protocol import RUN_ID
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.quarantine import Delivery
from sfcdc_assets.lake.stored_checkpoint import StoredCheckpoint, begun, complete_position
from sfcdc_assets.lake.table import Table
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.resume import ResumePoint


class LandedTable:
    """A handle on one snapshot of such a table; commits go through the snapshot whose checkpoint was read."""

    table: Table

    def stored_checkpoint(self, channel: str) -> StoredCheckpoint:
        """How far the channel has been landed, as of this snapshot; from the log alone."""
        return StoredCheckpoint.of(self.table, channel)

    def checkpoint(self, channel: str) -> StreamCheckpoint:
        """The same with the events that a stream which is resumed brings again, which the rows show: what a reader of
        the channel goes on from. Where these rows cannot be read the events are landed a second time, which changes
        nothing: a damaged file of one entity keeps from none of the others."""
        found = self.stored_checkpoint(channel)
        checkpoint = StreamCheckpoint(
            channel,
            found.position,
            found.complete_position,
            transaction_key=found.transaction_key or None,
            begun=found.begun,
            begun_at_ms=found.begun_at or None,
            transport=found.transport,
        )
        resume = ResumePoint(found.replay_id or None, found.known_at or None)
        with suppress(TableDamaged):
            taken = self._taken(channel, found)
            if taken:
                marks = tuple(each.mark for each in taken)
                open_group = replace(resume, open_id=taken[-1].replay_id, open_marks=marks)
                return replace(checkpoint, resume=open_group, open_from=found.open_from)
        return replace(checkpoint, resume=resume)

    def upgrade(self, channel: str) -> None:
        """Keep a channel's checkpoint in today's form, if an older release landed it. Raises `ConcurrentCommit`."""

    def stands_at(self, channel: str) -> tuple[int, str | None]:
        """The channel's position, and where its stream was begun: whether it is where a reader left it."""
        return self.given_out(channel), begun(self.table, channel)

    def landed_at_ms(self, channel: str) -> int | None:
        """When the channel's checkpoint was last moved (ms, UTC)."""
        return self.stored_checkpoint(channel).landed_at or None

    def given_out(self, channel: str) -> int:
        """The last position that was given out on the channel; 0 before the first."""
        return self.table.transaction_version(channel) or 0

    def complete_position(self, channel: str) -> int:
        """Position of the channel's last complete transaction; 0 before the first."""
        return complete_position(self.table, channel)

    def note(self, checkpoint: StreamCheckpoint) -> None:
        """Move the channel's checkpoint without rows. Raises `ConcurrentCommit`."""
        self.commit(self.table.schema.empty_table(), checkpoint)

    def lose_checkpoint(self, checkpoint: StreamCheckpoint) -> StreamCheckpoint:
        """Break the channel's order: a position of its own for the break, and no replay id to resume from."""
        broken = StreamCheckpoint(checkpoint.channel, checkpoint.position + 1, checkpoint.position + 1)
        self.note(broken)
        return broken

    def commit(self, rows: pa.Table, checkpoint: StreamCheckpoint, run_id: str = "") -> None:
        """Rows and checkpoint in one commit (guarantee 1), whose metadata names the run that landed them, if one did.

        Raises `ConcurrentCommit` when another process landed events of the channel since this snapshot.
        """
        stored = StoredCheckpoint.after(checkpoint, clock.now_ms())
        self.table.append(rows, stored.versions(checkpoint.channel), {RUN_ID: run_id} if run_id else {})

    def _taken(self, channel: str, checkpoint: StoredCheckpoint) -> list[Delivery]:
        """The events of the replay id that may be unfinished, in the order in which they came."""
        return []
