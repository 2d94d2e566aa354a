"""Reading one channel, as its owner asks for it: its stream is kept open between calls, and what it brings landed.

A sensor, a run or a command owns a reader. Each call reads on from where the channel stands (`SubscriptionReader`).
What a call fails at begins a pause, and what was delivered until then is kept; what was landed and no report has named
yet is in the next one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from sfcdc_assets.lake.store.channel_reads import ReadNote
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.change_event_landing import ChangeEventLanding
from sfcdc_assets.landing.channel_progress import ChannelProgress
from sfcdc_assets.landing.event_landing import EventLanding
from sfcdc_assets.landing.event_readers import event_reader
from sfcdc_assets.landing.land import Landing, LandingReport
from sfcdc_assets.landing.poll_timeouts import AHEAD, PollTimeouts
from sfcdc_assets.landing.retry_pause import RetryPause
from sfcdc_assets.landing.subscription_reader import SubscriptionReader
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.settings.channel_kinds import feeds_entities

log = logging.getLogger(__name__)


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
        self._org = org
        self._channel = channel
        self._settle_seconds = settle_seconds
        self._transport = org.new_transport(channel)
        landing = landing_of(warehouse, org, channel, run_id)
        self._progress = ChannelProgress(warehouse, org, landing, channel, self._transport.name, settle_seconds)
        self._stream = SubscriptionReader(warehouse, org, self._transport, self._progress, settle_seconds)
        self._read_note = ReadNote(warehouse, channel)
        self._pause = pause or RetryPause()
        self._complete_through_ms = 0
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
                self._stream.land(timeouts, report, self.on_events)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is raised
                self._ahead = report
                raise self._failed(error, timeouts) from error.__cause__
            except BaseException:
                # It may have struck between taking an event and noting it.
                self._stream.close()
                raise
            finally:
                self._stream.waits.over()
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
                self._stream.land_arrived(landed, self.on_events)
        except Exception as error:  # noqa: BLE001 - whatever it is, `land` raises it
            self._may_land_ahead = False
            self._failed_ahead = error
            self._failed(error, AHEAD)
        except BaseException:
            self._stream.close()
            raise
        finally:
            landed.api_requests = self._org.session.calls_of_this_thread - calls
            self._ahead.add(landed)
            self._lock.release()
        return len(landed.events) if self._may_land_ahead and self._stream.subscription is not None else None

    def type_waiting(self) -> None:
        """Type what landed before it was known what its fields are, whether or not the stream can be read.

        What fails is logged, holds up nothing else and is tried again after a pause. Where another call is at work
        there is nothing to do.
        """
        if not self._lock.acquire(blocking=False):
            return
        calls = self._org.session.calls_of_this_thread
        try:
            self._progress.landing.type_waiting()
        except Exception:
            log.warning("%s: events that wait to be typed go on waiting", self._channel, exc_info=True)
        finally:
            self._ahead.api_requests += self._org.session.calls_of_this_thread - calls
            self._lock.release()

    def has_arrived(self, seconds: float) -> bool:
        """Wait until there is something to land ahead, for `seconds` at most: events that have arrived, or a silence
        that was long enough for the last transaction to count as complete. From any thread, beside other calls."""
        subscription, checkpoint = self._stream.subscription, self._progress.checkpoint
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
        subscription = self._stream.subscription
        return subscription is not None and subscription.is_open

    @property
    def responses(self) -> int:
        """Responses that have arrived on the open call, those not landed yet included."""
        subscription = self._stream.subscription
        return 0 if subscription is None else subscription.responses

    def close(self) -> None:
        """Land what is on its way already, then end the subscription."""
        with self._lock:
            try:
                if not self._pause.left:
                    self._stream.finish()
            finally:
                self._stream.close()
                self._transport.close()

    def drop(self) -> None:
        """End the subscription at once; what is on its way comes again."""
        with self._lock:
            self._stream.close()
            self._transport.close()

    def _failed(self, error: Exception, timeouts: PollTimeouts) -> Exception:
        """Keep what was delivered and begin a pause; the error, which says how long that is where somebody reads on."""
        self._stream.keep(error)
        self._pause.failed(error)
        return self._pause.said(error) if timeouts.goes_on else error

    def _report(self, report: LandingReport) -> None:
        """Complete it with where the channel stands, and what was not reported yet."""
        self._progress.report(report)
        self._complete_through_ms = max(self._complete_through_ms, report.complete_through_ms)
        report.complete_through_ms = self._complete_through_ms
        subscription = self._stream.subscription
        report.has_answered = subscription is not None and subscription.has_answered


def _nothing() -> None:
    """Do nothing: nobody waits for events."""


def landing_of(warehouse: Warehouse, org: OrgConnection, channel: str, run_id: str = "") -> Landing:
    """Return the landing for one reader of the channel."""
    if feeds_entities(channel):
        return ChangeEventLanding(warehouse, org, channel, run_id)
    return EventLanding(warehouse, org, channel, event_reader(warehouse, org, channel), run_id)
