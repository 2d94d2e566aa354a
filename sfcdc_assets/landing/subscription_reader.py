"""Reading the subscription of one channel, from the durable checkpoint on, and landing what it brings.

Every delivery is charged to the org. What was delivered and could not be landed is kept, by the reader and beside the
tables (`pending_events`), and is what the next try lands first; until then the stream is asked for no more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from sfcdc_assets.lake.delta.commit_protocol import ATTEMPTS, retry_on_conflict
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.channel_progress import ChannelProgress
from sfcdc_assets.landing.land import LandingReport, is_enough
from sfcdc_assets.landing.poll_timeouts import AHEAD, ANSWER_SECONDS, PollTimeouts
from sfcdc_assets.landing.response_waits import ResponseWaits
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_connection.same_organization import follow_instance
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.streams.checkpoint import COMETD
from sfcdc_assets.streams.errors import ReplayIdRefused, TransportError
from sfcdc_assets.streams.transport import Subscription, Transport

LOOK_SECONDS = 3_600.0
"""How often a reader that goes on looks whether another process moved the checkpoint; a commit notices at once."""

_CLOSING_SECONDS = 5.0
_IN_FLIGHT_SECONDS = 0.5


class SubscriptionReader:
    """Reads a channel over a subscription that it opens when there is none, for one thread at a time."""

    def __init__(
        self,
        warehouse: Warehouse,
        org: OrgConnection,
        transport: Transport,
        progress: ChannelProgress,
        settle_seconds: float,
    ) -> None:
        self._warehouse = warehouse
        self._org = org
        self._transport = transport
        self._progress = progress
        self._settle_seconds = settle_seconds
        self.waits = ResponseWaits(
            progress.channel,
            settle_seconds,
            is_placed_by_an_answer=progress.landing.is_in_the_org or transport.name != COMETD,
        )
        self.subscription: Subscription | None = None
        self._instance: str | None = None
        self._looked_at = 0.0

    @retry_on_conflict
    def land(self, timeouts: PollTimeouts, report: LandingReport, on_events: Callable[[], object]) -> None:
        """Land what the stream brings; see `ChannelReader.land`. `on_events` is called when events have come."""
        if not self._progress.is_placed and not self._progress.landing.has_table():
            # A name that is mistyped leaves nothing behind.
            self._transport.check_channel(self._progress.channel, ANSWER_SECONDS)
        if self._progress.pending.events:
            self._commit(report)  # before anything is asked of the org
        self._follow_others(timeouts)
        self._progress.lost_checkpoint = self._follow_instance() or self._progress.lost_checkpoint
        try:
            self._read(timeouts, report, on_events)
        except ReplayIdRefused as refused:
            if self._progress.checkpoint.resume.replay_id is None:
                raise
            self.close()
            self._progress.begin_again(str(refused))
            self._read(timeouts, report, on_events)

    @retry_on_conflict
    def land_arrived(self, report: LandingReport, on_events: Callable[[], object]) -> None:
        """Land what has arrived on the open call, and ask for nothing."""
        if self.subscription is None:
            return  # another process has landed the channel, and `land` finds out how far
        if self._progress.pending.events:
            self._commit(report)
        self._read(AHEAD, report, on_events)

    def finish(self) -> None:
        """Take and land what was asked for and is on its way: it is paid for."""
        subscription = self.subscription
        quiet = subscription.quiet_for() if subscription is not None else None
        if subscription is None or quiet is None or quiet > _IN_FLIGHT_SECONDS:
            return
        deadline = clock.current().monotonic() + _CLOSING_SECONDS
        try:
            with contextlib.suppress(TransportError):
                while subscription.outstanding and clock.current().monotonic() < deadline:
                    received = subscription.take(_IN_FLIGHT_SECONDS)
                    if received is None:
                        break
                    self._progress.took(received)
            self._progress.pending.complete = False  # no report says it
            # Another process that committed first has landed them, or will be sent them.
            with contextlib.suppress(ConcurrentCommit):
                self._commit(LandingReport(self._progress.channel))
        except Exception as error:
            self.keep(error)
            raise

    def keep(self, error: BaseException) -> None:
        """Have what was delivered and not landed outlive this process."""
        if self.subscription is not None:
            self._progress.pending.resume = self.subscription.resume_point
        self._progress.pending.keep(self._progress.checkpoint, error)

    def close(self) -> None:
        """End the call, and forget where the channel stands."""
        subscription, self.subscription = self.subscription, None
        self._progress.forget()
        if subscription is not None:
            subscription.close()

    def _read(self, timeouts: PollTimeouts, report: LandingReport, on_events: Callable[[], object]) -> None:
        subscription = self.subscription or self._open(report)
        progress, pending = self._progress, self._progress.pending
        began, deadline = clock.now_ms(), clock.current().monotonic() + timeouts.budget
        while not timeouts.only_arrived or subscription.has_arrived(0.0):
            left = max(0.0, deadline - clock.current().monotonic())
            wait = min(left, self.waits.seconds(subscription, progress.checkpoint, timeouts))
            try:
                received = subscription.take(self.waits.until_reported(wait))
            except SfcdcError:
                self._commit(report)
                raise
            if received is None:
                wait = min(left, self.waits.seconds(subscription, progress.checkpoint, timeouts))
                if wait > 0:
                    self.waits.report(subscription, progress.checkpoint, timeouts, wait)
                    continue  # or the call broke and was begun again, and has not answered yet
                break
            self.waits.over()
            progress.took(received)
            if received.events:
                on_events()
            if received.nothing_more:
                is_settled = pending.complete
                self._commit(report)
                if is_settled and not timeouts.goes_on and report.complete_through_ms >= timeouts.through_ms:
                    return
                continue
            if received.events and progress.landing.is_made_after(received.events[-1], began):
                break
            subscription.top_up(sparingly=True)
            if is_enough(pending.events, pending.payload_bytes):
                self._commit(report)
            if left <= 0:
                break
        quiet = subscription.quiet_for()
        if quiet is not None and quiet >= self._settle_seconds:
            pending.is_complete(int(clock.now_ms() - self._settle_seconds * 1000))
        self._commit(report)
        subscription.top_up()

    def _open(self, report: LandingReport) -> Subscription:
        """Open a subscription, once what an earlier reading was sent is landed, and the warehouse has taken a write."""
        if not self._progress.is_placed:
            self._progress.place()
            self._looked_at = clock.current().monotonic()
            self._commit(report)
        try:
            self._progress.pending.begin(self._progress.checkpoint)
        except SfcdcError:
            self.close()  # by the next try a channel that is new was begun a while ago
            raise
        self.subscription = self._transport.subscribe(
            self._progress.channel, self._progress.begun, self._progress.checkpoint.resume
        )
        return self.subscription

    def _commit(self, report: LandingReport) -> None:
        """Commit what is new. What another process has landed of it meanwhile is landed, and a reading that is at its
        end ends: one that began again would be forestalled at the next event. Raises `ConcurrentCommit` where it is not
        known how far the other one has come."""
        for attempts_left in reversed(range(ATTEMPTS)):
            try:
                self._progress.commit(self.subscription, report)
            except ConcurrentCommit:
                self._follow_progress()
                if not (self._progress.is_placed and attempts_left):
                    raise
            else:
                return

    def _follow_others(self, timeouts: PollTimeouts) -> None:
        """Go on from the durable checkpoint if another process moved it: it landed the channel, or skipped positions,
        which changes nothing about the stream. A commit would notice the same, but without events there is none."""
        now = clock.current().monotonic()
        if self.subscription is None or (timeouts.goes_on and now - self._looked_at < LOOK_SECONDS):
            return
        self._looked_at = now
        if self._progress.landing.position() == self._progress.checkpoint.position:
            return
        self._progress.go_on_from_others()
        self._follow_progress()

    def _follow_progress(self) -> None:
        """End the call where it is not known what of its deliveries another process has landed: all of it comes again
        on the next one."""
        if not self._progress.is_placed:
            self.close()

    def _follow_instance(self) -> str | None:
        """Return why the checkpoint is lost, if the org has moved to another instance: the call may have been mended
        there, with a replay id that meant another event."""
        instance = self._org.instance_name()
        if instance is None or instance == self._instance:
            return None
        organization_id, name = self._org.session.organization_id, self._org.instance_name
        lost = follow_instance(self._warehouse, self._progress.channel, organization_id, name, clock.now_ms())
        if lost is not None:
            self.close()
        self._instance = name()
        return lost
