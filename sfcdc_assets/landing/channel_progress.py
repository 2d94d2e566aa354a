"""How far a channel is landed: its durable checkpoint, and what was delivered after it and is not landed yet.

The checkpoint is committed with the events before it, so that they are landed once whoever reads the channel. Where
another process has moved it, this one goes on from there with what is left of its own deliveries.

No silence proves that a transaction or a replay id is complete, only that nothing came. A transaction counts as
complete when an event with another key follows, or when the stream has stayed open, had answered and brought nothing
for the settling time (SFCDC_SETTLE_SECONDS). A shorter silence ends a reading and completes nothing, even if the org
says that there is nothing more: what it has committed is published a moment later, one event after another.
"""

from __future__ import annotations

from dataclasses import replace

from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.land import Landing, LandingReport
from sfcdc_assets.landing.pending import Pending
from sfcdc_assets.landing.stream_start import where_begun, why_unusable
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_connection.same_organization import claim_warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.progress import EventsDelivered, EventsLanded, notify
from sfcdc_assets.streams.checkpoint import StreamCheckpoint, not_landed_yet
from sfcdc_assets.streams.delivered_event import ReplayStart
from sfcdc_assets.streams.transport import Received, Subscription

IDLE_COMMIT_MS = 3_600_000
"""A resume point that only moved (no events) is committed this seldom: ids are good for 72 hours."""


