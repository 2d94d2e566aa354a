"""Landing: what a channel's subscription brought goes into the channel's table, at once and once.

The events, the checkpoint and the point to resume from are one commit. Whoever reads a channel (a sensor's tick, a run
that a person launched, `sfcdc sync`) lands with this; two that read the same channel meet only here, where the second
finds that the checkpoint has moved and starts again from there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from sfcdc_assets import clock
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.event_table import landed_table
from sfcdc_assets.lake.landed_table import LandedTable
from sfcdc_assets.lake.retry_on_conflict import retry_on_conflict
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.landing.lost_checkpoint import lose_checkpoint
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.resume import ResumePoint

COMMIT_EVENTS = 10_000
COMMIT_BYTES = 16 * 1024 * 1024
"""Events, and bytes of their payloads, gathered before a commit while more are coming: what a transaction of any size
costs in memory. An event may have up to 1 MB."""


@dataclass
class LandingReport:
    """What a reading of a channel brought: events by entity (of channels with a table of their own, by its folder), how
    many were quarantined, and the checkpoint after it."""

    channel: str
    events: Counter[str] = field(default_factory=Counter)
    oldest: dict[str, datetime] = field(default_factory=dict)
    """Entity -> when the org committed the first of them."""
    quarantined: int = 0
    deliveries: int = 0
    """Events that the org sent since the last report, those included that were landed before: what it meters."""
    api_requests: int = 0
    """Requests to the org's REST side that this reading took."""
    position: int = 0
    complete_position: int = 0
    complete_through_ms: int = 0
    """All that the org committed before this (epoch ms, UTC) is landed, at or before `complete_position`."""
    has_checkpoint: bool = False
    """False while a start at LATEST has not shown where it was: nothing can have its watermark to the channel yet."""
    has_answered: bool = True
    """Whether the stream was heard of since its call was begun: without an answer nothing is known of what it holds."""
    lost_checkpoint: str | None = None
    """Why the channel's checkpoint was lost, if it was: its entities are read again."""

    @property
    def count(self) -> int:
        """Events landed, those in quarantine included."""
        return sum(self.events.values()) + self.quarantined

    @property
    def is_complete(self) -> bool:
        """Whether the last transaction landed is known to be whole."""
        return self.position == self.complete_position


class Landing(ABC):
    """Lands one channel of an org into a warehouse. What differs by the channel's kind is what its rows are."""

    is_in_the_org = True
    """Whether a read of the org brings what the stream has brought too, so that events may be passed over."""

    def __init__(self, warehouse: Warehouse, org: OrgConnection, channel: str, run_id: str = "") -> None:
        """`run_id`: the run of Dagster that lands; none where a sensor or a command does."""
        self._warehouse = warehouse
        self._org = org
        self._channel = channel
        self._run_id = run_id

    def has_table(self) -> bool:
        """Whether the channel's table is there, so that nothing is created by asking where the channel stands."""
        return True

    def checkpoint(self) -> tuple[StreamCheckpoint, int | None]:
        """How far the channel was landed, by anybody, and when its checkpoint was last moved (epoch ms, UTC)."""
        table = self._table()
        return table.checkpoint(self._channel), table.landed_at_ms(self._channel)

    @retry_on_conflict
    def upgrade(self) -> None:
        """Keep what an older release noted of the channel in today's form."""
        self._table().upgrade(self._channel)

    def position(self) -> int:
        """The last position given out, by anybody; quicker to ask for than the whole checkpoint."""
        return self._table().given_out(self._channel)

    def begin(self, checkpoint: StreamCheckpoint, begun: str, transport: str) -> StreamCheckpoint:
        """Note where a channel without a checkpoint is begun, before anything is read: a read of the org may have its
        watermark to an empty channel that is read from its earliest event on."""
        table = self._table()
        if table.checkpoint(self._channel) != checkpoint:
            raise ConcurrentCommit(table.table.name, f"{self._channel} was begun by another process")
        noted = replace(checkpoint, begun=begun, begun_at_ms=clock.now_ms(), transport=transport)
        table.note(noted)
        return noted

    def lose(self, reason: str) -> StreamCheckpoint:
        """Break the channel's order; returns the checkpoint to go on from. See `lost_checkpoint`."""
        table = self._table()
        return lose_checkpoint(self._warehouse, table, table.checkpoint(self._channel), reason, clock.now_ms())

    @abstractmethod
    def commit(
        self,
        before: StreamCheckpoint,
        events: Sequence[DeliveredEvent],
        resume: ResumePoint,
        complete: bool,
        report: LandingReport,
    ) -> StreamCheckpoint:
        """Land `events` on top of `before`; returns the checkpoint after them. `complete`: nothing follows that belongs
        to the last transaction.

        Raises `ConcurrentCommit` when the channel's checkpoint is not `before` any more: then nothing was landed.
        """

    def resume_point(self, taken: ResumePoint, known: ResumePoint, events: Sequence[DeliveredEvent]) -> ResumePoint:
        """What to remember of where the stream goes on: the subscription has come to `taken`, `known` is remembered
        already, and `events` are those in between."""
        return taken

    @abstractmethod
    def is_made_after(self, event: DeliveredEvent, moment_ms: int) -> bool:
        """Whether the org committed or made an event at or after a moment (epoch ms, UTC). Only a rule for when to stop
        reading: whatever the clocks say, the next reading goes on from here."""

    def _table(self) -> LandedTable:
        return landed_table(self._warehouse, self._channel)

    def _check_standing(self, table: LandedTable, before: StreamCheckpoint) -> None:
        """Raise `ConcurrentCommit` when the channel is not where its reader left it."""
        position, begun = table.stands_at(self._channel)
        if (position, begun) != (before.position, before.begun):
            raise ConcurrentCommit(table.table.name, f"{self._channel} was landed up to position {position} meanwhile")


def is_enough(waiting: Sequence[DeliveredEvent], payload_bytes: int) -> bool:
    """Whether to commit now although more events are coming."""
    return len(waiting) >= COMMIT_EVENTS or payload_bytes >= COMMIT_BYTES
