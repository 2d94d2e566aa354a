"""What a test may cost, so that `make test` stays a matter of minutes while the project grows.

Seconds of CPU count, of the test's process and of the processes that it has waited for: a busy machine makes a test
longer and hardly more expensive. A test that takes more than it should is named at the end and passes; one that takes
twice as much fails, because no machine's bad day explains that. A slower machine than the one that the limits were set
on has more (`slowness`). They hold for the examples of `make test`: a run that names a hypothesis profile, as
`make soak` does, asks for more.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Generator
from functools import cache

import pytest
from _pytest.terminal import TerminalReporter

LONG = ("slow", "soak")
"""Marks of tests that `make test` does not run."""
SECONDS = 30.0
"""Of one test without these marks, in its own process; its fixtures have as much again."""
SECONDS_OF_CHILDREN = 200.0
"""In the processes that it has waited for: syncs that are killed take 40, all that Dagster starts 100."""
FAILS_AT = 2.0
"""How many times as much fails a test: 60 seconds of its own. Less is said."""
ALL_SECONDS = 800.0
"""Of all tests without them. Two cores have 1,200 in ten minutes; Spark and what else runs beside the tests needs
the rest. More than this is said at the end, and fails nothing, because a busy machine may add a third."""
DEAREST = 5
"""Files that the summary names, and tests that take more than they should."""

LOOP_SECONDS = 0.06
"""Of CPU, for the loop of `slowness`, where the limits were set and nothing else ran."""

_SPENT, _OVER = "cpu_seconds", "cpu_seconds_over"


@cache
def slowness() -> float:
    """How many times the CPU of the machine that the limits were set for this one takes for a loop, now that it is as
    busy as it is: the best of some tries, at least 1."""
    return max(1.0, min(_of_a_loop() for _ in range(5)) / LOOP_SECONDS)


def _of_a_loop() -> float:
    begun = time.process_time()
    total = 0
    for number in range(1_000_000):
        total += number * number % 7
    return time.process_time() - begun


def _spent() -> tuple[float, float]:
    times = os.times()
    return times.user + times.system, times.children_user + times.children_system


def _within_budget(item: pytest.Item) -> Generator[None]:
    before = _spent()
    yield
    own, of_children = (now - then for now, then in zip(_spent(), before, strict=True))
    if any(item.get_closest_marker(mark) is not None for mark in LONG):
        return
    item.user_properties.append((_SPENT, own + of_children))
    free = item.config.getoption("--hypothesis-profile") is not None
    for spent, most, where in ((own, SECONDS, ""), (of_children, SECONDS_OF_CHILDREN, " in processes that it started")):
        if free or spent <= most or spent <= most * slowness():
            continue
        item.user_properties.append((_OVER, f"{spent:.0f} s of CPU{where}, more than {most:.0f} s"))
        if spent > FAILS_AT * most * slowness():
            pytest.fail(
                f"{item.name} took {spent:.0f} s of CPU{where}, on a machine {slowness():.1f} times as slow as the one "
                f"that the limits are of; {FAILS_AT * most:.0f} s are the most that `make test` allows a test. Make it "
                "cheaper, or give it the mark `slow` if it is slow by nature: then `make test-slow` runs it.",
                pytrace=False,
            )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Fixtures within their budget."""
    yield from _within_budget(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """The test within its budget."""
    yield from _within_budget(item)


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """What the run cost, the files that most of it went to, and the tests that took more than they should."""
    files: Counter[str] = Counter()
    over: dict[str, str] = {}
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        spent = sum(value for name, value in report.user_properties if name == _SPENT)
        files[report.nodeid.partition("::")[0].removeprefix("sfcdc_assets_tests/")] += spent
        over.update((report.nodeid, value) for name, value in report.user_properties if name == _OVER)
    if files.total() > SECONDS:
        dearest = ", ".join(f"{name} {spent:.0f}" for name, spent in files.most_common(DEAREST))
        terminalreporter.write_line(f"{files.total():.0f} s of CPU, without Spark's. The most: {dearest}")
    for test, spent in list(over.items())[:DEAREST]:
        terminalreporter.write_line(f"{test} took {spent}: make it cheaper before it fails.", yellow=True)
    if files.total() > ALL_SECONDS:
        terminalreporter.write_line(
            f"These are more than {ALL_SECONDS:.0f} s, so `make test` may take over ten minutes on two cores: make the "
            "dearest tests cheaper, or give what is slow by nature the mark `slow`.",
            yellow=True,
        )
