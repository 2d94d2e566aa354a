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

from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.tables.event_table import landed_table
from sfcdc_assets.lake.tables.landed_table import LandedTable
from sfcdc_assets.lake.tables.lost_checkpoints import lose_checkpoint
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.channel_kinds import kind_of
from sfcdc_assets.streams.checkpoint import COMETD, EARLIEST, LATEST, StreamCheckpoint
from sfcdc_assets.streams.delivered_event import DeliveredEvent, ReplayStart
from sfcdc_assets.streams.resume import ResumePoint

MARGIN_MS = 2 * 3_600_000
"""Of the time for which events are kept: a stream that was last heard of longer ago may have lost some."""

CLOCKS_DIFFER_MS = 10_000
"""How far the org's clock may be from ours, at most."""

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
    waited: dict[str, float] = field(default_factory=dict)
    """Entity -> seconds from a commit in the org until it was landed, of the one for which that took longest."""
    quarantined: int = 0
    deliveries: int = 0
    """Events that the org sent since the last report, those included that were landed before: what it meters."""
    repeats: int = 0
    """Of the deliveries, those of events that had come before: to this reader, to another, or landed already."""
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

    def add(self, landed: LandingReport) -> None:
        """Count in what one commit has landed."""
        self.events += landed.events
        for entity, seconds in landed.waited.items():
            self.waited[entity] = max(seconds, self.waited.get(entity, seconds))
        self.quarantined += landed.quarantined
        self.api_requests += landed.api_requests
        self.complete_through_ms = max(self.complete_through_ms, landed.complete_through_ms)

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
        """Return whether the channel's table is there, so that nothing is created by asking where the channel
        stands."""
        return True

    def checkpoint(self) -> tuple[StreamCheckpoint, int | None]:
        """Return how far the channel was landed, by anybody, and when its checkpoint was last moved (epoch ms, UTC)."""
        table = self._table()
        return table.checkpoint(self._channel), table.landed_at_ms(self._channel)

    def position(self) -> int:
        """Return the last position given out, by anybody; quicker to ask for than the whole checkpoint."""
        return self._table().last_position(self._channel)

    def begin(self, checkpoint: StreamCheckpoint, begun: str, transport: str) -> StreamCheckpoint:
        """Note where a channel without a checkpoint is begun, before anything is read: a read of the org may have its
        watermark to an empty channel that is read from its earliest event on."""
        table = self._table()
        if table.checkpoint(self._channel) != checkpoint:
            raise ConcurrentCommit(table.table.name, f"{self._channel} was begun by another process")
        noted = replace(checkpoint, begun=begun, begun_at_ms=clock.now_ms(), transport=transport)
        table.note(noted)
        return noted

    def start(self, checkpoint: StreamCheckpoint, *, is_new: bool) -> ReplayStart:
        """Return where the stream of a channel starts for as long as no replay id is known; `is_new`: it was never
        read.

        What only the stream brings is begun at LATEST once, at the moment that the checkpoint names. From then on it is
        begun with the earliest event that is kept: else what came in between would be lost.
        """
        if checkpoint.begun != LATEST:
            return ReplayStart.EARLIEST
        if self.is_in_the_org:
            return ReplayStart.LATEST
        return ReplayStart.LATEST_ONCE if is_new else ReplayStart.EARLIEST

    def begin_again_complete(self, checkpoint: StreamCheckpoint) -> StreamCheckpoint | None:
        """Go on with the earliest event that is kept, where the resume point is refused only because nothing came after
        it for longer than events are kept; None where events may be missing.

        Over CometD a stream without events gives no new replay id. A connect that was held and brought nothing says
        that nothing had come until then: whatever came since is kept if that was no longer ago than events are.
        """
        kept_ms, known_ms = kind_of(self._channel).retention_ms - MARGIN_MS, checkpoint.resume.known_at_ms or 0
        now_ms = clock.now_ms()
        if checkpoint.transport != COMETD or now_ms - known_ms > kept_ms:
            return None
        table = self._table()
        newest_ms = table.newest_received_ms(self._channel)
        if newest_ms is None or now_ms - newest_ms < kept_ms:
            return None
        again = replace(
            checkpoint, resume=ResumePoint(None, known_ms), transaction_key=None, begun=EARLIEST, begun_at_ms=now_ms
        )
        table.note(again)
        return again

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
        *,
        complete: bool,
        report: LandingReport,
    ) -> StreamCheckpoint:
        """Land `events` on top of `before`; returns the checkpoint after them. `complete`: nothing follows that belongs
        to the last transaction.

        Raises `ConcurrentCommit` when the channel's checkpoint is not `before` any more: then nothing was landed.
        """

    def type_waiting(self) -> None:  # noqa: B027 - most kinds of event are typed by whoever reads their table
        """Type what landed before it was known what its fields are, as far as that is known now: without the stream,
        and after pauses that grow. Raises what typing fails at."""

    def resume_point(
        self,
        taken: ResumePoint,
        known: ResumePoint,  # noqa: ARG002 - for a landing that remembers more
        events: Sequence[DeliveredEvent],  # noqa: ARG002
    ) -> ResumePoint:
        """Return what to remember of where the stream goes on: the subscription has come to `taken`, `known` is
        remembered already, and `events` are those in between."""
        return taken

    @abstractmethod
    def is_made_after(self, event: DeliveredEvent, moment_ms: int) -> bool:
        """Return whether the org committed or made an event at or after a moment (epoch ms, UTC). Only a rule for when
        to stop reading: whatever the clocks say, the next reading goes on from here."""

    def _table(self) -> LandedTable:
        return landed_table(self._warehouse, self._channel)

    def _check_standing(self, table: LandedTable, before: StreamCheckpoint) -> None:
        """Raise `ConcurrentCommit` when the channel is not where its reader left it."""
        position, begun = table.stands_at(self._channel)
        if (position, begun) != (before.position, before.begun):
            raise ConcurrentCommit(table.table.name, f"{self._channel} was landed up to position {position} meanwhile")


def is_enough(waiting: Sequence[DeliveredEvent], payload_bytes: int) -> bool:
    """Return whether to commit now although more events are coming."""
    return len(waiting) >= COMMIT_EVENTS or payload_bytes >= COMMIT_BYTES
