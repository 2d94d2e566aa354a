"""How far an entity is, and what there is to do for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sfcdc_assets.lake.tables.damage import Unreadable


@dataclass(frozen=True)
class EntityState:
    """How far an entity has come: positions landed, complete and applied; snapshots complete and applied, the last
    one's watermark and whether that is a position of another channel; read-backs taken and applied; open entries, those
    about records that may be read back now; and the positions of the last unanswered entry about the entity, of the
    first and the last one that events wait for, and of the last one that its rows were marked for.

    Whether payloads past their retention wait for a newer snapshot is shown by `seen_by_retention`."""

    entity: str
    channel: str
    landed: int
    complete: int
    applied: int | None
    snapshot_complete: int
    snapshot_position: int
    channel_changed: bool
    snapshot_applied: int
    read_back_taken: int
    read_back_applied: int
    suspects_open: int
    suspect_records: int
    suspects_due: int
    entity_suspect: int | None
    blocked_from: int | None
    blocked_last: int | None
    suspects_marked: int
    suspects_answered: bool = False
    """An entry about the entity is open that a snapshot in the table has answered: a run ended before it was closed."""
    refused: str | None = None
    """Why the last read of the entity was refused or is not believed; None when nothing is."""
    snapshot_refused: bool = False
    """That read was a snapshot."""
    paused: bool = False
    """It is too early to read the entity again."""
    off_channel: bool = False
    """Its channel does not carry it any more: a snapshot would be out of date with the next change."""
    layout_changed: bool = False
    """Describe says something of its fields that its columns do not follow yet."""
    privacy_changed: bool = False
    """Its tables were written with other settings of privacy."""
    payloads_overdue: bool = False
    read_at: int = 0
    """When the newest of its rows that were read from the org were read (epoch ms)."""
    copied_at: int = 0
    """When its newest snapshot was asked for, by the org's clock (epoch ms); 0 where that is not known."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """Table -> Delta version, of the tables that a consistent cut names."""
    damaged: Unreadable | None = None
    """Why its tables cannot be read. Nothing else is known of it then but what has landed, and nothing is done for it
    until somebody has mended them."""

    @property
    def lacks_snapshot(self) -> bool:
        """No complete snapshot answers for the entity, or a newer one is due."""
        if self.damaged is not None:
            return False
        due = self.channel_changed or self.payloads_overdue
        return self.snapshot_complete == 0 or self.entity_suspect is not None or due

    @property
    def needs_snapshot(self) -> bool:
        """One is to be taken now: it is lacking, or the last one was refused, and no pause after that one is left."""
        return (self.lacks_snapshot or self.snapshot_refused) and not (self.paused or self.off_channel)

    @property
    def has_work(self) -> bool:
        """Complete events, a snapshot or read-backs are not in the table yet, suspect records can be read back, an
        entry is to be closed, fields have changed, or there is something in the tables that may not be there."""
        if self.snapshot_complete == 0 or self.channel_changed:
            return False
        end = self.complete if self.blocked_from is None else min(self.complete, self.blocked_from - 1)
        unmarked = self.blocked_last is not None and self.blocked_last > self.suspects_marked
        waiting = self.pending_reads or self.has_events_up_to(end) or self.suspects_due > 0
        return waiting or unmarked or self.suspects_answered or self.layout_changed or self.privacy_changed

    @property
    def rests(self) -> bool:
        """There is nothing to do for it, and will not be by the lapse of time alone."""
        waits = self.lacks_snapshot or self.snapshot_refused or self.suspects_open or self.refused is not None
        if self.off_channel and self.suspect_records == 0:
            waits = False  # until it is back, which the list of members says
        return not (self.has_work or waits or self.damaged)

    @property
    def pending_reads(self) -> bool:
        """A snapshot or read-backs were read and are not in the table yet."""
        return self.snapshot_complete > self.snapshot_applied or self.read_back_taken > self.read_back_applied

    def has_events_up_to(self, position: int) -> bool:
        """Events at or before a position may not be in the table yet."""
        return max(self.applied or 0, self.snapshot_position) < min(self.landed, position)
