"""Which entities there are, which channel's events are applied for each, and what waits to be done.

Everything is told by the tables (and by the org's channel members), never by Dagster's memory, so work that failed or
was forgotten is found again by whoever looks next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sfcdc_assets.lake.current_state import CurrentState
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse


def entity_channels(
    warehouse: Warehouse,
    channels: Sequence[str],
    wanted: Sequence[str],
    members: Callable[[str], Sequence[str] | None],
) -> dict[str, str]:
    """Entity -> the channel whose events are applied to it, in the order the entities became known.

    A channel's entities are those the org lists as its members and those the stream has named. Where two channels
    carry an entity the first in `channels` counts, so that each event is applied once. `wanted` filters, if not empty.
    """
    raw_events = RawEvents.open(warehouse)
    found: dict[str, str] = {}
    for channel in channels:
        for entity in (*(members(channel) or ()), *sorted(raw_events.last_positions(channel))):
            if not wanted or entity in wanted:
                found.setdefault(entity, channel)
    return found


@dataclass(frozen=True)
class EntityState:
    """How far an entity has come: positions landed, complete and applied; numbers of snapshots complete and applied."""

    entity: str
    channel: str
    landed: int
    complete: int
    applied: int | None
    snapshot_complete: int
    snapshot_applied: int

    @property
    def needs_snapshot(self) -> bool:
        """No complete snapshot was ever taken."""
        return self.snapshot_complete == 0

    @property
    def has_work(self) -> bool:
        """Complete events, or a complete snapshot, are not in the table yet."""
        if self.needs_snapshot:
            return False
        return self.snapshot_complete > self.snapshot_applied or (self.applied or 0) < min(self.landed, self.complete)


def entity_states(warehouse: Warehouse, channels: dict[str, str]) -> list[EntityState]:
    """The state of each entity of `entity_channels`, from table logs alone (no rows are read)."""
    raw_events = RawEvents.open(warehouse)
    landed = {channel: raw_events.last_positions(channel) for channel in set(channels.values())}
    complete = {channel: raw_events.complete_position(channel) for channel in landed}
    states = []
    for entity, channel in channels.items():
        table = CurrentState.open(warehouse, entity)
        snapshots = Snapshots.open(warehouse, entity)
        snapshot = snapshots.table.transaction_version("complete") if snapshots else None
        states.append(
            EntityState(
                entity,
                channel,
                landed=landed[channel].get(entity, 0),
                complete=complete[channel],
                applied=table.applied(channel) if table else None,
                snapshot_complete=snapshot or 0,
                snapshot_applied=table.snapshot_number() if table else 0,
            )
        )
    return states
