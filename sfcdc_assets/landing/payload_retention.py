"""Delete payloads of `raw_events` that are past their retention and that nothing will read again.

Every layer can be rebuilt from the newest complete snapshot and the events after its watermark (guarantee 10), and
nothing reads a payload at or before it: a batch, a repeated batch, a rebuild and a reading of suspect records all
begin at the watermark. So payloads go up to the watermark of a snapshot that every layer has been built from, and no
further. Where older ones than the retention lie behind the watermark, a new snapshot is due; that is one for each time
of retention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sfcdc_assets.entities.entities import entity_states
from sfcdc_assets.entities.entity_state import EntityState
from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.delta.data_files import DataFile
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.quarantine import drop_quarantined_payloads
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import utc

DAY_MS = 86_400_000
NO_LIMIT = 2**63 - 1
CUT_AFTER = timedelta(days=1)
"""How long a payload may stay past its time because the file it is in has others whose time has not come."""


@dataclass(frozen=True)
class DroppedPayloads:
    """Events of an entity on a channel that have no payload any more: how many more than before, and up to where."""

    entity: str
    channel: str
    events: int
    up_to: int


def drop_payloads(warehouse: Warehouse, retention_days: int, now_ms: int) -> list[DroppedPayloads]:
    """Drop what may go, a commit for each entity and channel, and delete files that were replaced a week ago.

    Payloads in quarantine, which nothing reads at all, go by their age alone.
    Raises `ConcurrentCommit` when others were first ten times.
    """
    before = utc(now_ms - retention_days * DAY_MS)
    done = [
        _drop(warehouse, entity, channel, before) for entity, channel in droppable(warehouse, retention_days, now_ms)
    ]
    raw_events = RawEvents.open(warehouse)
    for channel, up_to in raw_events.received_before(before).items():
        drop_quarantined_payloads(warehouse, channel, up_to)
    raw_events.table.vacuum()
    return done


def droppable(warehouse: Warehouse, retention_days: int, now_ms: int) -> list[tuple[str, str]]:
    """Entities and channels with payloads that may go, from the logs of the tables alone."""
    raw_events, before = RawEvents.open(warehouse), utc(now_ms - retention_days * DAY_MS)
    return [key for key in sorted(raw_events.kept_payloads()) if _up_to(warehouse, raw_events, *key, before)]


def seen_by_retention(
    warehouse: Warehouse, states: Sequence[EntityState], retention_days: int | None, now_ms: int
) -> list[EntityState]:
    """Return the states with what the retention asks for: a snapshot where payloads past it lie behind the last one's
    watermark."""
    if retention_days is None:
        return list(states)
    kept, before = RawEvents.open(warehouse).kept_payloads(), utc(now_ms - retention_days * DAY_MS)
    return [replace(state, payloads_overdue=_overdue(state, kept, before)) for state in states]


def _overdue(state: EntityState, kept: dict[tuple[str, str], list[DataFile]], before: datetime) -> bool:
    """Return whether a deletion is overdue, only where a snapshot is in the tables: another would be asked for again
    and again."""
    if not 0 < state.snapshot_complete <= state.snapshot_applied:
        return False
    watermark = state.snapshot_position
    beyond = [
        file for file in kept.get((state.entity, state.channel), ()) if file.statistics["max.position"] > watermark
    ]
    return any(_is_past(file, "max", before) or _is_past(file, "min", before - CUT_AFTER) for file in beyond)


def _is_past(file: DataFile, end: str, before: datetime) -> bool:
    received = file.statistics[f"{end}.received_at"]
    return received is not None and received < before


@retry_on_conflict
def _drop(warehouse: Warehouse, entity: str, channel: str, before: datetime) -> DroppedPayloads:
    raw_events = RawEvents.open(warehouse)
    up_to = _up_to(warehouse, raw_events, entity, channel, before)
    events = raw_events.drop_payloads(entity, channel, up_to) if up_to else 0
    return DroppedPayloads(entity, channel, events, up_to)


def _up_to(warehouse: Warehouse, raw_events: RawEvents, entity: str, channel: str, before: datetime) -> int:
    """Return the position up to which payloads may go; 0 for none.

    It is the end of a file, so that a file is rewritten once, but for a file that goes on beyond what may go and
    whose oldest payload is a day over its time: that one is parted.
    """
    limit, up_to = _limit(warehouse, entity, channel), 0
    for file in raw_events.kept_payloads().get((entity, channel), ()):
        if file.statistics["max.position"] <= limit and _is_past(file, "max", before):
            up_to = max(up_to, file.statistics["max.position"])
            continue
        if _is_past(file, "min", before - CUT_AFTER):
            end = min(limit, file.statistics["max.position"])
            up_to = max(up_to, _within(raw_events, entity, channel, up_to, end, before))
        break
    return up_to


def _within(raw_events: RawEvents, entity: str, channel: str, after: int, end: int, before: datetime) -> int:
    """Return the last position up to which all of the events that still have payloads were received before a time, if
    the first of them was a day before it; 0 otherwise."""
    after = max(after, raw_events.payloads_dropped(entity, channel))
    rows = raw_events.headers(entity, channel, ["position", "received_at"], after=after, up_to=end).sort_by("position")
    last = 0
    for row in rows.to_pylist():
        if row["received_at"] >= (before if last else before - CUT_AFTER):
            break
        last = row["position"]
    return last


def _limit(warehouse: Warehouse, entity: str, channel: str) -> int:
    """Return the position up to which nothing will read the entity's payloads on the channel. What mends a damaged
    table reads all of them."""
    try:
        return _limit_of_sound(warehouse, entity, channel)
    except TableDamaged:
        return 0


def _limit_of_sound(warehouse: Warehouse, entity: str, channel: str) -> int:
    taken, table = Snapshots.open(warehouse, entity), CurrentState.open(warehouse, entity)
    if taken is None:
        # Never copied: a first snapshot has its watermark to what is received then, days after these. Or removed by
        # hand.
        return NO_LIMIT if table is None else 0
    progress = taken.progress()
    (state,) = entity_states(warehouse, {entity: channel})
    is_being_read = progress is not None and not progress.complete
    if is_being_read or not state.snapshot_complete or state.snapshot_applied < state.snapshot_complete:
        return 0
    if not taken.has_watermark_on(channel):
        # The entity's events on a second channel are applied from the first one.
        return NO_LIMIT if table is not None and table.applied(channel) is None else 0
    return state.snapshot_position
