"""Contestants in turn: whatever else slows the machine down meets all of them alike."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping

Trial = Callable[[], float]
"""Does the work once and returns its measure, in the figure's unit."""


def interleaved(contestants: Mapping[str, Trial], *, rounds: int) -> dict[str, list[float]]:
    """Each contestant's measures, one a round; every second round goes through them backwards.

    What a contestant needs once (imports, connections, a first query) belongs before this; what it needs for each
    trial, such as a fresh copy of a table, into the trial but outside of what it measures.
    """
    measured: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name in contestants if number % 2 == 0 else reversed(list(contestants)):
            measured[name].append(contestants[name]())
    return measured


def wall_seconds(work: Callable[[], object]) -> Trial:
    """A trial that measures the seconds `work` takes on the clock."""

    def trial() -> float:
        begun = time.perf_counter()
        work()
        return time.perf_counter() - begun

    return trial


def cpu_seconds(work: Callable[[], object]) -> Trial:
    """A trial that measures CPU seconds of this process and of the children that ended meanwhile."""

    def trial() -> float:
        begun = _cpu()
        work()
        return _cpu() - begun

    return trial


def rate(count: int, seconds: Trial) -> Trial:
    """A trial that measures how many of `count` things a second of `seconds` does."""
    return lambda: count / seconds()


def _cpu() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )
