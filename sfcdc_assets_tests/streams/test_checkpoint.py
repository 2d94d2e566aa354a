"""Two readers of one channel: what one of them holds is landed by it, by the other, or comes again; never twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.streams.checkpoint import EARLIEST, StreamCheckpoint, not_landed_yet
from sfcdc_assets.streams.delivered_event import DeliveredEvent, ReplayStart
from sfcdc_assets.streams.resume import ResumePoint, StreamProgress
from sfcdc_assets_tests.streams.test_resume import after, delivered

CHANNEL = "/data/ChangeEvents"


def checkpoint(resume: ResumePoint, position: int) -> StreamCheckpoint:
    return StreamCheckpoint(CHANNEL, position, resume=resume, begun=EARLIEST, begun_at_ms=1)


def taken(progress: StreamProgress, stream: list[DeliveredEvent], up_to: int) -> None:
    for event in after(stream[:up_to], progress.resume()):
        progress.admit(event)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.data())
def test_what_another_reader_has_landed_is_left_out_and_the_rest_follows_it(
    siblings: list[int], data: st.DataObject
) -> None:
    stream = [
        delivered(bytes([200 - group]), number) for group, count in enumerate(siblings) for number in range(count)
    ]
    landed = data.draw(st.integers(0, len(stream)))
    held = data.draw(st.integers(landed, len(stream)))
    others = data.draw(st.integers(landed, len(stream)))
    first = StreamProgress(ReplayStart.EARLIEST)
    taken(first, stream, landed)
    before = first.point
    second = StreamProgress(ReplayStart.EARLIEST, before)
    taken(second, stream, others)
    ends_a_group = others == len(stream) or (others > 0 and stream[others].replay_id != stream[others - 1].replay_id)
    if ends_a_group and data.draw(st.booleans()):
        second.nothing_more(b"", 9)

    left = not_landed_yet(stream[landed:held], checkpoint(before, landed), checkpoint(second.point, others))

    assert left is None or list(left) == stream[others:held]
    if others > held:
        assert left is None, "what the other has landed beyond this is still to be delivered here"
    if landed < others <= held or others == landed:
        assert left is not None, "the order tells: nothing has to be delivered again"


def test_events_of_one_replay_id_that_another_reader_landed_before_they_came_here_are_not_landed_twice() -> None:
    siblings = [delivered(b"1", number) for number in range(3)]
    other = StreamProgress(ReplayStart.EARLIEST)
    for event in siblings:
        other.admit(event)
    before = checkpoint(ResumePoint(), 0)
    assert not_landed_yet(siblings[:1], before, checkpoint(other.point, 3)) is None
    assert not_landed_yet(siblings, before, checkpoint(other.point, 3)) == []
    other.nothing_more(b"1", 9)
    assert not_landed_yet(siblings[:1], before, checkpoint(other.point, 3)) is None
    assert not_landed_yet(siblings, before, checkpoint(other.point, 3)) == []


def test_siblings_that_say_the_same_are_counted_and_not_compared() -> None:
    alike = [delivered(b"1", 0)] * 4
    known, other = StreamProgress(ReplayStart.EARLIEST), StreamProgress(ReplayStart.EARLIEST)
    known.admit(alike[0])
    for event in alike[:3]:
        other.admit(event)
    left = not_landed_yet(alike[1:], checkpoint(known.point, 1), checkpoint(other.point, 3))
    assert left == alike[3:]


def test_after_a_break_of_the_order_nothing_can_be_reported() -> None:
    before = checkpoint(ResumePoint(b"1"), 1)
    lost = StreamCheckpoint(CHANNEL, 2, 2)
    begun_again = StreamCheckpoint(CHANNEL, 2, 2, resume=ResumePoint(b"1"), begun=EARLIEST, begun_at_ms=2)
    assert not_landed_yet([delivered(b"2", 0)], before, lost) is None
    assert not_landed_yet([delivered(b"2", 0)], before, begun_again) is None
