"""Which objects are asked: each once in an interval, all that are due together, quiet ones less often, none never."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.polls.due import QUIET, Asked, due_objects, intervals_between

INTERVAL = 900_000
MOST = max(factor for _, factor in QUIET)
ASKED = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.builds(Asked, st.integers(1, 10 * INTERVAL), st.integers(0, 8), st.integers(0, 100 * INTERVAL)),
)


def test_one_that_was_never_asked_comes_first() -> None:
    assert due_objects(["a", "b"], {"a": Asked(100)}, INTERVAL + 200, INTERVAL) == ("b", "a")


def test_nobody_is_asked_twice_in_an_interval() -> None:
    assert due_objects(["a", "b"], {"a": Asked(1000), "b": Asked(INTERVAL - 1)}, INTERVAL - 1, INTERVAL) == ()


def test_those_that_were_asked_at_different_times_are_asked_together_from_then_on() -> None:
    asked = {"a": Asked(5), "b": Asked(INTERVAL // 2), "c": Asked(INTERVAL - 5)}
    assert due_objects("abc", asked, INTERVAL, INTERVAL) == ("a", "b", "c")


def test_an_object_is_asked_less_often_the_longer_it_is_quiet_and_at_its_interval_after_a_change() -> None:
    quiet = [each * INTERVAL for each in (0, 7, 8, 31, 32, 10_000)]
    assert [intervals_between(Asked(1, quiet_ms=each), INTERVAL) for each in quiet] == [1, 1, 2, 2, 4, 4]


def test_quiet_objects_are_spread_over_the_intervals_so_that_no_tick_has_them_all() -> None:
    names, asked = [f"Object_{number:03}" for number in range(300)], dict[str, Asked]()
    ticks = []
    for tick in range(100, 140):
        now = tick * INTERVAL + 7
        due = due_objects(names, asked, now, INTERVAL)
        ticks.append(len(due))
        asked |= dict.fromkeys(due, Asked(now, quiet_ms=100 * INTERVAL))
    assert ticks[0] == 300
    assert all(40 < each < 110 for each in ticks[4:]), ticks
    assert sum(ticks[4:]) == 300 * 36 // MOST


def test_one_that_failed_waits_for_pauses_that_double() -> None:
    times = [1]
    for tick in range(2, 40_000):
        now = tick * INTERVAL // 10
        if due_objects("a", {"a": Asked(times[-1], failures=len(times))}, now, INTERVAL):
            times.append(now)
    pauses = [round((after - before) / INTERVAL) for before, after in pairwise(times)]
    assert pauses[:8] == [2, 4, 8, 16, 32, 64, 64, 64]


@given(asked=ASKED, now=st.integers(1, 500 * INTERVAL))
def test_whoever_has_waited_for_as_long_as_it_may_is_asked(asked: dict[str, Asked], now: int) -> None:
    due = due_objects(list(asked), asked, now, INTERVAL)
    assert len(set(due)) == len(due)
    for entity, each in asked.items():
        if each.at_ms > now:
            assert entity in due, "a clock that went back"
        elif now - each.at_ms >= max(MOST, 1 << min(each.failures, 6)) * INTERVAL:
            assert entity in due
