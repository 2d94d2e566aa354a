"""What is open about a record, or about an entity as a whole: when the org may be asked, and what waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfcdc_assets.runtime.doubling import doubled
from sfcdc_assets.timeline.suspect import Reason
from sfcdc_assets.timeline.suspect_behaviour import BEHAVIOUR, NOT_BLOCKING, REFUSED_READS

ENTITY = "*"
"""The record id of an entry about a whole entity."""
FIRST_PAUSE_MS = 30_000
LONGEST_PAUSE_MS = 3_600_000
"""Pauses between reads of the org that fail, in milliseconds."""
NOT_BELIEVED = "not believed: "
"""How `last_error` begins where the org does not show a record and too many others with it."""
LISTED_AS_DELETED = "the org lists it as deleted"
"""The `detail` of a record that the org lists so: it is gone if the org does not show it either, and however many
others are with it."""


@dataclass(frozen=True)
class OpenSuspect:
    """An entry that is not healed yet; times are epoch ms, UTC."""

    record_id: str
    reason: Reason
    detail: str | None
    channel: str
    opened_position: int
    opened_at: int
    attempts: int
    last_attempt_at: int | None
    last_error: str | None

    def position_on(self, channel: str) -> int:
        """Return where on this channel it was opened. 0 for one that was opened on another, before the entity's channel
        changed: the snapshot that the change asks for comes after it."""
        return self.opened_position if self.channel == channel else 0

    @property
    def due_at(self) -> int:
        """When the org may be asked (again), epoch ms: at once at first, then after pauses that double."""
        if self.last_attempt_at is None:
            return 0
        first, longest = BEHAVIOUR[self.reason].pauses_ms or (FIRST_PAUSE_MS, LONGEST_PAUSE_MS)
        return self.last_attempt_at + int(doubled(first, longest, max(1, self.attempts)))

    def is_due(self, now_ms: int) -> bool:
        """Return whether the org may be asked now. One that was asked later than now is due: a clock that was ahead has
        been set back."""
        return self.due_at <= now_ms or (self.last_attempt_at or 0) > now_ms

    @property
    def settles_at(self) -> int:
        """From when on (epoch ms) a read answers it."""
        return self.opened_at + BEHAVIOUR[self.reason].settles_ms

    @property
    def refuses_a_read(self) -> bool:
        """It speaks of a read of the entity that was refused or not believed."""
        return self.record_id == ENTITY and self.reason in REFUSED_READS

    @property
    def not_believed(self) -> bool:
        """The org did not show the record, and too many others with it."""
        return (self.last_error or "").startswith(NOT_BELIEVED)


def due(suspects: Sequence[OpenSuspect], now_ms: int) -> list[OpenSuspect]:
    """Return the entries about records for which the org may be asked now."""
    return [suspect for suspect in suspects if suspect.record_id != ENTITY and suspect.is_due(now_ms)]


def entity_suspects(suspects: Sequence[OpenSuspect], channel: str, watermark: int) -> list[int]:
    """Positions of the open entries about the entity that a snapshot with a watermark at `watermark` of `channel` does
    not answer."""
    of_entity = [suspect for suspect in suspects if suspect.record_id == ENTITY and not suspect.refuses_a_read]
    opened = [suspect.position_on(channel) for suspect in of_entity]
    return [position for position in opened if position > watermark]


def blocking_suspects(suspects: Sequence[OpenSuspect], channel: str, watermark: int) -> list[int]:
    """Return those of them that events wait for. A field that is new makes nothing else suspect: events go on, and the
    snapshot brings what records had in it before."""
    return entity_suspects([suspect for suspect in suspects if suspect.reason not in NOT_BLOCKING], channel, watermark)
