"""Where in the stream events wait for a snapshot."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.apply.reads_in_order import END_OF_STREAM, waiting_spans
from sfcdc_assets.lake.tables.snapshot_reads import CompleteSnapshot

POSITIONS = st.lists(st.integers(1, 12), max_size=6)


def snapshots(*watermarks: int) -> list[CompleteSnapshot]:
    return [CompleteSnapshot(number, position, ()) for number, position in enumerate(watermarks, 1)]


def test_events_wait_from_an_entry_to_the_first_snapshot_that_answers_it_or_on_and_on() -> None:
    assert waiting_spans(snapshots(20, 10), [5, 15, 7, 30]) == ((4, 10), (14, 20), (29, END_OF_STREAM))


def test_a_snapshot_whose_watermark_is_the_entry_answers_it() -> None:
    assert waiting_spans(snapshots(5, 9), [5]) == ((4, 5),)


@given(POSITIONS, POSITIONS, st.integers(1, 12))
def test_an_event_waits_where_an_entry_up_to_it_was_not_answered_before_it(
    watermarks: list[int], entries: list[int], event: int
) -> None:
    waits = any(after < event <= up_to for after, up_to in waiting_spans(snapshots(*watermarks), entries))
    assert waits == any(at <= event and not any(at <= each < event for each in watermarks) for at in entries)
