"""A lost checkpoint is a planned event (guarantee 9).

A replay id that the org refuses (it expired, the org moved), another instance, and another organization id that was
accepted say that events may be missing. Then the channel's order is broken at a position of its own, each of its
entities comes into doubt as a whole at that position, and so is read again by a new snapshot. Nothing is ever resumed
at LATEST silently.

A channel with a table of its own has no entities: its stream is begun again at the earliest event that Salesforce
keeps, and what is there already is not landed again. Nothing else can say what was published meanwhile and is not kept
any more, so a loss after longer than that is reported as one (`KnownLoss.may_miss_events`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sfcdc_assets.channel_kinds import carries_changes, kind_of
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.gap_reconciliation import ENTITY, LAYER, Ledger
from sfcdc_assets.lake.landed_table import LandedTable
from sfcdc_assets.lake.lost_checkpoints import LostCheckpoint, lost_checkpoints, note_lost_checkpoint
from sfcdc_assets.lake.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.side_by_side import all_side_by_side
from sfcdc_assets.state.doubt import Doubt, NewDoubt
from sfcdc_assets.streams.checkpoint import StreamCheckpoint


def lose_checkpoint(
    warehouse: Warehouse,
    table: LandedTable,
    checkpoint: StreamCheckpoint,
    reason: str,
    now_ms: int,
) -> StreamCheckpoint:
    """Put the channel's entities in doubt, then break its order; returns the checkpoint to go on from.

    In this sequence, so that a crash in between repeats all of it: a doubt that is open already is not opened twice,
    and a checkpoint that is known as lost is not noted twice. Who knows of a lost checkpoint finds its doubts.
    """
    position = checkpoint.position + 1
    for entity in entities_of_channel(warehouse, checkpoint.channel):
        doubt = NewDoubt(ENTITY, Doubt.LOST_CHECKPOINT, position, reason)
        Ledger.open_or_create(warehouse, entity).note([doubt], checkpoint.channel, position, now_ms)
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
        if carries_changes(self.checkpoint.channel):
            return False
        landed, lost = self.checkpoint.last_landed_at, self.checkpoint.lost_at
        return landed is not None and lost - landed > timedelta(milliseconds=kept_ms)

    def __str__(self) -> str:
        """What was lost, and what became of it."""
        lost = self.checkpoint
        said = f"{lost.channel}: the checkpoint was lost at position {lost.position} ({lost.reason.rstrip('.')}); "
        if carries_changes(lost.channel):
            if self.is_bridged:
                return f"{said}every entity was read again since."
            waiting = ", ".join(self.waiting)
            return f"{said}not read again yet: {waiting}. The next `sfcdc sync` goes on with that."
        said += "the stream was begun again at the earliest event that Salesforce keeps"
        if not self.may_miss_events:
            return f"{said}, and none is missing."
        return f"{said}; events from {lost.last_landed_at:%Y-%m-%d %H:%M} UTC on that it no longer keeps are missing."


def known_losses(warehouse: Warehouse, channel: str) -> list[KnownLoss]:
    """Every lost checkpoint of a channel, newest first. An entity waits for as long as the doubt that it raised is
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
    """At which of the lost checkpoints the entity came into a doubt that is open."""
    try:
        ledger = Ledger.open(warehouse, entity)
        doubts = ledger.open_doubts(of_the_entity=True) if ledger else []
    except TableDamaged:
        return positions
    mine = [each for each in doubts if (each.reason, each.channel) == (Doubt.LOST_CHECKPOINT, channel)]
    return [each.opened_position for each in mine]


def entities_of_channel(warehouse: Warehouse, channel: str) -> tuple[str, ...]:
    """Entities whose rows rest on the channel's events: copied at a position of it, or being copied."""
    found = []
    for entity in warehouse.entities("snapshot"):
        taken = Snapshots.open(warehouse, entity)
        if taken is not None and (taken.has_watermark_on(channel) or taken.begun_on(channel)):
            found.append(entity)
    return tuple(found)
