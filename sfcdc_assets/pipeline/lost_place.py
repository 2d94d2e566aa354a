"""A lost place is a planned event (guarantee 9).

A replay id that the org refuses (it expired, the org moved), another instance, and another organization id that was
accepted say that events may be missing. Then the channel's order is broken at a position of its own, each of its
entities comes into doubt as a whole at that position, and so is read again by a new snapshot. Nothing is ever resumed
at LATEST silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfcdc_assets.change_events.landing import StreamPlace
from sfcdc_assets.lake.gap_reconciliation import ENTITY, Ledger
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.state.doubt import Doubt


def lose_place(
    warehouse: Warehouse,
    raw_events: RawEvents,
    place: StreamPlace,
    reason: str,
    organization_id: str,
    now_ms: int,
) -> StreamPlace:
    """Put the channel's entities in doubt, then break its order; returns the place to go on from.

    In this sequence, so that a crash between the two repeats both: a doubt that is open already is not opened twice.
    """
    position = place.position + 1
    for entity in entities_of_channel(warehouse, place.channel):
        doubt = {"record_id": ENTITY, "reason": Doubt.LOST_PLACE.value, "position": position, "detail": reason}
        Ledger.open_or_create(warehouse, entity).note([doubt], place.channel, position, now_ms)
    lost: Mapping[str, Any] = {
        "reason": reason,
        "lost_at": now_ms,
        "last_landed_at": raw_events.landed_at_ms(place.channel),
    }
    return raw_events.lose_place(place, lost, organization_id)


def entities_of_channel(warehouse: Warehouse, channel: str) -> tuple[str, ...]:
    """Entities whose rows rest on the channel's events: copied at a position of it, or being copied."""
    found = []
    for entity in warehouse.entities("snapshot"):
        taken = Snapshots.open(warehouse, entity)
        if taken is not None and (taken.pinned_on(channel) or taken.begun_on(channel)):
            found.append(entity)
    return tuple(found)
