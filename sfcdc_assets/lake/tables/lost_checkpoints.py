"""`lost_checkpoints`: every time a channel's checkpoint was lost, one row each, kept for good."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter

import pyarrow as pa

from sfcdc_assets.lake.delta.conditions import literal
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables.gap_reconciliation import ENTITY, LAYER, Ledger, open_suspects
from sfcdc_assets.lake.tables.landed_table import LandedTable
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.concurrency import all_side_by_side
from sfcdc_assets.runtime.times import utc, utc_or_none
from sfcdc_assets.settings.channel_kinds import feeds_entities, kind_of
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.timeline.suspect import NewSuspect, Reason

NAME = "lost_checkpoints"

_TIME = pa.timestamp("us", "UTC")

LOST_CHECKPOINTS = pa.schema(
    [
        ("channel", pa.string()),
        ("position", pa.int64()),
        ("reason", pa.string()),
        ("lost_at", _TIME),
        ("last_landed_at", _TIME),
    ]
)
"""`position`: that of the break in the channel's order; `lost_at`: when the org refused the checkpoint, by our clock;
`last_landed_at`: when the channel was last landed before. What happened between the two is read from the org."""


@dataclass(frozen=True)
class LostCheckpoint:
    """One row."""

    channel: str
    position: int
    reason: str
    lost_at: datetime
    last_landed_at: datetime | None


def note_lost_checkpoint(
    warehouse: Warehouse, channel: str, position: int, reason: str, at_ms: int, landed_ms: int | None
) -> None:
    """Keep a lost checkpoint, before the order is broken there: a repetition after a crash finds it."""
    if any(checkpoint.position == position for checkpoint in lost_checkpoints(warehouse, channel)):
        return
    row = {
        "channel": channel,
        "position": position,
        "reason": reason,
        "lost_at": utc(at_ms),
        "last_landed_at": utc_or_none(landed_ms),
    }
    table = Table.open_or_create(warehouse, NAME, LOST_CHECKPOINTS)
    table.append(pa.Table.from_pylist([row], schema=LOST_CHECKPOINTS), {channel: position}, {})


def lost_checkpoints(warehouse: Warehouse, channel: str) -> list[LostCheckpoint]:
    """All of a channel, newest first."""
    table = Table.open(warehouse, NAME)
    if table is None:
        return []
    rows = table.rows(predicate=f"channel = {literal(channel)}")
    return sorted((LostCheckpoint(**row) for row in rows), key=attrgetter("position"), reverse=True)


def lose_checkpoint(
    warehouse: Warehouse,
    table: LandedTable,
    checkpoint: StreamCheckpoint,
    reason: str,
    now_ms: int,
) -> StreamCheckpoint:
    """Make the channel's entities suspect, then break its order; returns the checkpoint to go on from.

    In this sequence, so that a crash in between repeats all of it: an entry that is open already is not opened twice,
    and a checkpoint that is known as lost is not noted twice. Who knows of a lost checkpoint finds its entries.
    """
    position = checkpoint.position + 1
    for entity in entities_of_channel(warehouse, checkpoint.channel):
        suspect = NewSuspect(ENTITY, Reason.LOST_CHECKPOINT, position, reason)
        with suppress(TableDamaged):  # what mends a ledger reads the entity again
            Ledger.open_or_create(warehouse, entity).note([suspect], checkpoint.channel, position, now_ms)
    note_lost_checkpoint(
        warehouse, checkpoint.channel, position, reason, now_ms, table.landed_at_ms(checkpoint.channel)
    )
    return table.lose_checkpoint(checkpoint)


@dataclass(frozen=True)
class KnownLoss:
    """A lost checkpoint, and the entities that were not read again since."""

    checkpoint: LostCheckpoint
    waiting: tuple[str, ...]

    @property
    def is_bridged(self) -> bool:
        """Whether all tables have been read again since, or where nothing can be read again, whether all events that
        may have been published meanwhile were still kept when the stream was begun again."""
        return not self.waiting and not self.may_miss_events

    @property
    def may_miss_events(self) -> bool:
        """Whether events of a channel without entities may have been deleted before they were landed."""
        kept_ms = kind_of(self.checkpoint.channel).retention_ms
        if feeds_entities(self.checkpoint.channel):
            return False
        landed, lost = self.checkpoint.last_landed_at, self.checkpoint.lost_at
        return landed is not None and lost - landed > timedelta(milliseconds=kept_ms)

    def __str__(self) -> str:
        """Say what was lost, and what became of it."""
        lost = self.checkpoint
        said = f"{lost.channel}: the checkpoint was lost at position {lost.position} ({lost.reason.rstrip('.')}); "
        if feeds_entities(lost.channel):
            if self.is_bridged:
                return f"{said}every entity was read again since."
            waiting = ", ".join(self.waiting)
            return f"{said}not read again yet: {waiting}. The next `sfcdc sync` goes on with that."
        said += "the stream was begun again at the earliest event that Salesforce keeps"
        if not self.may_miss_events:
            return f"{said}, and none is missing."
        return f"{said}; events from {lost.last_landed_at:%Y-%m-%d %H:%M} UTC on that it no longer keeps are missing."


def known_losses(warehouse: Warehouse, channel: str) -> list[KnownLoss]:
    """Every lost checkpoint of a channel, newest first. An entity waits for as long as the entry that it raised is
    open, or cannot be read."""
    checkpoints = lost_checkpoints(warehouse, channel)
    waiting: dict[int, list[str]] = {checkpoint.position: [] for checkpoint in checkpoints}
    entities, positions = warehouse.entities(LAYER) if checkpoints else (), list(waiting)
    found = all_side_by_side(
        lambda entity: _open_since(warehouse, entity, channel, positions), entities, warehouse.looks_at_once
    )
    for entity, opened in zip(entities, found, strict=True):
        for position in opened:
            waiting.setdefault(position, []).append(entity)
    return [KnownLoss(checkpoint, tuple(waiting[checkpoint.position])) for checkpoint in checkpoints]


def _open_since(warehouse: Warehouse, entity: str, channel: str, positions: Sequence[int]) -> Sequence[int]:
    """Return at which of the lost checkpoints the entity became suspect and still is."""
    try:
        suspects = open_suspects(warehouse, entity, of_the_entity=True)
    except TableDamaged:
        return positions
    mine = [each for each in suspects if (each.reason, each.channel) == (Reason.LOST_CHECKPOINT, channel)]
    return [each.opened_position for each in mine]


def entities_of_channel(warehouse: Warehouse, channel: str) -> tuple[str, ...]:
    """Entities whose rows rest on the channel's events."""
    return tuple(entity for entity in warehouse.entities("snapshot") if rests_on(warehouse, entity, channel))


def channels_of_entities(warehouse: Warehouse) -> tuple[str, ...]:
    """Channels whose events, or polls, the rows of some entity rest on, whatever feeds it by now; those of entities
    that can be read."""
    found: dict[str, None] = {}
    for entity in warehouse.entities("snapshot"):
        with suppress(TableDamaged):
            taken = Snapshots.open(warehouse, entity)
            channel = taken.channel() if taken is not None else None
            if channel is not None:
                found[channel] = None
    return tuple(found)


def rests_on(warehouse: Warehouse, entity: str, channel: str) -> bool:
    """Return whether an entity was copied at a position of the channel, or is being copied; it may have been where that
    cannot be read."""
    try:
        taken = Snapshots.open(warehouse, entity)
    except TableDamaged:
        return True
    return taken is not None and (taken.has_watermark_on(channel) or taken.begun_on(channel))
