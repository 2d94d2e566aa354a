"""How a watched channel goes on after a turn: at once, after a pause, or not without a person."""

from __future__ import annotations

from collections.abc import Callable

from sfcdc_assets.cli.local_dagster.channel_turn import Turn
from sfcdc_assets.cli.local_dagster.local_runs import RunFailed
from sfcdc_assets.runtime.errors import SfcdcError

PAUSE_SECONDS = 2.0
"""Between two readings of a channel by `sync --watch`; twice as long each time what is due could not be found out."""
LONGEST_PAUSE_SECONDS = 64.0
FAILED_RUNS = 10
"""After so many rounds with failed runs, one after another, `sync --watch` ends."""


class ChannelWatch:
    """What has become of one channel that is watched."""

    def __init__(self, channel: str, report: Callable[[str], None]) -> None:
        self.failures: tuple[SfcdcError, ...] = ()
        self._channel = channel
        self._report = report
        self._was_read = self._was_tried = False
        self._last_said: tuple[object, ...] = ()
        self._failed_rounds = self._failed_looks = 0

    @property
    def may_go_on(self) -> bool:
        """Whether there is hope without a person, or a new process."""
        return (self._was_read or not self._was_tried) and self._failed_rounds < FAILED_RUNS

    def after(self, turn: Turn) -> float:
        """Report the turn, and return the pause in seconds before the channel is read again."""
        self._was_tried = True
        self.failures = turn.all_failures
        of_runs = [failure for failure in turn.failures if isinstance(failure, RunFailed)]
        if turn.jobs or self.failures:
            self._say(turn)
        if turn.jobs:
            has_lost_all = any(not failure.is_of_entities for failure in of_runs)
            self._failed_rounds = self._failed_rounds + 1 if has_lost_all else 0
        self._was_read |= len(of_runs) == len(turn.failures)
        # A stream that fails has a pause of its own, in which what has landed is looked at as ever.
        self._failed_looks = 0 if turn.has_looked else self._failed_looks + 1
        return float(min(PAUSE_SECONDS * 2**self._failed_looks, LONGEST_PAUSE_SECONDS))

    def _say(self, turn: Turn) -> None:
        """Once: a failure whose next try has only come nearer is the same one."""
        said = [turn.said] if turn.jobs else []
        this = (*said, *((type(each), each.__dict__ or str(each)) for each in self.failures))
        if this != self._last_said:
            self._report(f"{self._channel}: {'; '.join([*said, *map(str, self.failures)])}")
        self._last_said = this
