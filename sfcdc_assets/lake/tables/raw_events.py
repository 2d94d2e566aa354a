"""`raw_events`: the channels' events, each with its position and replay id, and the `StoredCheckpoint` of each channel,
in one commit (guarantee 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sfcdc_assets.change_events.raw_event_rows import RAW_EVENTS
from sfcdc_assets.lake.delta.conditions import literal
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.landed_table import LandedTable
from sfcdc_assets.lake.tables.quarantine import Delivery, deliveries
from sfcdc_assets.lake.tables.raw_event_reads import RawEventReads, of_entity
from sfcdc_assets.lake.tables.stream_checkpoint import StoredCheckpoint
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.streams.delivered_event import DeliveredEvent

NAME = "raw_events"


class RawEvents(RawEventReads, LandedTable):
    """A handle on one snapshot of `raw_events`."""

    def __init__(self, table: Table, warehouse: Warehouse) -> None:
        self.table = table
        self._warehouse = warehouse

    @classmethod
    def open(cls, warehouse: Warehouse) -> RawEvents:
        """Return the newest snapshot; the table is created when it does not exist."""
        return cls(Table.open_or_create(warehouse, NAME, RAW_EVENTS, partition_by=["entity_name"]), warehouse)

    def skip_to(self, channel: str, position: int) -> None:
        """Give no event of the channel a position up to this one, from now on. Raises `ConcurrentCommit`."""
        checkpoint = self.checkpoint(channel)
        if checkpoint.position < position:
            self.note(replace(checkpoint, position=position))

    def _taken(self, channel: str, checkpoint: StoredCheckpoint) -> list[Delivery]:
        """Return the events of the replay id that may be unfinished, in the order in which they came."""
        first, last = checkpoint.open_from, checkpoint.position
        if not first:
            return []
        rows = self.table.scan(
            ["position", "replay_id", "event_id", "payload"],
            f"channel = {literal(channel)} and position >= {first} and position <= {last}",
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


def payloads(warehouse: Warehouse, entity: str, channel: str, positions: Sequence[int]) -> list[dict[str, Any]]:
    """`position`, `schema_id` and `payload` of the entity's events at these positions (few), in position order."""
    listed = ", ".join(str(position) for position in positions)
    rows = RawEvents.open(warehouse).table.scan(
        ["position", "schema_id", "payload"], f"{of_entity(entity, channel)} and position in ({listed})"
    )
    return sorted(rows.to_pylist(), key=lambda row: row["position"])
