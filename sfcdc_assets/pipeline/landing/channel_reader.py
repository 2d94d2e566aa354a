"""Reading one channel: its subscription, kept open as long as its owner wants, and what it brings landed.

No silence proves that a transaction or a replay id is complete, only that nothing came. A transaction counts as
complete when an event with another key follows, when the org answers after its last event that there is nothing more,
or when the stream has stayed open, had answered and was silent for the settling time (SFCDC_SETTLE_SECONDS). A shorter
silence ends a reading and completes nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence

from sfcdc_assets import clock
from sfcdc_assets.channel_kinds import kind_of
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.retry_on_conflict import retry_on_conflict
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.observation import EventsDelivered, EventsLanded, notify
from sfcdc_assets.pipeline.landing.land import LandingReport, is_enough
from sfcdc_assets.pipeline.landing.landing_of import landing_of
from sfcdc_assets.pipeline.landing.patience import ANSWER_SECONDS, Patience
from sfcdc_assets.pipeline.landing.same_organization import claim_warehouse, follow_instance
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.streams.checkpoint import EARLIEST, LATEST, StreamCheckpoint
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.errors import ReplayIdRefused, TransportError
from sfcdc_assets.streams.replay import ReplayStart
from sfcdc_assets.streams.transport import SILENCE_SECONDS, Subscription

LEAST_ALLOWANCE = 0.2
"""Share of the day's delivered events that must be left for a start at EARLIEST, which brings up to three days' events
at once and whose cost all subscribers of the org share."""

IDLE_COMMIT_MS = 3_600_000
"""A resume point that only moved (no events) is committed this seldom: ids are good for 72 hours."""

OLD_MS = 12 * 3_600_000
"""A reading that will be closed waits for an empty response, and so for a new resume point, when its own is older."""

MARGIN_MS = 2 * 3_600_000
"""Of the time for which events are kept: a channel that was begun longer ago and never gave a replay id may have lost
some."""

LOOK_SECONDS = 3_600.0
"""How often a reader that goes on looks whether another process moved the checkpoint; a commit notices at once."""

_CLOSING_SECONDS = 5.0
_IN_FLIGHT_SECONDS = 0.5


class ChannelReader:
    """Reads one channel of an org into a warehouse; its calls are made one at a time, from any thread."""

    def __init__(
        self, warehouse: Warehouse, org: OrgConnection, channel: str, settle_seconds: float, run_id: str = ""
    ) -> None:
        """`run_id`: of the run of Dagster that reads, which its commits name."""
        self._warehouse = warehouse
        self._org = org
        self._channel = channel
        self._settle_seconds = settle_seconds
        self._landing = landing_of(warehouse, org, channel, run_id)
        self._transport = org.new_transport(channel)
        self._retention_ms = kind_of(channel).retention_ms - MARGIN_MS
        self._subscription: Subscription | None = None
        self._checkpoint = StreamCheckpoint(channel)
        self._instance: str | None = None
        self._committed_ms: int | None = None
        self._complete_through_ms = 0
        self._looked_at = 0.0
        self._deliveries = 0
        """Events that were sent and no report has named yet."""
        self._lost_checkpoint: str | None = None
        """Why the checkpoint was lost, until a report has named it: what follows a loss may fail and be tried again."""
        self._lock = threading.Lock()
        self.on_events: Callable[[], object] = _nothing
        """Called when events have come, before they are landed."""

    def land(self, patience: Patience) -> LandingReport:
        """Land what the stream brings, and note what is complete.

        A checkpoint that the org refuses, or that is another instance's, is lost: see `lost_checkpoint`. When another
        process landed the channel since, reading starts again from there. Raises what `Subscription.take` raises; what
        was taken before is landed.
        """
        with self._lock:
            try:
                return self._land(patience)
            except TransportError:
                raise  # the subscription mends itself with the next call
            except BaseException:
                self._close()
                raise

    @property
    def is_open(self) -> bool:
        """Whether a call is open."""
        return self._subscription is not None and self._subscription.is_open

    @property
    def responses(self) -> int:
        """Responses that have arrived on the open call, those not landed yet included."""
        subscription = self._subscription
        return 0 if subscription is None else subscription.responses

    def close(self) -> None:
        """Land what is on its way already, then end the subscription."""
        with self._lock:
            try:
                self._finish()
            finally:
                self._close()
                self._transport.close()

    def drop(self) -> None:
        """End the subscription at once; what was not landed comes again."""
        with self._lock:
            self._close()
            self._transport.close()

    @retry_on_conflict
    def _land(self, patience: Patience) -> LandingReport:
        report, calls = LandingReport(self._channel), self._org.session.calls
        if self._subscription is None and not self._landing.has_table():
            # A name that is mistyped leaves nothing behind.
            self._transport.check_channel(self._channel, ANSWER_SECONDS)
        self._follow_others(patience)
        self._lost_checkpoint = self._follow_instance() or self._lost_checkpoint
        try:
            self._read(patience, report)
        except ReplayIdRefused as refused:
            if self._checkpoint.resume.replay_id is None:
                raise
            self._lose_checkpoint(str(refused))
            self._read(patience, report)
        report.lost_checkpoint, self._lost_checkpoint = self._lost_checkpoint, None
        report.deliveries, self._deliveries = self._deliveries, 0
        report.api_requests = self._org.session.calls - calls
        report.position, report.complete_position = self._checkpoint.position, self._checkpoint.complete_position
        self._complete_through_ms = max(self._complete_through_ms, report.complete_through_ms)
        report.complete_through_ms = self._complete_through_ms
        report.has_checkpoint = self._checkpoint.is_known
        report.has_answered = self._subscription is not None and self._subscription.has_answered
        return report

    def _read(self, patience: Patience, report: LandingReport) -> None:
        subscription = self._subscription or self._open()
        began, deadline = clock.now_ms(), clock.current().monotonic() + patience.budget
        waiting: list[DeliveredEvent] = []
        payload_bytes = 0
        while True:
            left = max(0.0, deadline - clock.current().monotonic())
            try:
                received = subscription.take(min(left, self._wait(subscription, patience)))
            except TransportError:
                self._commit(waiting, False, report)
                raise
            if received is None:
                if left > 0 and self._wait(subscription, patience) > 0:
                    continue  # the call broke and was begun again, and has not answered yet
                break
            if received.events:
                notify(EventsDelivered(self._channel, len(received.events)))
                self.on_events()
            waiting.extend(received.events)
            self._deliveries += len(received.events)
            payload_bytes += sum(len(event.payload) for event in received.events)
            if received.nothing_more:
                report.complete_through_ms = max(report.complete_through_ms, received.at_ms)
                self._commit(waiting, True, report)
                waiting, payload_bytes = [], 0
                if not patience.goes_on:
                    return
                continue
            if received.events and self._landing.is_made_after(received.events[-1], began):
                break
            subscription.top_up(sparingly=True)
            if is_enough(waiting, payload_bytes):
                self._commit(waiting, False, report)
                waiting, payload_bytes = [], 0
            if left <= 0:
                break
        quiet = subscription.quiet_for()
        is_settled = quiet is not None and quiet >= self._settle_seconds
        if is_settled:
            # Something committed within the settling time may still be on its way.
            settled_ms = clock.now_ms() - int(self._settle_seconds * 1000)
            report.complete_through_ms = max(report.complete_through_ms, settled_ms)
        self._commit(waiting, is_settled, report)
        subscription.top_up()

    def _follow_others(self, patience: Patience) -> None:
        """Go on from the durable checkpoint if another process moved it: it landed the channel, or skipped positions,
        which changes nothing about the stream. A commit would notice the same, but without events there is none."""
        now = clock.current().monotonic()
        if self._subscription is None or (patience.goes_on and now - self._looked_at < LOOK_SECONDS):
            return
        self._looked_at = now
        if self._landing.position() == self._checkpoint.position:
            return
        durable, _ = self._landing.checkpoint()
        if durable.resume == self._checkpoint.resume:
            self._checkpoint = durable
        else:
            self._close()

    def _wait(self, subscription: Subscription, patience: Patience) -> float:
        """Seconds to wait for the next response."""
        if not subscription.has_answered:
            first_answer = patience.first_answer if self._checkpoint.is_known or patience.goes_on else ANSWER_SECONDS
            return max(0.0, first_answer - subscription.open_for())
        quiet = patience.quiet
        known_at = self._checkpoint.resume.known_at_ms
        if not patience.goes_on and known_at is not None and clock.now_ms() - known_at > OLD_MS:
            quiet = max(quiet, SILENCE_SECONDS)
        through = (patience.through_ms - clock.now_ms()) / 1000 + self._settle_seconds
        return max(0.0, through, quiet - (subscription.quiet_for() or 0.0))

    def _commit(self, events: Sequence[DeliveredEvent], complete: bool, report: LandingReport) -> None:
        """Commit what is new: events, a transaction's end, or a resume point that has not been noted for long."""
        assert self._subscription is not None
        checkpoint, known = self._checkpoint, self._checkpoint.resume
        resume = self._landing.resume_point(self._subscription.resume_point, known, events)
        is_completed = complete and checkpoint.complete_position < checkpoint.position
        # A protocol without replay ids in its keepalives only says that the old one was still the last.
        has_moved = (resume.replay_id, resume.known_at_ms) != (known.replay_id, known.known_at_ms)
        is_due = (resume.replay_id is not None and known.replay_id is None) or (
            has_moved and clock.now_ms() - (self._committed_ms or 0) > IDLE_COMMIT_MS
        )
        if events or is_completed or is_due:
            before = report.count
            try:
                self._checkpoint = self._landing.commit(checkpoint, events, resume, complete, report)
            except BaseException:
                # What was taken and not landed must come again.
                self._close()
                raise
            notify(EventsLanded(self._channel, report.count - before))
            self._committed_ms = clock.now_ms()
            self._subscription.landed(self._checkpoint.resume)

    def _open(self) -> Subscription:
        # Whoever gives the warehouse to another organization breaks the channel's order, so that no commit of a reader
        # that is open succeeds: it comes back here.
        claim_warehouse(self._warehouse, self._org.session.organization_id, clock.now_ms())
        self._landing.upgrade()
        self._checkpoint, self._committed_ms = self._landing.checkpoint()
        checkpoint = self._checkpoint
        if (
            checkpoint.resume.replay_id is None
            and checkpoint.begun_at_ms
            and clock.now_ms() - checkpoint.begun_at_ms > self._retention_ms
        ):
            self._lose_checkpoint("the channel was begun longer ago than events are kept, and no replay id is known")
        if checkpoint.transport != self._transport.name and (checkpoint.is_known or checkpoint.begun is not None):
            self._lose_checkpoint(
                f"the channel was read over {checkpoint.transport} and is read over {self._transport.name} now, whose "
                "replay ids are others"
            )
        if self._checkpoint.resume.replay_id is None and self._checkpoint.begun is None:
            self._checkpoint = self._landing.begin(self._checkpoint, self._first_start(), self._transport.name)
        begun = ReplayStart.LATEST if self._checkpoint.begun == LATEST else ReplayStart.EARLIEST
        self._looked_at = clock.current().monotonic()
        self._subscription = self._transport.subscribe(self._channel, begun, self._checkpoint.resume)
        return self._subscription

    def _follow_instance(self) -> str | None:
        """Why the checkpoint is lost, if the org has moved to another instance: the call may have been mended there,
        with a replay id that meant another event."""
        instance = self._org.instance_name()
        if instance is None or instance == self._instance:
            return None
        organization_id = self._org.session.organization_id
        lost = follow_instance(self._warehouse, self._channel, organization_id, instance, clock.now_ms())
        if lost is not None:
            self._close()
        self._instance = instance
        return lost

    def _lose_checkpoint(self, reason: str) -> None:
        self._lost_checkpoint = reason
        self._close()
        self._checkpoint = self._landing.lose(reason)

    def _first_start(self) -> str:
        """Where a channel without a checkpoint is begun: at EARLIEST, so that nothing retained is missed, unless the
        settings say otherwise or the org's allowance of delivered events is nearly used up; then at LATEST, and what
        lies before it is read from the org by the snapshots, which have their watermark after it.

        What only the stream brings is begun at LATEST by the settings alone, and never once some of it has landed: what
        lies between would be lost. A used-up allowance is an error then."""
        if not self._landing.is_in_the_org:
            has_landed = self._checkpoint.is_known or self._checkpoint.position > 0
            return EARLIEST if self._org.from_earliest or has_landed else LATEST
        if not self._org.from_earliest:
            return LATEST
        allowance = self._org.delivery_allowance()
        if allowance is not None and allowance.remaining < allowance.maximum * LEAST_ALLOWANCE:
            return LATEST
        return EARLIEST

    def _finish(self) -> None:
        """Take and land what was asked for and is on its way: it is paid for."""
        subscription = self._subscription
        quiet = subscription.quiet_for() if subscription is not None else None
        if subscription is None or quiet is None or quiet > _IN_FLIGHT_SECONDS:
            return
        deadline = clock.current().monotonic() + _CLOSING_SECONDS
        taken: list[DeliveredEvent] = []
        with contextlib.suppress(TransportError):
            while subscription.outstanding and clock.current().monotonic() < deadline:
                received = subscription.take(_IN_FLIGHT_SECONDS)
                if received is None:
                    break
                notify(EventsDelivered(self._channel, len(received.events)))
                taken.extend(received.events)
        # Another process that committed first has landed them, or will be sent them.
        with contextlib.suppress(ConcurrentCommit):
            self._commit(taken, False, LandingReport(self._channel))

    def _close(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.close()


def _nothing() -> None:
    """Nobody waits for events."""
