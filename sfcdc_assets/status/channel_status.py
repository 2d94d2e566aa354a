"""How a channel stands: how far it has landed, what waits or was lost, why it is not asked."""

from __future__ import annotations

from dataclasses import replace

from sfcdc_assets.lake.store.pending_events import read_pending
from sfcdc_assets.lake.store.poll_notes import polls_stopped
from sfcdc_assets.lake.tables.damage import DamageSeen
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.landed_table import LandedTable
from sfcdc_assets.lake.tables.lost_checkpoints import KnownLoss, known_losses
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import seconds_text, utc
from sfcdc_assets.settings.channel_kinds import POLLED, table_of
from sfcdc_assets.status.staleness import read_at_ms
from sfcdc_assets.status.status_report import ChannelStatus, EventTableStatus, LostCheckpointStatus


def channel_status(warehouse: Warehouse, table: LandedTable | None, channel: str, damaged: DamageSeen) -> ChannelStatus:
    """Return how far a channel has come by the table that it lands in, None for none yet, and what was lost of it.
    Damage on the way is noted."""
    losses = damaged.unless(lambda: known_losses(warehouse, channel)) or []
    lost = tuple(map(_lost_checkpoint, losses))
    read_at = read_at_ms(warehouse, channel, table)
    status = ChannelStatus(
        channel,
        read_at=seconds_text(utc(read_at)) if read_at else None,
        lost_checkpoint=lost[0] if lost else None,
        lost_checkpoints=lost,
    )
    if channel == POLLED:
        status = _with_stop(warehouse, status)
    if table is None:
        return status
    found = table.stored_checkpoint(channel)
    pending = read_pending(warehouse, channel)
    if pending is not None and pending.events and pending.before.position == found.position:
        status = replace(status, pending=len(pending.events), pending_reason=pending.reason)
    return replace(
        status,
        position=found.position,
        complete_position=found.complete_position,
        replay_id=found.replay_id.hex() or None,
        transport=found.transport if found.begun or found.replay_id else None,
        landed_at=seconds_text(utc(found.landed_at)) if found.landed_at else None,
        repeated_deliveries=found.repeats,
    )


def event_table_status(channel: str, table: EventTable | None, damaged: DamageSeen) -> EventTableStatus:
    """Return how many events of a channel its table has, and what they lack. Damage on the way is noted."""
    status = EventTableStatus(channel, table_of(channel))
    if table is None:
        return status

    def look() -> EventTableStatus:
        newest = table.newest_event()
        moment = seconds_text(newest) if newest else None
        return replace(status, rows=table.table.count(), problems=table.problems(), newest_event=moment)

    return damaged.unless(look) or status


def _lost_checkpoint(loss: KnownLoss) -> LostCheckpointStatus:
    landed = loss.checkpoint.last_landed_at
    return LostCheckpointStatus(
        loss.checkpoint.reason,
        loss.checkpoint.position,
        seconds_text(landed) if landed else None,
        seconds_text(loss.checkpoint.lost_at),
        loss.is_bridged,
        loss.waiting,
    )


def _with_stop(warehouse: Warehouse, status: ChannelStatus) -> ChannelStatus:
    """Return the status of polled objects with why none of them could be asked, where that is so."""
    stopped = polls_stopped(warehouse)
    if stopped is None:
        return status
    return replace(status, stopped_because=stopped.why, stopped_since=seconds_text(utc(stopped.since_ms)))
