"""Watermarks: which position of the stream a read of the org stands for (guarantee 8).

REST shows a commit some seconds late (1 to 3 s were measured, docs/salesforce-streams.md, "REST lag"), so events that
were received within the last SFCDC_VISIBILITY_SECONDS before the read do not count as covered by it: the watermark lies
before them and they are applied on top of the read. Where the stream has just brought what it had stored, the read
waits instead: a watermark is the stream's tip when the reading begins. Only this machine's clock is asked, and only for
how long ago something was received.
"""

from __future__ import annotations

from datetime import timedelta

from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.poll_timeouts import WATERMARK
from sfcdc_assets.landing.run_lander import FailSafeLander, Lander
from sfcdc_assets.org_connection.run_context import RunContext
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.runtime.times import utc

WAITS = 100
"""The most pauses for one position; each lasts until the newest event is old enough, so one or two are usual."""

STORED = timedelta(minutes=1)
"""An event that was committed longer before it came was stored for whoever begins or comes back."""


class NoWatermark(SfcdcError):
    """The stream's checkpoint, or a position in it, is not known yet, so a read of the org has nothing to have its
    watermark to."""

    def __init__(self, channel: str, position: int, reason: str) -> None:
        self.channel = channel
        self.position = position
        super().__init__(
            f"{channel}: a read of the org cannot have a watermark in the stream yet ({reason}; landed up to position "
            f"{position}). The next attempt goes on from there."
        )


class Watermarks:
    """Positions of channels that reads begun now stand for.

    A channel is landed once, when it is first asked for. A later read may use the same watermark, unless it needs a
    higher one: the events after it apply on top of whatever the read saw.
    """

    def __init__(self, run: RunContext, lander: Lander | FailSafeLander) -> None:
        self._warehouse = run.warehouse
        self._lander = lander
        self._visibility_seconds = run.settings.visibility_seconds
        self._landed: dict[str, int] = {}
        self._stored: dict[str, int] = {}

    def of(self, channel: str, at_least: int = 0) -> int:
        """Return the watermark of a read that begins now; waits until it is `at_least` a position, which must be landed
        already.

        Raises `NoWatermark`.
        """
        if self._landed.get(channel, -1) < at_least:
            report = self._land(channel)
            if not report.has_checkpoint:
                raise NoWatermark(channel, report.position, "no keepalive has come since it was begun at LATEST")
        at_least = max(at_least, self._stored[channel])
        for _ in range(WAITS):
            position = self._visible(channel)
            if position >= at_least:
                return position
            clock.sleep(self._visibility_seconds / 4)
        raise NoWatermark(channel, position, f"position {at_least} was received too short a time ago, or not at all")

    def at_once(self, channel: str) -> int:
        """Return the watermark of a read that begins now and waits for nothing: events that it needs may lie after it.
        0 where what was stored for whoever begins is not old enough, or where there is no place in the stream yet."""
        if not self._land(channel).has_checkpoint:
            return 0
        position = self._visible(channel)
        return position if position >= self._stored[channel] else 0

    def _land(self, channel: str) -> LandingReport:
        report = self._lander.land(channel, WATERMARK)
        if report.has_checkpoint:
            self._landed[channel] = report.position
            self._stored[channel] = self._last_stored(channel)
        return report

    def _last_stored(self, channel: str) -> int:
        """Return the last landed position if the channel has just brought what had been stored for it, 0 otherwise: a
        read shows all of that, and events that are older than the read would undo changes that raised none. Whatever
        the clocks say, it costs no more than a wait until these events are old enough."""
        raw_events, now_ms = RawEvents.open(self._warehouse), clock.now_ms()
        recent = raw_events.first_position_received_after(channel, now_ms - int(self._visibility_seconds * 1000))
        if recent is None or recent > self._landed[channel]:
            return 0
        committed = raw_events.committed_at(channel, recent)
        stored_before = utc(now_ms) - STORED
        return self._landed[channel] if committed is None or committed < stored_before else 0

    def _visible(self, channel: str) -> int:
        """Return the last landed position all of whose events, and those before, were received long enough ago."""
        since = clock.now_ms() - int(self._visibility_seconds * 1000)
        recent = RawEvents.open(self._warehouse).first_position_received_after(channel, since)
        return self._landed[channel] if recent is None else min(self._landed[channel], recent - 1)
