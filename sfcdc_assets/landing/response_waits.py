"""How long a reading of a channel waits for the next response; a wait that is long is reported, with what it is for.

A reading has its own timeouts (`PollTimeouts`). It waits longer for what would be lost or undecided without: the place
of a channel begun at LATEST, a resume point that grows old, a transaction's end.
"""

from __future__ import annotations

from sfcdc_assets.landing.poll_timeouts import ANSWER_SECONDS, PollTimeouts
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.progress import StreamAwaited, notify
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.transport import SILENCE_SECONDS, Subscription

OLD_MS = 12 * 3_600_000
"""A reading that will be closed waits for an empty response, and so for a new resume point, when its own is older."""

CLOCK_SECONDS = 0.001
"""What clocks tell apart."""
SHORT_SECONDS = 2.0
"""A wait that lasts longer is reported, with what is waited for."""


class ResponseWaits:
    """The waits of one reader of a channel."""

    def __init__(self, channel: str, settle_seconds: float, *, is_placed_by_an_answer: bool) -> None:
        """`is_placed_by_an_answer`: a channel that was begun at LATEST has a place once it answers. Without events
        CometD gives no replay id: what only the stream brings is begun at its earliest event the next time, whether it
        has answered or not."""
        self._channel = channel
        self._settle_seconds = settle_seconds
        self._is_placed_by_an_answer = is_placed_by_an_answer
        self._awaited: str | None = None
        """What is waited for, as it was reported last."""

    def seconds(self, subscription: Subscription, checkpoint: StreamCheckpoint, timeouts: PollTimeouts) -> float:
        """Return how long to wait for the next response; 0 where the reading ends."""
        if not subscription.has_answered:
            first_answer = timeouts.first_answer
            if not timeouts.goes_on and not checkpoint.is_known and self._is_placed_by_an_answer:
                first_answer = ANSWER_SECONDS
            elif self._needs_an_answer(checkpoint, timeouts):
                first_answer = max(first_answer, timeouts.needed_answer)
            return max(0.0, first_answer - subscription.open_for())
        quiet = max(timeouts.quiet, self._settle_seconds) if timeouts.through_ms else timeouts.quiet
        if not timeouts.goes_on and _has_old_place(checkpoint):
            quiet = max(quiet, SILENCE_SECONDS)
        # The settling time is infinite for who waits for no transaction's end.
        through = (timeouts.through_ms - clock.now_ms()) / 1000 + self._settle_seconds if timeouts.through_ms else 0.0
        seconds = max(through, quiet - (subscription.quiet_for() or 0.0))
        return seconds if seconds >= CLOCK_SECONDS else 0.0  # less is a rounding error, which no wait ends

    def until_reported(self, seconds: float) -> float:
        """Return how much of a wait to wait now: one that turns out to be long is reported, and goes on."""
        return seconds if self._awaited else min(seconds, SHORT_SECONDS)

    def report(
        self, subscription: Subscription, checkpoint: StreamCheckpoint, timeouts: PollTimeouts, seconds: float
    ) -> None:
        """Report what a wait of so many seconds more is for, once."""
        what = "the end of the last transaction" if subscription.has_answered else "the stream's first answer"
        if timeouts.through_ms:
            what = "the stream to say that nothing older is on its way, which a consistent cut needs"
        elif _has_old_place(checkpoint):
            what = "a new replay id, as the last one is half a day old"
        self._report(what, seconds)

    def over(self) -> None:
        """Report that nothing is waited for any more."""
        self._report(None, 0.0)

    def _report(self, what: str | None, seconds: float) -> None:
        if what != self._awaited:
            self._awaited = what
            notify(StreamAwaited(self._channel, what, clock.now_ms() + round(seconds * 1000)))

    def _needs_an_answer(self, checkpoint: StreamCheckpoint, timeouts: PollTimeouts) -> bool:
        """Return whether something depends on hearing of the stream at all."""
        is_waited_for = timeouts.quiet >= self._settle_seconds and checkpoint.complete_position < checkpoint.position
        return bool(timeouts.through_ms) or is_waited_for or _has_old_place(checkpoint)


def _has_old_place(checkpoint: StreamCheckpoint) -> bool:
    """Return whether what the stream is resumed from was last known to be good long ago: its replay id or, where there
    is none yet because the only one may be unfinished, that it was begun."""
    known_at_ms = checkpoint.resume.known_at_ms or checkpoint.begun_at_ms
    return known_at_ms is not None and clock.now_ms() - known_at_ms > OLD_MS
