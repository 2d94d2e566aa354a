"""Reading one channel: its subscription, kept open as long as its owner wants, and what it brings landed.

No silence proves that a transaction or a replay id is complete, only that nothing came. A transaction counts as
complete when an event with another key follows, or when the stream has stayed open, had answered and brought nothing
for the settling time (SFCDC_SETTLE_SECONDS). A shorter silence ends a reading and completes nothing, even if the org
says that there is nothing more: what it has committed is published a moment later, one event after another.

Every delivery is charged to the org. What was delivered and could not be landed is kept, by the reader and beside the
tables (`pending_events`), and is what the next try lands first; until then the stream is asked for no more.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace

from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.store.channel_reads import ReadNote
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.change_event_landing import ChangeEventLanding
from sfcdc_assets.landing.event_landing import EventLanding
from sfcdc_assets.landing.event_readers import event_reader
from sfcdc_assets.landing.land import MARGIN_MS, Landing, LandingReport, is_enough
from sfcdc_assets.landing.pending import Pending
from sfcdc_assets.landing.poll_timeouts import AHEAD, ANSWER_SECONDS, TICK, PollTimeouts
from sfcdc_assets.landing.retry_pause import RetryPause
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_connection.same_organization import claim_warehouse, follow_instance
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.runtime.progress import EventsDelivered, EventsLanded, StreamAwaited, notify
from sfcdc_assets.settings.channel_kinds import feeds_entities, kind_of
from sfcdc_assets.streams.checkpoint import COMETD, EARLIEST, LATEST, StreamCheckpoint, not_landed_yet
from sfcdc_assets.streams.delivered_event import ReplayStart
from sfcdc_assets.streams.errors import ReplayIdRefused, TransportError
from sfcdc_assets.streams.transport import SILENCE_SECONDS, Received, Subscription

LEAST_ALLOWANCE = 0.2
"""Share of the day's delivered events that must be left for a start at EARLIEST, which brings up to three days' events
at once and whose cost all subscribers of the org share."""

IDLE_COMMIT_MS = 3_600_000
"""A resume point that only moved (no events) is committed this seldom: ids are good for 72 hours."""

OLD_MS = 12 * 3_600_000
"""A reading that will be closed waits for an empty response, and so for a new resume point, when its own is older."""

LOOK_SECONDS = 3_600.0
"""How often a reader that goes on looks whether another process moved the checkpoint; a commit notices at once."""

CLOCK_SECONDS = 0.001
"""What clocks tell apart."""
SHORT_SECONDS = 2.0
"""A wait that lasts longer is reported, with what is waited for."""

_CLOSING_SECONDS = 5.0
_IN_FLIGHT_SECONDS = 0.5


class ChannelReader:
    """Reads one channel of an org into a warehouse; its calls are made one at a time, from any thread."""

    def __init__(
        self,
        warehouse: Warehouse,
        org: OrgConnection,
        channel: str,
        settle_seconds: float,
        run_id: str = "",
        pause: RetryPause | None = None,
    ) -> None:
        """`run_id`: of the run of Dagster that reads, which its commits name. `pause`: the channel's, where it outlives
        this reader."""
        self._warehouse = warehouse
        self._org = org
        self._channel = channel
        self._settle_seconds = settle_seconds
        self._settle_ms = settle_seconds * 1000
        self._landing = landing_of(warehouse, org, channel, run_id)
        self._transport = org.new_transport(channel)
        self._retention_ms = kind_of(channel).retention_ms - MARGIN_MS
        self._subscription: Subscription | None = None
        self._is_placed = False
        """Whether `_checkpoint` and `_pending` are where the channel stands."""
        self._checkpoint = StreamCheckpoint(channel)
        self._begun = ReplayStart.EARLIEST
        """Where the stream starts for as long as no replay id is known."""
        self._pending = Pending(warehouse, channel)
        self._read_note = ReadNote(warehouse, channel)
        self._pause = pause or RetryPause()
        self._instance: str | None = None
        self._committed_ms: int | None = None
        self._complete_through_ms = 0
        self._looked_at = 0.0
        self._deliveries = self._repeats = 0
        """Events that were sent, and those that had come before, which no report has named yet."""
        self._repeats_to_note = 0
        """The same that no commit has noted yet."""
        self._lost_checkpoint: str | None = None
        """Why the checkpoint was lost, until a report has named it: what follows a loss may fail and be tried again."""
        self._awaited: str | None = None
        """What is waited for, as it was reported last."""
        self._ahead = LandingReport(channel)
        """What was landed that no report has named yet."""
        self._may_land_ahead = False
        self._failed_ahead: Exception | None = None
        """What landing ahead failed with, until it is raised."""
        self._lock = threading.Lock()
        self.on_events: Callable[[], object] = _nothing
        """Called when events have come, before they are landed."""

    def land(self, timeouts: PollTimeouts) -> LandingReport:
        """Land what the stream brings, and note what is complete.

        A checkpoint that the org refuses, or that is another instance's, is lost: see `lost_checkpoint`. When another
        process landed the channel since, reading goes on from there. Raises what `Subscription.take` raises, and what
        landing does; what was taken before is landed, or kept and landed first by the next call. After a failure the
        calls of the next seconds or minutes raise it again and do nothing (`RetryPause`).
        """
        with self._lock:
            self._may_land_ahead = False
            failed, self._failed_ahead = self._failed_ahead, None
            if failed is not None:
                raise self._pause.said(failed) from failed.__cause__
            self._pause.check()
            report, self._ahead = self._ahead, LandingReport(self._channel)
            calls = self._org.session.calls
            try:
                self._land(timeouts, report)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is raised
                self._ahead = report
                raise self._failed(error, timeouts) from error.__cause__
            except BaseException:
                # It may have struck between taking an event and noting it.
                self._close()
                raise
            finally:
                self._report_wait(None)
            self._report(report)
            report.api_requests += self._org.session.calls - calls
            if report.has_answered:
                self._pause.worked()
                self._read_note.answered()
            self._may_land_ahead = report.has_answered
            return report

    def land_ahead(self) -> int | None:
        """Land what has arrived since `land`, whose next report counts it in; of how many entities that was, or None
        where it may not be done again before `land` has worked.

        It takes what is there: a call that broke, or was not begun, is for `land` to mend. So is what fails here: it
        begins a pause as any failure does, and the next call of `land` raises it. Where another call is at work there
        is nothing to do.
        """
        if not self._lock.acquire(blocking=False):
            return 0
        landed, calls = LandingReport(self._channel), self._org.session.calls_of_this_thread
        try:
            if self._may_land_ahead:
                self._land_arrived(landed)
        except Exception as error:  # noqa: BLE001 - whatever it is, `land` raises it
            self._may_land_ahead = False
            self._failed_ahead = error
            self._failed(error, AHEAD)
        except BaseException:
            self._close()
            raise
        finally:
            landed.api_requests = self._org.session.calls_of_this_thread - calls
            self._ahead.add(landed)
            self._lock.release()
        return len(landed.events) if self._may_land_ahead and self._subscription is not None else None

    def has_arrived(self, seconds: float) -> bool:
        """Wait until there is something to land ahead, for `seconds` at most: events that have arrived, or a silence
        that was long enough for the last transaction to count as complete. From any thread, beside other calls."""
        subscription, checkpoint = self._subscription, self._checkpoint
        if subscription is None:
            return False
        quiet = subscription.quiet_for() if checkpoint.complete_position < checkpoint.position else None
        settles = None if quiet is None else max(0.0, self._settle_seconds - quiet)
        if settles is None or settles > seconds:
            return subscription.has_arrived(seconds)
        return subscription.has_arrived(settles) or subscription.is_open

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
        """End the subscription at once; what is on its way comes again."""
        with self._lock:
            self._close()
            self._transport.close()

    def _failed(self, error: Exception, timeouts: PollTimeouts) -> Exception:
        """Keep what was delivered and begin a pause; the error, which says how long that is where somebody reads on."""
        self._keep(error)
        self._pause.failed(error)
        return self._pause.said(error) if timeouts.goes_on else error

    @retry_on_conflict
    def _land(self, timeouts: PollTimeouts, report: LandingReport) -> None:
        if not self._is_placed and not self._landing.has_table():
            # A name that is mistyped leaves nothing behind.
            self._transport.check_channel(self._channel, ANSWER_SECONDS)
        if self._pending.events:
            self._commit(report)  # before anything is asked of the org
        self._follow_others(timeouts)
        self._lost_checkpoint = self._follow_instance() or self._lost_checkpoint
        try:
            self._read(timeouts, report)
        except ReplayIdRefused as refused:
            if self._checkpoint.resume.replay_id is None:
                raise
            self._close()
            if self._landing.begin_again_complete(self._checkpoint) is None:
                self._lose_checkpoint(str(refused))
            self._read(timeouts, report)

    @retry_on_conflict
    def _land_arrived(self, report: LandingReport) -> None:
        if self._subscription is None:
            return  # another process has landed the channel, and `land` finds out how far
        if self._pending.events:
            self._commit(report)
        self._read(AHEAD, report)

    def _report(self, report: LandingReport) -> None:
        """Complete it with where the channel stands, and what was not reported yet."""
        report.lost_checkpoint, self._lost_checkpoint = self._lost_checkpoint, None
        report.deliveries, self._deliveries = self._deliveries, 0
        report.repeats, self._repeats = self._repeats, 0
        report.position, report.complete_position = self._checkpoint.position, self._checkpoint.complete_position
        self._complete_through_ms = max(self._complete_through_ms, report.complete_through_ms)
        report.complete_through_ms = self._complete_through_ms
        report.has_checkpoint = self._checkpoint.is_known
        report.has_answered = self._subscription is not None and self._subscription.has_answered

    def _read(self, timeouts: PollTimeouts, report: LandingReport) -> None:
        subscription = self._subscription or self._open(report)
        pending = self._pending
        began, deadline = clock.now_ms(), clock.current().monotonic() + timeouts.budget
        while not timeouts.only_arrived or subscription.has_arrived(0.0):
            left = max(0.0, deadline - clock.current().monotonic())
            wait = min(left, self._wait(subscription, timeouts))
            try:
                # A wait that turns out to be long is said to be one, and goes on.
                received = subscription.take(wait if self._awaited else min(wait, SHORT_SECONDS))
            except SfcdcError:
                self._commit(report)
                raise
            if received is None:
                wait = min(left, self._wait(subscription, timeouts))
                if wait > 0:
                    self._report_wait(subscription, timeouts, wait)
                    continue  # or the call broke and was begun again, and has not answered yet
                break
            self._report_wait(None)
            self._took(received)
            if received.events:
                self.on_events()
            if received.nothing_more:
                is_settled = pending.complete
                self._commit(report)
                if is_settled and not timeouts.goes_on and report.complete_through_ms >= timeouts.through_ms:
                    return
                continue
            if received.events and self._landing.is_made_after(received.events[-1], began):
                break
            subscription.top_up(sparingly=True)
            if is_enough(pending.events, pending.payload_bytes):
                self._commit(report)
            if left <= 0:
                break
        quiet = subscription.quiet_for()
        if quiet is not None and quiet >= self._settle_seconds:
            pending.is_complete(int(clock.now_ms() - self._settle_ms))
        self._commit(report)
        subscription.top_up()

    def _took(self, received: Received) -> None:
        """Take note of a response."""
        self._pending.add(received)
        came = len(received.events) + received.repeats
        if came:
            notify(EventsDelivered(self._channel, came))
            self._deliveries += came
            self._spent_again(received.repeats)
        if received.nothing_more and self._is_settled(received.at_ms):
            # Something that was committed within the settling time may still be on its way: it is not published yet.
            # Who waits for no transaction to settle says so with infinite seconds.
            self._pending.is_complete(int(max(0, received.at_ms - self._settle_ms)))

    def _is_settled(self, at_ms: int) -> bool:
        """Return whether the last transaction is whole by an answer of this time that there is nothing more. Its events
        are published one after another, and the answer may have come in between."""
        if self._pending.events:
            return at_ms - self._pending.events[-1].received_at_ms >= self._settle_ms
        is_open = self._checkpoint.complete_position < self._checkpoint.position
        return not is_open or at_ms - (self._committed_ms or 0) >= self._settle_ms

    def _follow_others(self, timeouts: PollTimeouts) -> None:
        """Go on from the durable checkpoint if another process moved it: it landed the channel, or skipped positions,
        which changes nothing about the stream. A commit would notice the same, but without events there is none."""
        now = clock.current().monotonic()
        if self._subscription is None or (timeouts.goes_on and now - self._looked_at < LOOK_SECONDS):
            return
        self._looked_at = now
        if self._landing.position() == self._checkpoint.position:
            return
        self._go_on_from_others()

    def _go_on_from_others(self) -> None:
        """Go on from the durable checkpoint with what is pending and was not landed by whoever moved it. Where the
        order does not tell what that is, all of it comes again."""
        durable, self._committed_ms = self._landing.checkpoint()
        pending = self._pending.events
        left = not_landed_yet(pending, self._checkpoint, durable)
        self._spent_again(len(pending) - len(left or ()))
        if left is None:
            self._close()
        else:
            self._pending.events, self._checkpoint = list(left), durable

    def _spent_again(self, deliveries: int) -> None:
        """Count deliveries of events that had come before, to this reader or to another one."""
        if deliveries:
            notify(EventsDelivered(self._channel, 0, deliveries))
            self._repeats += deliveries
            self._repeats_to_note += deliveries

    def _wait(self, subscription: Subscription, timeouts: PollTimeouts) -> float:
        """Seconds to wait for the next response."""
        if not subscription.has_answered:
            first_answer = timeouts.first_answer
            if not timeouts.goes_on and not self._checkpoint.is_known and self._is_placed_by_an_answer:
                first_answer = ANSWER_SECONDS
            elif self._needs_an_answer(timeouts):
                first_answer = max(first_answer, timeouts.needed_answer)
            return max(0.0, first_answer - subscription.open_for())
        quiet = max(timeouts.quiet, self._settle_seconds) if timeouts.through_ms else timeouts.quiet
        if not timeouts.goes_on and self._is_old(self._checkpoint.resume.known_at_ms):
            quiet = max(quiet, SILENCE_SECONDS)
        # The settling time is infinite for who waits for no transaction's end.
        through = (timeouts.through_ms - clock.now_ms()) / 1000 + self._settle_seconds if timeouts.through_ms else 0.0
        seconds = max(through, quiet - (subscription.quiet_for() or 0.0))
        return seconds if seconds >= CLOCK_SECONDS else 0.0  # less is a rounding error, which no wait ends

    @property
    def _is_placed_by_an_answer(self) -> bool:
        """Whether a channel that was begun at LATEST has a place once it answers. Without events CometD gives no replay
        id: what only the stream brings is begun at its earliest event the next time, whether it has answered or not."""
        return self._landing.is_in_the_org or self._transport.name != COMETD

    def _needs_an_answer(self, timeouts: PollTimeouts) -> bool:
        """Return whether something depends on hearing of the stream at all."""
        checkpoint = self._checkpoint
        is_waited_for = timeouts.quiet >= self._settle_seconds and checkpoint.complete_position < checkpoint.position
        known_at_ms = checkpoint.resume.known_at_ms or checkpoint.begun_at_ms
        return bool(timeouts.through_ms) or is_waited_for or self._is_old(known_at_ms)

    @staticmethod
    def _is_old(known_at_ms: int | None) -> bool:
        return known_at_ms is not None and clock.now_ms() - known_at_ms > OLD_MS

    def _report_wait(
        self, subscription: Subscription | None, timeouts: PollTimeouts = TICK, seconds: float = 0.0
    ) -> None:
        """Say what a wait of so many seconds more is for, once; or, without a subscription, that it is over."""
        what: str | None = None
        if subscription is not None:
            what = "the end of the last transaction" if subscription.has_answered else "the stream's first answer"
            if timeouts.through_ms:
                what = "the stream to say that nothing older is on its way, which a consistent cut needs"
            elif self._is_old(self._checkpoint.resume.known_at_ms):
                what = "a new replay id, as the last one is half a day old"
        if what != self._awaited:
            self._awaited = what
            notify(StreamAwaited(self._channel, what, clock.now_ms() + round(seconds * 1000)))

    def _commit(self, report: LandingReport) -> None:
        """Commit what is new: events, a transaction's end, or a resume point that has not been noted for long."""
        pending = self._pending
        if self._subscription is not None:
            pending.resume = self._subscription.resume_point
        elif not pending.events:
            return
        checkpoint, known, events = self._checkpoint, self._checkpoint.resume, pending.events
        resume = self._landing.resume_point(pending.resume, known, events)
        is_completed = pending.complete and checkpoint.complete_position < checkpoint.position
        # A protocol without replay ids in its keepalives only says that the old one was still the last.
        has_moved = (resume.replay_id, resume.known_at_ms) != (known.replay_id, known.known_at_ms)
        is_due = (resume.replay_id is not None and known.replay_id is None) or (
            has_moved and clock.now_ms() - (self._committed_ms or 0) > IDLE_COMMIT_MS
        )
        if events or is_completed or is_due:
            landed = LandingReport(self._channel)
            before = replace(checkpoint, repeats=checkpoint.repeats + self._repeats_to_note)
            try:
                after = self._landing.commit(before, events, resume, complete=pending.complete, report=landed)
            except ConcurrentCommit:
                self._go_on_from_others()
                raise
            report.complete_through_ms = max(report.complete_through_ms, pending.through_ms)
            pending.landed()
            self._checkpoint, self._committed_ms, self._repeats_to_note = after, clock.now_ms(), 0
            self._spent_again(len(events) - (after.position - before.position))
            report.add(landed)
            notify(EventsLanded(self._channel, landed.count))
            if self._subscription is not None:
                self._subscription.landed(after.resume)
        else:
            report.complete_through_ms = max(report.complete_through_ms, pending.through_ms)
            pending.landed()

    def _place(self) -> None:
        """Find where the channel stands, and what an earlier reading left; begin a channel that is new."""
        # Whoever gives the warehouse to another organization breaks the channel's order, so that no commit of a reader
        # that is open succeeds: it comes back here.
        claim_warehouse(self._warehouse, self._org.session.organization_id, clock.now_ms())
        self._checkpoint, self._committed_ms = self._landing.checkpoint()
        checkpoint = self._checkpoint
        known_ms = max(checkpoint.begun_at_ms or 0, checkpoint.resume.known_at_ms or 0)
        if checkpoint.resume.replay_id is None and known_ms and clock.now_ms() - known_ms > self._retention_ms:
            self._lose_checkpoint("no replay id is known, and the stream was heard of longer ago than events are kept")
        if checkpoint.transport != self._transport.name and (checkpoint.is_known or checkpoint.begun is not None):
            self._lose_checkpoint(
                f"the channel was read over {checkpoint.transport} and is read over {self._transport.name} now, whose "
                "replay ids are others"
            )
        is_new = self._checkpoint.resume.replay_id is None and self._checkpoint.begun is None
        if is_new:
            self._checkpoint = self._landing.begin(self._checkpoint, self._first_start(), self._transport.name)
        self._begun = self._landing.start(self._checkpoint, is_new=is_new)
        self._pending.place(self._checkpoint)
        self._looked_at = clock.current().monotonic()
        self._is_placed = True

    def _open(self, report: LandingReport) -> Subscription:
        """Open a subscription, once what an earlier reading was sent is landed, and the warehouse has taken a write."""
        if not self._is_placed:
            self._place()
            self._commit(report)
        try:
            self._pending.begin(self._checkpoint)
        except SfcdcError:
            self._close()  # by the next try a channel that is new was begun a while ago
            raise
        self._subscription = self._transport.subscribe(self._channel, self._begun, self._checkpoint.resume)
        return self._subscription

    def _follow_instance(self) -> str | None:
        """Return why the checkpoint is lost, if the org has moved to another instance: the call may have been mended
        there, with a replay id that meant another event."""
        instance = self._org.instance_name()
        if instance is None or instance == self._instance:
            return None
        organization_id, name = self._org.session.organization_id, self._org.instance_name
        lost = follow_instance(self._warehouse, self._channel, organization_id, name, clock.now_ms())
        if lost is not None:
            self._close()
        self._instance = name()
        return lost

    def _lose_checkpoint(self, reason: str) -> None:
        self._lost_checkpoint = reason
        self._close()
        self._checkpoint = self._landing.lose(reason)

    def _first_start(self) -> str:
        """Return where a channel without a checkpoint is begun: at EARLIEST, so that nothing retained is missed, unless
        the settings say otherwise or the org's allowance of delivered events is nearly used up; then at LATEST, and
        what lies before it is read from the org by the snapshots, which have their watermark after it.

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
        if subscription is None or quiet is None or quiet > _IN_FLIGHT_SECONDS or self._pause.left:
            return
        deadline = clock.current().monotonic() + _CLOSING_SECONDS
        try:
            with contextlib.suppress(TransportError):
                while subscription.outstanding and clock.current().monotonic() < deadline:
                    received = subscription.take(_IN_FLIGHT_SECONDS)
                    if received is None:
                        break
                    self._took(received)
            self._pending.complete = False  # nobody is told of it
            # Another process that committed first has landed them, or will be sent them.
            with contextlib.suppress(ConcurrentCommit):
                self._commit(LandingReport(self._channel))
        except Exception as error:
            self._keep(error)
            raise

    def _keep(self, error: BaseException) -> None:
        """Have what was delivered and not landed outlive this process."""
        if self._subscription is not None:
            self._pending.resume = self._subscription.resume_point
        self._pending.keep(self._checkpoint, error)

    def _close(self) -> None:
        subscription, self._subscription = self._subscription, None
        self._is_placed = False
        self._pending.clear()
        if subscription is not None:
            subscription.close()


def _nothing() -> None:
    """Do nothing: nobody waits for events."""


def landing_of(warehouse: Warehouse, org: OrgConnection, channel: str, run_id: str = "") -> Landing:
    """Return the landing for one reader of the channel."""
    if feeds_entities(channel):
        return ChangeEventLanding(warehouse, org, channel, run_id)
    return EventLanding(warehouse, org, channel, event_reader(warehouse, org, channel), run_id)
