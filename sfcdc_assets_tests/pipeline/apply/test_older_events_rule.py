"""Which events a copy stands for, though they come at positions after its watermark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import hypothesis.strategies as st
import polars as pl
from hypothesis import given

from sfcdc_assets.apply.batch_events import LONGEST_TRANSACTION, OlderEvents, older_events
from sfcdc_assets.lake.tables.snapshot_reads import Copied

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
OURS = timedelta(days=-400)
"""Our clock and the org's are never compared: here they are a year apart."""


def at(minutes: float) -> datetime:
    """The org's time, so many minutes after noon."""
    return NOON + timedelta(minutes=minutes)


def copied(position: int, minutes: float) -> Copied:
    return Copied(position, at(minutes), at(minutes) + OURS)


def events(*each: tuple[int, float, float]) -> pl.DataFrame:
    """Position, minute of the commit by the org's clock, minute of the arrival by ours."""
    return pl.DataFrame(
        [(position, at(commit), at(arrival) + OURS) for position, commit, arrival in each],
        schema=["position", "commit_timestamp", "received_at"],
        orient="row",
    )


def test_an_event_that_comes_after_a_copy_and_was_committed_long_before_it_is_older() -> None:
    found = events((1, -90, 1), (2, -90, 1), (3, -1, 2), (4, 1, 3))
    older = older_events(found, [copied(1, 0)], [])
    assert older == OlderEvents(frozenset({2}), frozenset({3})), "one may have been under way, one is newer"


def test_an_event_that_says_to_be_older_than_any_event_is_kept_is_applied() -> None:
    days = 24 * 60
    found = events((2, -4 * days, 1), (3, -6 * days, 1), (4, -30 * 365 * days, 1))
    assert older_events(found, [copied(1, 0)], []) == OlderEvents(frozenset({2}))
    assert older_events(found, [copied(1, 0), copied(8, 60)], [2]) == OlderEvents(frozenset({2}))


def test_an_event_that_had_come_before_the_copy_is_applied_on_top_of_it() -> None:
    assert older_events(events((2, -90, -1)), [copied(1, 0)], []) == OlderEvents()


def test_between_a_lost_checkpoint_and_the_next_copy_what_was_committed_before_the_last_one_is_older() -> None:
    found = events((6, -90, 60), (7, -1, 60), (8, 30, 60), (9, 61, 61))
    assert older_events(found, [copied(1, 0), copied(8, 60)], [5]) == OlderEvents(frozenset({6, 7}))


def test_after_a_lost_checkpoint_nothing_is_left_out_for_it_until_the_entity_is_copied_again() -> None:
    assert not older_events(events((6, -1, 60)), [copied(1, 0)], [5]).certain


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(-60, 60)), min_size=1, max_size=3),
    st.sets(st.integers(1, 20), max_size=2),
    st.lists(st.tuples(st.integers(1, 25), st.integers(-90, 90), st.integers(-90, 90)), min_size=1, max_size=9),
)
def test_what_is_left_out_is_in_a_copy_and_more_copies_leave_out_no_less(
    moments: list[tuple[int, int]], breaks: set[int], stream: list[tuple[int, int, int]]
) -> None:
    positions, minutes = sorted(p for p, _ in moments), sorted(m for _, m in moments)
    copies = [copied(position, minute) for position, minute in zip(positions, minutes, strict=True)]
    found = events(*{each[0]: each for each in stream}.values())
    both = older_events(found, copies, sorted(breaks))
    older = both.certain
    assert not older & both.possible
    for position, committed in (
        found.filter(pl.col("position").is_in(older | both.possible)).select("position", "commit_timestamp").rows()
    ):
        before = [copy for copy in copies if copy.position < position and committed < copy.asked_at]
        assert before
        is_long_before = any(committed < copy.asked_at - LONGEST_TRANSACTION for copy in before)
        is_answered = is_long_before or any(copy.position >= position for copy in copies)
        assert is_answered or position in both.possible, "a read answers for it, or its record says"
    assert older_events(found, copies[:1], sorted(breaks)).certain <= older
