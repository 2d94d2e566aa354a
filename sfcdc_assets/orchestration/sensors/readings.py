"""Channels that are read side by side, each by a thread of its own: a quiet one, one that hangs and one that fails hold
up no other. What each reading came to is handed to one thread, which looks at the tables and does the runs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextvars import copy_context
from dataclasses import dataclass

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import PollTimeouts
from sfcdc_assets.landing.retry_pause import OF_THE_LOGIN
from sfcdc_assets.landing.run_lander import Reading
from sfcdc_assets.orchestration.sensors.open_channel import OpenChannel
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.spark.early_start import EarlySpark
from sfcdc_assets.spark.java import check_java

_LONG_SECONDS = 3_600.0


@dataclass(frozen=True)
class ChannelRead:
    """A channel after a reading of it, or what kept it from being opened or read at all."""

    channel: str
    timeouts: PollTimeouts
    outcome: tuple[OpenChannel, Reading] | Exception


@dataclass(frozen=True)
class _Begun:
    channel: str
    timeouts: PollTimeouts
    pause: float


class Readings:
    """Readings under way. Of a single channel each is made by the thread that asks for its result."""

    def __init__(
        self, channels: OpenChannels, settings: Settings, names: Sequence[str], early: EarlySpark | None = None
    ) -> None:
        """`names`: the channels that will be read. `early`: started when events come."""
        self._channels = channels
        self._settings = settings
        self.names = tuple(names)
        self.early = early
        self._on_events: Callable[[], object] = early.start if early is not None else lambda: None
        self._changed = threading.Condition()
        self._begun: deque[_Begun] = deque()
        self._read: deque[ChannelRead] = deque()
        self._under_way = 0
        self._opening = threading.Lock()

    def begin(self, channel: str, timeouts: PollTimeouts, pause: float = 0.0) -> None:
        """Read a channel, after a pause (seconds)."""
        begun = _Begun(channel, timeouts, pause)
        self._under_way += 1
        if len(self.names) == 1:
            self._begun.append(begun)
        else:
            context = copy_context()
            clock.current().start_thread(f"reading {channel}", lambda: context.run(self._hand_over, begun))

    @property
    def under_way(self) -> bool:
        """Whether there is, or will be, a result to take."""
        return self._under_way > 0

    def wait(self) -> None:
        """Wait until a result is there to be taken."""
        if self._begun:
            self._hand_over(self._begun.popleft())
        with self._changed:
            while not self._read:
                clock.current().wait_for(self._changed, lambda: bool(self._read), _LONG_SECONDS)

    def take(self) -> ChannelRead:
        """Return the result that came first of those that were not taken. Waits for it."""
        self.wait()
        self._under_way -= 1
        with self._changed:
            return self._read.popleft()

    def _hand_over(self, begun: _Begun) -> None:
        outcome = outcome_of(self._made, begun)
        with self._changed:
            self._read.append(ChannelRead(begun.channel, begun.timeouts, outcome))
            self._changed.notify_all()

    def _made(self, begun: _Begun) -> tuple[OpenChannel, Reading]:
        if begun.pause:
            clock.sleep(begun.pause)
        opened = self._opened(begun.channel)
        opened.reader.on_events = self._on_events
        try:
            with opened.in_use():
                return opened, opened.read(begun.timeouts)
        except OF_THE_LOGIN:
            self._channels.drop(begun.channel)
            raise

    def _opened(self, channel: str) -> OpenChannel:
        """One after another: what the org refuses to one channel it refuses to all, and a password that is tried again
        for each of them locks its user out."""
        with self._opening:
            return self._channels.of_settings(channel, self._settings)


def begin_readings(
    channels: OpenChannels,
    settings: Settings,
    timeouts: PollTimeouts,
    early: EarlySpark | None = None,
    only: Collection[str] | None = None,
) -> Readings:
    """Begin to read the configured channels, or those of them that are in `only`. Raises what would stop the work later
    as well: `JavaMissing`, `WarehouseNotWritable`."""
    _check_ready(settings)
    names = [channel for channel in settings.channels if only is None or channel in only]
    readings = Readings(channels, settings, names, early)
    for channel in names:
        readings.begin(channel, timeouts)
    return readings


def _check_ready(settings: Settings) -> None:
    """Raise what would stop the work later: `JavaMissing`, `WarehouseNotWritable`."""
    if settings.feeding_channels and not settings.spark_remote:
        check_java()
    Warehouse(settings.warehouse).check_writable()
