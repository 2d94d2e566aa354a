"""What arrives between two ticks of a sensor is landed within a second, and not by the next tick.

The daemon asks each sensor every five seconds, which was most of what a change waited for. A thread waits for the open
call, so that a stream that is silent costs nothing, and lands what has come; the next tick reports it, and raises what
failed. It goes on for some ticks' time after the last one that worked: who switches the sensor off, or stops the
daemon, stops the landing too.
"""

from __future__ import annotations

import logging
import threading

from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.salesforce.rest_deadline import UnansweredTime, unanswered_at_most

log = logging.getLogger(__name__)

AFTER_TICK_SECONDS = 15.0
"""How long landing goes on after a tick: three times what the daemon leaves between two."""
FILE_SECONDS = 0.25
"""From one landing to the next at least, for each entity that it has events of: each is a file, and `pack` has a run to
do for every 500."""
REST_SECONDS = 5.0
"""How long a landing waits in all for requests that the org does not answer; a tick waits for the landing."""


class LandingBetweenTicks:
    """Of one channel; at most one thread at a time."""

    def __init__(self, reader: ChannelReader, pace: float) -> None:
        """`pace`: seconds from one landing to the next at least, as each is a commit."""
        self._reader = reader
        self._pace = pace
        self._changed = threading.Condition()
        self._until = float("-inf")
        self._is_at_work = False

    def go_on(self) -> None:
        """Land what comes after a tick that has read the channel. Where no thread can be begun, ticks land, as they
        do without."""
        with self._changed:
            self._until = clock.current().monotonic() + AFTER_TICK_SECONDS
            if self._is_at_work:
                return
            begun = outcome_of(clock.current().start_thread, "landing between ticks", self._work)
            self._is_at_work = not isinstance(begun, Exception)
        if isinstance(begun, Exception):
            log.warning("What arrives between two ticks is landed by the next one: %s", begun)

    def stop(self) -> None:
        """Begin no other landing; whoever closes the reader waits for one that is under way."""
        with self._changed:
            self._until = float("-inf")
            self._changed.notify_all()

    def _work(self) -> None:
        try:
            while (left := self._left()) > 0:
                if self._reader.has_arrived(left):
                    with unanswered_at_most(UnansweredTime(REST_SECONDS)):
                        entities = self._reader.land_ahead()
                    if entities is None:
                        break
                    self._rest(max(self._pace, FILE_SECONDS * entities))
        finally:
            with self._changed:
                self._is_at_work = False  # a tick that came just now has the next one begin it again

    def _left(self) -> float:
        """Seconds for which landing goes on; 0 where there is no call to land from."""
        return self._until - clock.current().monotonic() if self._reader.is_open else 0.0

    def _rest(self, seconds: float) -> None:
        with self._changed:
            clock.current().wait_for(self._changed, lambda: self._until < 0, seconds)