class ChannelProgress:
    """Where one channel stands, to one reader of it."""

    def __init__(
        self,
        warehouse: Warehouse,
        org: OrgConnection,
        landing: Landing,
        channel: str,
        transport: str,
        settle_seconds: float,
    ) -> None:
        """`transport`: the name of the one that the channel is read over."""
        self._warehouse = warehouse
        self._org = org
        self.landing = landing
        self.channel = channel
        self._transport = transport
        self._settle_ms = settle_seconds * 1000
        self.is_placed = False
        """Whether `checkpoint` and `pending` are where the channel stands."""
        self.checkpoint = StreamCheckpoint(channel)
        self._committed_ms: int | None = None
        self.begun = ReplayStart.EARLIEST
        """Where the stream starts for as long as no replay id is known."""
        self.pending = Pending(warehouse, channel)
        self.lost_checkpoint: str | None = None
        """Why the checkpoint was lost, until a report has named it: what follows a loss may fail and be tried again."""
        self._deliveries = self._repeats = 0
        """Events that were sent, and those that had come before, which no report has named yet."""
        self._repeats_to_note = 0
        """The same that no commit has noted yet."""

    def place(self) -> None:
        """Find where the channel stands, and what an earlier reading left; begin a channel that is new."""
        # Whoever gives the warehouse to another organization breaks the channel's order, so that no commit of a reader
        # that is open succeeds: it comes back here.
        claim_warehouse(self._warehouse, self._org.session.organization_id, clock.now_ms())
        self.checkpoint, self._committed_ms = self.landing.checkpoint()
        for reason in why_unusable(self.checkpoint, self.channel, self._transport):
            self.lose(reason)
        is_new = self.checkpoint.resume.replay_id is None and self.checkpoint.begun is None
        if is_new:
            begun = where_begun(self._org, self.landing, self.checkpoint)
            self.checkpoint = self.landing.begin(self.checkpoint, begun, self._transport)
        self.begun = self.landing.start(self.checkpoint, is_new=is_new)
        self.pending.place(self.checkpoint)
        self.is_placed = True

    def forget(self) -> None:
        """Forget where the channel stands: it is found again before the next call is begun."""
        self.is_placed = False
        self.pending.clear()

    def begin_again(self, reason: str) -> None:
        """Go on with the earliest event that is kept, as the org refuses the resume point for a reason: nothing is
        missing (`Landing.begin_again_complete`), or the checkpoint is lost."""
        if self.landing.begin_again_complete(self.checkpoint) is None:
            self.lose(reason)

    def lose(self, reason: str) -> None:
        """Break the channel's order, and say why in the next report. See `lost_checkpoint`."""
        self.lost_checkpoint = reason
        self.checkpoint = self.landing.lose(reason)

    def go_on_from_others(self) -> None:
        """Go on from the durable checkpoint with what is pending and was not landed by whoever moved it. Where the
        order does not tell what that is, all of it comes again, on a new call."""
        durable, self._committed_ms = self.landing.checkpoint()
        pending = self.pending.events
        left = not_landed_yet(pending, self.checkpoint, durable)
        self._repeated(len(pending) - len(left or ()))
        if left is None:
            self.forget()
        else:
            self.pending.events, self.checkpoint = list(left), durable

    def took(self, received: Received) -> None:
        """Take note of a response."""
        self.pending.add(received)
        came = len(received.events) + received.repeats
        if came:
            notify(EventsDelivered(self.channel, came))
            self._deliveries += came
            self._repeated(received.repeats)
        if received.nothing_more and self._is_settled(received.at_ms):
            # Something that was committed within the settling time may still be on its way: it is not published yet.
            # Who waits for no transaction to settle says so with infinite seconds.
            self.pending.is_complete(int(max(0, received.at_ms - self._settle_ms)))

    def commit(self, subscription: Subscription | None, report: LandingReport) -> None:
        """Commit what is new: events, a transaction's end, or a resume point that has not been noted for long.

        Raises `ConcurrentCommit` where another process has moved the checkpoint: then nothing was landed, and what goes
        on from there is pending; or, where that is not known (`is_placed`), comes again on a new call."""
        pending = self.pending
        if subscription is not None:
            pending.resume = subscription.resume_point
        elif not pending.events:
            return
        checkpoint, known, events = self.checkpoint, self.checkpoint.resume, pending.events
        resume = self.landing.resume_point(pending.resume, known, events)
        is_completed = pending.complete and checkpoint.complete_position < checkpoint.position
        # A protocol without replay ids in its keepalives only says that the old one was still the last.
        has_moved = (resume.replay_id, resume.known_at_ms) != (known.replay_id, known.known_at_ms)
        is_due = (resume.replay_id is not None and known.replay_id is None) or (
            has_moved and clock.now_ms() - (self._committed_ms or 0) > IDLE_COMMIT_MS
        )
        if events or is_completed or is_due:
            landed = LandingReport(self.channel)
            before = replace(checkpoint, repeats=checkpoint.repeats + self._repeats_to_note)
            try:
                after = self.landing.commit(before, events, resume, complete=pending.complete, report=landed)
            except ConcurrentCommit:
                self.go_on_from_others()
                raise
            report.complete_through_ms = max(report.complete_through_ms, pending.through_ms)
            pending.landed()
            self.checkpoint, self._committed_ms, self._repeats_to_note = after, clock.now_ms(), 0
            self._repeated(len(events) - (after.position - before.position))
            report.add(landed)
            notify(EventsLanded(self.channel, landed.count))
            if subscription is not None:
                subscription.landed(after.resume)
        else:
            report.complete_through_ms = max(report.complete_through_ms, pending.through_ms)
            pending.landed()

    def report(self, report: LandingReport) -> None:
        """Say where the channel stands, and what was not reported yet."""
        report.lost_checkpoint, self.lost_checkpoint = self.lost_checkpoint, None
        report.deliveries, self._deliveries = self._deliveries, 0
        report.repeats, self._repeats = self._repeats, 0
        report.position, report.complete_position = self.checkpoint.position, self.checkpoint.complete_position
        report.has_checkpoint = self.checkpoint.is_known

    def _is_settled(self, at_ms: int) -> bool:
        """Return whether the last transaction is whole by an answer of this time that there is nothing more. Its events
        are published one after another, and the answer may have come in between."""
        if self.pending.events:
            return at_ms - self.pending.events[-1].received_at_ms >= self._settle_ms
        is_open = self.checkpoint.complete_position < self.checkpoint.position
        return not is_open or at_ms - (self._committed_ms or 0) >= self._settle_ms

    def _repeated(self, deliveries: int) -> None:
        """Count deliveries of events that had come before, to this reader or to another one."""
        if deliveries:
            notify(EventsDelivered(self.channel, 0, deliveries))
            self._repeats += deliveries
            self._repeats_to_note += deliveries
