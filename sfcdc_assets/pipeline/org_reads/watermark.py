"""Watermarks: which position of the stream a read of the org stands for (guarantee 8).

REST shows a commit some seconds late (1 to 3 s were measured, docs/salesforce-streams.md, "REST lag"), so events that
were received within the last SFCDC_VISIBILITY_SECONDS before the read do not count as covered by it: the watermark lies
before them and they are applied on top of the read. Only this machine's clock is asked, and only for how long ago
something was received.
"""

from __future__ import annotations

from collections.abc import Callable

from sfcdc_assets import clock
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.landing.lander import Lander
from sfcdc_assets.pipeline.landing.patience import WATERMARK

WAITS = 100
"""The most pauses for one position; each lasts until the newest event is old enough, so one or two are usual."""


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

    def __init__(
        self,
        warehouse: Warehouse,
        lander: Lander,
        visibility_seconds: float,
        *,
        clock_ms: Callable[[], int] = clock.now_ms,
        sleep: Callable[[float], None] = clock.sleep,
    ) -> None:
        self._warehouse = warehouse
        self._lander = lander
        self._visibility_seconds = visibility_seconds
        self._clock_ms = clock_ms
        self._sleep = sleep
        self._landed: dict[str, int] = {}

    def of(self, channel: str, at_least: int = 0) -> int:
        """The watermark of a read that begins now; waits until it is `at_least` a position, which must be landed
        already.

        Raises `NoWatermark`.
        """
        if self._landed.get(channel, -1) < at_least:
            report = self._lander.land(channel, WATERMARK)
            if not report.has_checkpoint:
                raise NoWatermark(channel, report.position, "no keepalive has come since it was begun at LATEST")
            self._landed[channel] = report.position
        for _ in range(WAITS):
            position = self._visible(channel)
            if position >= at_least:
                return position
            self._sleep(self._visibility_seconds / 4)
        raise NoWatermark(channel, position, f"position {at_least} was received too short a time ago, or not at all")

    def _visible(self, channel: str) -> int:
        """The last landed position all of whose events, and those before, were received long enough ago."""
        since = self._clock_ms() - int(self._visibility_seconds * 1000)
        recent = RawEvents.open(self._warehouse).first_position_received_after(channel, since)
        return self._landed[channel] if recent is None else min(self._landed[channel], recent - 1)
