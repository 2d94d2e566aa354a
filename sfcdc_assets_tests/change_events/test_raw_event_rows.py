"""Landing: dense positions, complete transactions, quarantine."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from sfcdc_assets.change_events import delivered_headers
from sfcdc_assets.change_events.raw_event_rows import RAW_EVENTS, land
from sfcdc_assets.streams.checkpoint import EARLIEST, LATEST, StreamCheckpoint
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.resume import ResumePoint
from sfcdc_assets_tests.change_events.test_batch_decoder import batches
from sfcdc_assets_tests.change_events.written_event import event_schema, header, payload
from sfcdc_assets_tests.examples import examples

CHANNEL = "/data/ChangeEvents"
SCHEMA = event_schema()


def event(number, key="t", replay=None):
    return DeliveredEvent(
        f"e{number}", "schema", payload(SCHEMA, header(transactionKey=key)), b"%d" % (replay or number), 5
    )


def landed(checkpoint, events, **options):
    return land(checkpoint, events, lambda _: None, **{"resume": checkpoint.resume, "complete": False, **options})


def test_positions_are_dense_and_go_on_where_they_stopped():
    first = landed(StreamCheckpoint(CHANNEL), [event(1), event(2)])
    second = landed(first.checkpoint, [event(3)])
    assert first.rows["position"].to_pylist() == [1, 2]
    assert second.rows["position"].to_pylist() == [3]


def test_a_transaction_is_complete_when_the_next_one_starts():
    checkpoint = landed(StreamCheckpoint(CHANNEL), [event(1, "a"), event(2, "a"), event(3, "b")]).checkpoint
    assert (checkpoint.position, checkpoint.complete_position) == (3, 2)
    assert landed(checkpoint, [event(4, "b")]).checkpoint.complete_position == 2
    assert landed(checkpoint, [event(4, "c")]).checkpoint.complete_position == 3


def test_a_transaction_is_complete_when_the_caller_knows_that_nothing_follows_and_the_resume_point_is_kept():
    tip = ResumePoint(b"tip", 7)
    checkpoint = landed(StreamCheckpoint(CHANNEL), [event(1)], complete=True, resume=tip).checkpoint
    assert (checkpoint.complete_position, checkpoint.resume) == (1, tip)
    assert landed(checkpoint, [], complete=True, resume=tip).checkpoint == checkpoint


def test_the_events_of_a_replay_id_that_may_be_unfinished_are_landed_and_its_resume_point_lies_before_them():
    before = ResumePoint(b"1", 5, b"2", ("mark",))
    result = landed(StreamCheckpoint(CHANNEL), [event(1), event(2, replay=2)], resume=before)
    assert result.rows["position"].to_pylist() == [1, 2]
    assert result.checkpoint.resume.replay_id == b"1"


def test_nothing_can_have_a_watermark_at_a_start_at_latest_that_has_not_shown_where_it_was():
    assert not StreamCheckpoint(CHANNEL).is_known
    assert not StreamCheckpoint(CHANNEL, begun=LATEST).is_known
    assert StreamCheckpoint(CHANNEL, begun=EARLIEST).is_known
    assert StreamCheckpoint(CHANNEL, begun=LATEST, resume=ResumePoint(b"1")).is_known


def test_an_event_without_a_readable_header_is_quarantined_with_a_position_and_the_stream_goes_on():
    broken = DeliveredEvent("x", "schema", b"\xff\xff\xff", b"2", 5)
    result = landed(StreamCheckpoint(CHANNEL), [event(1), broken, event(3)])
    assert result.rows["position"].to_pylist() == [1, 3]
    assert result.quarantined["position"].to_pylist() == [2]
    assert result.quarantined["payload"].to_pylist() == [b"\xff\xff\xff"]
    assert result.checkpoint.position == 3


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=20), st.integers(0, 20))
def test_how_the_stream_is_cut_into_deliveries_changes_neither_positions_nor_completeness(keys, cut):
    events = [event(number, key) for number, key in enumerate(keys, 1)]
    whole = landed(StreamCheckpoint(CHANNEL), events).checkpoint
    first = landed(StreamCheckpoint(CHANNEL), events[:cut])
    assert landed(first.checkpoint, events[cut:]).checkpoint == whole


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 31), st.integers(0, 8), st.integers(1, 3)), max_size=3),
    st.lists(st.integers(0, 40), max_size=4),
)
def test_second_copies_end_no_transaction_however_the_stream_is_cut_into_deliveries(transactions, copies, cuts):
    """A transaction is complete where the next one begins, whatever was published again in its midst."""
    stream = list(enumerate(str(key) for key, size in enumerate(transactions) for _ in range(size)))
    last = stream[-1][1]
    for number, others, size in copies:
        copied = stream[number % len(stream) :][:size]
        place = number % len(stream) + size + others
        stream[place:place] = copied
    events = [event(number, key, replay=at) for at, (number, key) in enumerate(stream, 1)]
    checkpoint = StreamCheckpoint(CHANNEL)
    for begin, end in pairwise([0, *sorted(min(cut, len(events)) for cut in cuts), len(events)]):
        seen = {each.event_id for each in events[:begin]}
        options = {"landed_before": lambda asked, seen=seen: asked.keys() & seen}
        checkpoint = landed(checkpoint, events[begin:end], **options).checkpoint
    assert checkpoint.complete_position == next(at for at, (_, key) in enumerate(stream) if key == last)
    assert (checkpoint.position, checkpoint.transaction_key) == (len(events), last)


@settings(max_examples=examples(1), deadline=None)
@given(batches(), st.booleans())
def test_headers_that_are_read_at_once_give_the_rows_of_those_read_one_by_one(batch, is_schema_known):
    schema, _, payloads = batch
    events = [DeliveredEvent(f"e{n}", f"s{n % 3}", each, b"%d" % n, n) for n, each in enumerate(payloads)]
    schemas = {"s0": schema, "s1": event_schema(symbols=["UPDATE", "CREATE"]), "s2": {"type": "record", "fields": []}}
    found = []
    for at_least in (1, 10_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(delivered_headers, "FEWEST_AT_ONCE", at_least)
            found.append(
                land(
                    StreamCheckpoint(CHANNEL, 7, 3, transaction_key="0001-key"),
                    events,
                    schemas.get if is_schema_known else lambda _: None,
                    resume=ResumePoint(b"1", 5, b"%d" % (len(events) - 1)),
                    complete=False,
                )
            )
    at_once, one_by_one = found
    at_once.rows.validate(full=True)
    assert at_once.rows.schema == RAW_EVENTS
    assert at_once.rows.equals(one_by_one.rows)
    assert at_once.quarantined.equals(one_by_one.quarantined)
    assert at_once.checkpoint == one_by_one.checkpoint
    assert at_once.rows.num_rows + at_once.quarantined.num_rows == len(events)
