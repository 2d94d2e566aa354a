"""How far each entity's table is behind: the age of the oldest event that has landed and is not applied, and of a
polled object for how long what was read has been waiting."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.compute as pc

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables import current_state
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.damage import of_readable
from sfcdc_assets.lake.tables.raw_events import NAME, RawEvents
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.channel_kinds import POLLED, is_polled
from sfcdc_assets.settings.settings import Settings


@dataclass(frozen=True)
class EntityLag:
    """Events of an entity that wait to be applied, and how long ago the org committed the oldest of them; of a polled
    object the records that were read, and for how long the first of them has been waiting. `kind`: what one is."""

    entity: str
    events: int
    seconds: float
    kind: str = "event"

    @property
    def begins(self) -> str:
        """What was done with the oldest so long ago."""
        return "committed" if self.kind == "event" else "read"

    def is_late(self, settings: Settings) -> bool:
        """Return whether the entity is late by SFCDC_FRESHNESS_MINUTES."""
        return self.seconds > settings.freshness_minutes * 60


def lags(warehouse: Warehouse, settings: Settings, now_ms: int) -> list[EntityLag]:
    """One for each entity that has a table, where anything was landed. Reads the log of raw_events, and of the waiting
    events their times."""
    table = Table.open(warehouse, NAME)
    if table is None:
        return []
    raw_events = RawEvents(table, warehouse)
    landed = {channel: raw_events.last_positions(channel) for channel in settings.feeding_channels}
    wanted = [
        entity
        for entity in warehouse.entities(current_state.LAYER)
        if not settings.entities or entity in settings.entities
    ]

    def lag(entity: str) -> EntityLag:
        return _lag(warehouse, raw_events, landed, entity, now_ms)

    return list(of_readable(lag, wanted, warehouse.looks_at_once).values())


def _lag(
    warehouse: Warehouse, raw_events: RawEvents, landed: dict[str, dict[str, int]], entity: str, now_ms: int
) -> EntityLag:
    table, taken = CurrentState.open(warehouse, entity), Snapshots.open(warehouse, entity)
    channel = next((name for name in landed if taken is not None and taken.has_watermark_on(name)), None)
    if table is None or taken is None or channel is None:
        return EntityLag(entity, 0, 0.0)
    if is_polled(channel):
        return EntityLag(entity, *waiting_reads(taken, table, now_ms), "polled record")
    after, up_to = max(table.applied(channel) or 0, taken.watermark()), landed[channel].get(entity, 0)
    if up_to <= after:
        return EntityLag(entity, 0, 0.0)
    return EntityLag(entity, *waiting(raw_events, entity, channel, after, up_to, now_ms))


def waiting_reads(taken: Snapshots, table: CurrentState, now_ms: int) -> tuple[int, float]:
    """Return how many rows of a polled object were read, by polls or one by one, and are not in its table, and for how
    many seconds the first of them has been waiting."""
    times = taken.read_since(table.checkpoint(POLLED).read_back)
    oldest = pc.min(times).as_py()
    return len(times), max(0.0, now_ms / 1000 - oldest.timestamp()) if oldest else 0.0


def waiting(raw_events: RawEvents, entity: str, channel: str, after: int, up_to: int, now_ms: int) -> tuple[int, float]:
    """Return how many events of an entity lie after a position, up to another, and for how many seconds the oldest of
    them has been waiting. Reads their times alone."""
    times = raw_events.headers(entity, channel, ["commit_timestamp"], after=after, up_to=up_to)["commit_timestamp"]
    oldest = pc.min(times).as_py()
    return len(times), max(0.0, now_ms / 1000 - oldest.timestamp()) if oldest else 0.0
