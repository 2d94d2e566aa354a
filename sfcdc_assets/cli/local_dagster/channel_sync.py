"""When a sync is done with a channel: after one turn, or when nothing is left to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sfcdc_assets.cli.local_dagster.channel_turn import Turn
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import NOW, PollTimeouts, until_settled
from sfcdc_assets.orchestration.jobs.run_config import SNAPSHOT
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError, counted
from sfcdc_assets.settings.channel_kinds import feeds_entities
from sfcdc_assets.settings.settings import Settings

ROUNDS = 1000
"""The most turns that one `sync --until-caught-up` gives a channel."""
WAIT_SECONDS, WAITS = 2.0, 300
"""`sync --until-caught-up` looks this often, and so many times, whether another process's run has done what is due."""


class AnotherRunAtWork(SfcdcError):
    """What is due is left to a run of another process, which lives and has not come to an end."""

    def __init__(self, channel: str, run_id: str, waited_seconds: float) -> None:
        """`waited_seconds`: how long the sync has waited for it."""
        self.channel, self.run_id = channel, run_id
        since = f" since {waited_seconds / 60:.0f} min" if waited_seconds else ""
        super().__init__(
            f"{channel}: run {run_id} of another process is at work on it{since}, and what is due is not done. Look at "
            "the run in Dagster, and terminate it if it hangs; the next sync goes on from there."
        )


class NotCaughtUp(SfcdcError):
    """After as many turns as one sync gives a channel something is due still."""

    def __init__(self, channel: str, turns: int) -> None:
        self.channel = channel
        super().__init__(
            f"{channel}: after {counted(turns, 'turn')} there is work left. What was done stays; run "
            "`sfcdc sync --until-caught-up` again, which goes on from there."
        )


class ChannelSync:
    """What has become of one channel in a sync, and whether it is read again."""

    def __init__(self, channel: str, settings: Settings, *, until_caught_up: bool) -> None:
        self.channel = channel
        self.turns: list[Turn] = []
        self._settings = settings
        self._until_caught_up = until_caught_up and feeds_entities(channel)
        self._only_events = self._waits = 0
        self._said = ""

    @property
    def failures(self) -> tuple[SfcdcError, ...]:
        """What the last reading, look and runs failed with."""
        return self.turns[-1].all_failures

    def after(self, turn: Turn, timeouts: PollTimeouts) -> tuple[PollTimeouts, float] | None:
        """Return how to read the channel again, and after how many seconds; None when that is enough."""
        failed_before = bool(self.turns and self.turns[-1].failures)
        self.turns.append(turn)
        settled = until_settled(self._settings.settle_seconds, NOW)
        has_settled = timeouts.quiet >= settled.quiet or not turn.is_open
        if has_settled:
            self._only_events = self._only_events + 1 if turn.jobs and SNAPSHOT not in turn.jobs else 0
        if not self._until_caught_up:
            if SNAPSHOT in turn.jobs and len(self.turns) == 1:
                return timeouts, 0.0  # what was copied becomes tables with the next look
            return self._left(AnotherRunAtWork(self.channel, turn.waits_for, 0.0)) if turn.waits_for else None
        if self._only_events == 2:
            return None
        if len(self.turns) == ROUNDS:
            is_left = turn.jobs or turn.waits_for or not has_settled
            return self._left(NotCaughtUp(self.channel, ROUNDS)) if is_left else None
        if turn.failures and (failed_before or not turn.jobs):
            return None
        if turn.waits_for is not None and not turn.jobs:
            self._waits += 1
            if self._waits < WAITS:
                return settled, WAIT_SECONDS
            return self._left(AnotherRunAtWork(self.channel, turn.waits_for, WAITS * WAIT_SECONDS))
        self._waits = 0
        has_nothing_to_do = not turn.jobs and has_settled
        if has_nothing_to_do and (not turn.owes_cut or timeouts.through_ms):
            return None
        # Rows that were just read back may be ahead of the stream; when all that is older is landed, they are not.
        settled = replace(settled, through_ms=clock.now_ms() if has_nothing_to_do else 0)
        return settled, WAIT_SECONDS if turn.waits_for is not None else 0.0

    def _left(self, why: SfcdcError) -> tuple[PollTimeouts, float] | None:
        """Note that the last turn leaves something undone, and end with that."""
        self.turns[-1] = replace(self.turns[-1], failures=(*self.turns[-1].failures, why))
        return None

    def lines(self, turn: Turn, *, is_last: bool) -> Iterator[str]:
        """Lines for a person: nothing twice in a row, as by the reading that a cut waits for."""
        if turn.said and turn.said != self._said:
            yield turn.said
        self._said = turn.said
        if not is_last or self._until_caught_up or not feeds_entities(self.channel) or turn.failures:
            return
        checkpoint = RawEvents.open(Warehouse(self._settings.warehouse)).stored_checkpoint(self.channel)
        if checkpoint.position > checkpoint.complete_position:
            yield (
                f"the last transaction, from position {checkpoint.complete_position + 1} on, may not be complete yet "
                "and is left for the next time; --until-caught-up waits for it."
            )
