"""Which objects are asked: those whose interval is over, with those whose is nearly, and nobody for ever again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.polls.due import SLACK, due_objects

INTERVAL = 900_000
ASKED = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 10 * INTERVAL))


def test_one_that_was_never_asked_comes_first() -> None:
    assert due_objects(["a", "b"], {"a": 100}, INTERVAL + 200, INTERVAL) == ("b", "a")


def test_nobody_is_asked_while_nobody_is_due() -> None:
    assert due_objects(["a", "b"], {"a": 1000, "b": 1000}, INTERVAL, INTERVAL) == ()


def test_one_that_will_be_due_in_a_moment_goes_along() -> None:
    soon = INTERVAL // SLACK - 1
    assert due_objects(["a", "b", "c"], {"a": 0, "b": soon, "c": INTERVAL // 2}, INTERVAL, INTERVAL) == ("a", "b")


@given(asked=ASKED, now=st.integers(0, 10 * INTERVAL))
def test_who_is_asked_was_asked_long_ago_or_in_the_future_of_a_clock_that_went_back(
    asked: dict[str, int], now: int
) -> None:
    due = due_objects(list(asked), asked, now, INTERVAL)
    assert len(set(due)) == len(due)
    for entity, at in asked.items():
        is_over = at > now or now - at >= INTERVAL
        assert not is_over or entity in due
        if entity in due:
            assert at > now or now - at >= INTERVAL - INTERVAL // SLACK
