"""Where a broken subscription resumes: any cut of any stream loses nothing and doubles nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.streams.delivered_event import DeliveredEvent, ReplayStart, with_replay_ids
from sfcdc_assets.streams.resume import ResumePoint, StreamProgress


def delivered(replay_id: bytes, number: int) -> DeliveredEvent:
    return DeliveredEvent(f"event-{replay_id.hex()}", "schema", f"record-{number}".encode(), replay_id, 0)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.data())
def test_any_cuts_lose_nothing_and_double_nothing(siblings: list[int], data: st.DataObject) -> None:
    # Replay ids that go down, as after an org's move: no order may be read from them.
    stream = [
        delivered(bytes([200 - group]), number) for group, count in enumerate(siblings) for number in range(count)
    ]
    progress, received = StreamProgress(ReplayStart.EARLIEST), []
    for _ in range(data.draw(st.integers(0, 6))):
        rest = after(stream, progress.resume())
        received += [event for event in rest[: data.draw(st.integers(0, len(rest)))] if progress.admit(event)]
        if data.draw(st.booleans()):
            # Another process goes on from what was remembered.
            progress = StreamProgress(ReplayStart.EARLIEST, progress.point)
    received += [event for event in after(stream, progress.resume()) if progress.admit(event)]
    assert received == stream
    last = stream[-1].replay_id
    assert progress.point.open_id == last
    assert progress.point.replay_id != last
    progress.nothing_more(b"", 7)
    assert progress.point == ResumePoint(last, 7)


def test_however_long_the_silence_the_resume_point_stays_before_a_group_that_may_be_unfinished() -> None:
    progress = StreamProgress(ReplayStart.after(b"1"), ResumePoint(b"1"))
    for number in range(4):
        progress.admit(delivered(b"2", number))
    assert progress.resume() == ReplayStart.after(b"1")
    again = [progress.admit(delivered(b"2", number)) for number in range(8)]
    assert again == [False] * 4 + [True] * 4


def test_after_a_start_at_latest_the_first_replay_id_is_a_resume_point() -> None:
    progress = StreamProgress(ReplayStart.LATEST)
    assert progress.resume() == ReplayStart.LATEST
    progress.admit(delivered(b"9", 1))
    assert progress.resume() == ReplayStart.after(b"9")


def test_a_group_that_changed_while_nobody_read_is_a_group_like_any_other() -> None:
    progress = StreamProgress(ReplayStart.EARLIEST, ResumePoint(b"1", 5, b"2", (delivered(b"2", 0).mark,)))
    progress.resume()
    assert progress.admit(delivered(b"3", 0))
    assert (progress.point.replay_id, progress.point.known_at_ms) == (b"2", 5)


@pytest.mark.parametrize("begun", [ReplayStart.EARLIEST, ReplayStart.LATEST])
def test_an_event_without_a_replay_id_is_no_place_to_resume_from(begun: ReplayStart) -> None:
    progress = StreamProgress(begun)
    assert progress.admit(delivered(b"", 0))
    assert progress.resume() == begun
    assert progress.admit(delivered(b"7", 0))
    assert progress.point.replay_id == (b"7" if begun == ReplayStart.LATEST else None)
    progress.nothing_more(b"", 5)
    assert progress.resume() == ReplayStart.after(b"7")


def test_events_without_a_usable_replay_id_share_that_of_the_next_one_or_of_the_last() -> None:
    endless = delivered(b"9" * 70_000, 0)
    sent = [delivered(b"", 0), delivered(b"7", 1), endless, delivered(b"8", 2), delivered(b"", 3)]
    assert [event.replay_id for event in with_replay_ids(sent, b"5")] == [b"7", b"7", b"8", b"8", b"8"]
    assert [event.replay_id for event in with_replay_ids([endless], b"5")] == [b"5"]
    assert [event.replay_id for event in with_replay_ids([endless], b"")] == [b""]
    assert with_replay_ids(sent[1:2], b"") == sent[1:2]


def after(stream: list[DeliveredEvent], start: ReplayStart) -> list[DeliveredEvent]:
    """What the service delivers from there: everything behind the last event of that replay id."""
    if start == ReplayStart.EARLIEST:
        return stream
    last = max(index for index, event in enumerate(stream) if event.replay_id == start.replay_id)
    return stream[last + 1 :]


def test_an_empty_replay_id_is_no_resume_point() -> None:
    with pytest.raises(ValueError, match="EARLIEST"):
        ReplayStart.after(b"")


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=8), max_size=6),
    st.sampled_from([ReplayStart.EARLIEST, ReplayStart.LATEST]),
    st.sets(st.integers(0, 5)),
)
def test_a_response_as_a_whole_leaves_what_its_events_leave_one_by_one(responses, begun, interrupted_before):
    whole, one_by_one = StreamProgress(begun), StreamProgress(begun)
    for number, response in enumerate(responses):
        if number in interrupted_before:
            assert whole.resume() == one_by_one.resume()
        events = [
            DeliveredEvent(f"event-{place}", "schema", b"payload", b"%d" % replay_id, 1_000 * number + place)
            for replay_id, place in response
        ]
        assert list(whole.admit_all(events)) == [event for event in events if one_by_one.admit(event)]
        assert whole.point == one_by_one.point


def test_what_comes_again_in_one_response_is_left_out_and_its_new_siblings_are_taken() -> None:
    stream = [delivered(b"1", 0), delivered(b"1", 1), delivered(b"2", 0)]
    progress = StreamProgress(ReplayStart.EARLIEST)
    progress.admit_all(stream[:1])
    progress.resume()
    assert progress.admit_all(stream) == stream[1:]


def test_a_point_is_the_streams_end_if_it_takes_the_open_group_for_whole_or_knows_what_is_open() -> None:
    progress = StreamProgress(ReplayStart.EARLIEST)
    progress.admit_all([delivered(b"1", 0), delivered(b"2", 0)])
    point = progress.point
    assert (point.replay_id, point.open_id) == (b"1", b"2")
    assert progress.ends_at(point)
    assert progress.ends_at(ResumePoint(b"2"))
    assert not progress.ends_at(ResumePoint(b"1"))
    assert not progress.ends_at(ResumePoint(b"2", open_id=b"2"))
    progress.nothing_more(b"", 7)
    assert progress.ends_at(ResumePoint(b"2"))
