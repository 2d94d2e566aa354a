"""`raw_events`: the channels' events, each with its position and replay id, and the `StoredCheckpoint` of each channel,
in one commit (guarantee 1)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sfcdc_assets import clock
from sfcdc_assets.change_events.raw_event_rows import RAW_EVENTS, StreamCheckpoint
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.older_raw_events import checkpoint_of_format_1, organization_of_format_1
from sfcdc_assets.lake.quarantine import Delivery, deliveries
from sfcdc_assets.lake.raw_event_reads import RawEventReads, of_entity
from sfcdc_assets.lake.stored_checkpoint import FORMAT, StoredCheckpoint, begun, complete_position
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.resume import ResumePoint

NAME = "raw_events"


class RawEvents(RawEventReads):
    """A handle on one snapshot of `raw_events`; commits go through the snapshot whose checkpoint was read."""

    def __init__(self, table: Table, warehouse: Warehouse) -> None:
        self.table = table
        self._warehouse = warehouse

    @classmethod
    def open(cls, warehouse: Warehouse) -> RawEvents:
        """The newest snapshot; the table is created when it does not exist."""
        return cls(Table.open_or_create(warehouse, NAME, RAW_EVENTS, partition_by=["entity_name"]), warehouse)

    def stored_checkpoint(self, channel: str) -> StoredCheckpoint:
        """How far the channel has been landed, as of this snapshot; from the log alone."""
        return StoredCheckpoint.of(self.table, channel)

    def checkpoint(self, channel: str) -> StreamCheckpoint:
        """The same with the events that a stream which is resumed brings again, which rows tell: what a reader of the
        channel goes on from. Where these rows cannot be read the events are landed a second time, which changes
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
        if found.format < FORMAT:
            return checkpoint_of_format_1(self.table, checkpoint)
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
        if self.stored_checkpoint(channel).format < FORMAT:
            self.commit(RAW_EVENTS.empty_table(), self.checkpoint(channel))

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

    def lose_checkpoint(self, checkpoint: StreamCheckpoint) -> StreamCheckpoint:
        """Break the channel's order: a position of its own for the break, and no replay id to resume from."""
        broken = StreamCheckpoint(checkpoint.channel, checkpoint.position + 1, checkpoint.position + 1)
        self.commit(RAW_EVENTS.empty_table(), broken)
        return broken

    def skip_to(self, channel: str, position: int) -> None:
        """Give no event of the channel a position up to this one, from now on. Raises `ConcurrentCommit`."""
        checkpoint = self.checkpoint(channel)
        if checkpoint.position < position:
            self.commit(RAW_EVENTS.empty_table(), replace(checkpoint, position=position))

    def commit(self, rows: pa.Table, checkpoint: StreamCheckpoint) -> None:
        """Rows and checkpoint in one commit (guarantee 1).

        Raises `ConcurrentCommit` when another process landed events of the channel since this snapshot.
        """
        stored = StoredCheckpoint.after(checkpoint, clock.now_ms())
        self.table.append(rows, stored.versions(checkpoint.channel), {})

    def _taken(self, channel: str, checkpoint: StoredCheckpoint) -> list[Delivery]:
        """The events of the replay id that may be unfinished, in the order in which they came."""
        first, last = checkpoint.open_from, checkpoint.position
        if not first:
            return []
        quoted = channel.replace("'", "''")
        rows = self.table.scan(
            ["position", "replay_id", "event_id", "payload"],
            f"channel = '{quoted}' and position >= {first} and position <= {last}",
        )
        landed = [
            Delivery(
                row["position"],
                row["replay_id"],
                DeliveredEvent(row["event_id"], "", row["payload"] or b"", row["replay_id"], 0).mark,
            )
            for row in rows.to_pylist()
        ]
        positions = {each.position for each in landed}
        unreadable = deliveries(self._warehouse, channel, first, last)
        both = [*landed, *(each for each in unreadable if each.position not in positions)]
        return sorted(both, key=lambda each: each.position)


def organization_of_landed_events(warehouse: Warehouse) -> str | None:
    """The org that an older release landed events from, as the kept log shows; None when it does not."""
    table = Table.open(warehouse, NAME)
    return organization_of_format_1(table) if table else None


def payloads(warehouse: Warehouse, entity: str, channel: str, positions: Sequence[int]) -> list[dict[str, Any]]:
    """`position`, `schema_id` and `payload` of the entity's events at these positions (few), in position order."""
    listed = ", ".join(str(position) for position in positions)
    rows = RawEvents.open(warehouse).table.scan(
        ["position", "schema_id", "payload"], f"{of_entity(entity, channel)} and position in ({listed})"
    )
    return sorted(rows.to_pylist(), key=lambda row: row["position"])
