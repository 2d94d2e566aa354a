"""Which events a copy stands for, though they come at positions after its watermark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import hypothesis.strategies as st
import polars as pl
from hypothesis import given

from sfcdc_assets.apply.batch_events import LONGEST_TRANSACTION, OlderEvents, older_events, older_than_read_backs
from sfcdc_assets.lake.tables.snapshot_reads import READ_MOMENTS, Copied
from sfcdc_assets.timeline.known_changes import without_read

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


def read_back(record_id: str, position: int, minutes: float) -> tuple[str, int, datetime, datetime]:
    return record_id, position, at(minutes), at(minutes) + OURS


def of_records(found: pl.DataFrame, *records: list[str]) -> pl.DataFrame:
    return found.with_columns(record_ids=pl.Series(records, dtype=pl.List(pl.String)))


def moments(*each: tuple[str, int, datetime, datetime]) -> pl.DataFrame:
    return pl.DataFrame(each, schema=READ_MOMENTS.names, orient="row")


def test_a_read_back_stands_for_older_changes_of_its_record_and_of_no_other() -> None:
    found = of_records(events((2, -90, 1), (3, -90, 1)), ["a", "b"], ["b"])
    assert older_than_read_backs(found, moments(read_back("a", 1, 0))) == OlderEvents(of_records=(("a", 2, 1),))


def test_what_came_before_a_read_back_or_was_committed_after_it_is_applied_on_top_of_it() -> None:
    found = of_records(events((1, -90, 1), (2, -90, -1), (3, 1, 2)), ["a"], ["a"], ["a"])
    assert older_than_read_backs(found, moments(read_back("a", 1, 0))) == OlderEvents()


def test_a_record_says_for_itself_what_it_is_against_an_event_of_shortly_before_its_read_back() -> None:
    found = of_records(events((2, -10, 1), (3, -0.5, 1)), ["a"], ["a"])
    older = older_than_read_backs(found, moments(read_back("a", 1, 0)))
    assert older == OlderEvents(possible=frozenset({2})), "a stream that is followed is as late as the other one"


def test_of_several_read_backs_the_first_that_stands_for_a_change_is_named() -> None:
    found = of_records(events((7, -90, 20)), ["a"])
    reads = moments(read_back("a", 5, 10), read_back("a", 3, 0), read_back("a", 1, -89))
    assert older_than_read_backs(found, reads) == OlderEvents(of_records=(("a", 7, 3),))


def test_a_read_back_that_its_row_was_ahead_of_leaves_no_change_out() -> None:
    rows = pl.DataFrame({"Id": ["a", "b", "c"], "_read_position": [3, 2, None]})
    changes = pl.DataFrame({"record_id": ["a", "b", "c", "a"], "position": [7, 7, 7, 8]})
    left = without_read(rows, changes, [("a", 7, 3), ("b", 7, 3), ("c", 7, 3), ("d", 7, 3)])
    assert left.rows() == [("b", 7), ("c", 7), ("a", 8)]
