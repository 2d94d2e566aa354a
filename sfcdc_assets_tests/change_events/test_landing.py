"""Landing: dense positions, whole replay ids, complete transactions, quarantine."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from sfcdc_assets.change_events.landing import StreamPlace, hold_back_last_replay_id, land
from sfcdc_assets.pubsub.subscription import DeliveredEvent
from sfcdc_assets_tests.change_events.written_event import event_schema, header, payload

CHANNEL = "/data/ChangeEvents"
SCHEMA = event_schema()


def event(number, key="t", replay=None):
    return DeliveredEvent(
        f"e{number}", "schema", payload(SCHEMA, header(transactionKey=key)), b"%d" % (replay or number), 5
    )


def landed(place, events, **options):
    return land(place, events, lambda _: None, at_tip=options.pop("at_tip", False), **options)


def test_positions_are_dense_and_go_on_where_they_stopped():
    first = landed(StreamPlace(CHANNEL), [event(1), event(2)])
    second = landed(first.place, [event(3)])
    assert first.rows["position"].to_pylist() == [1, 2]
    assert second.rows["position"].to_pylist() == [3]
    assert second.place.replay_id == b"3"


def test_a_transaction_is_complete_when_the_next_one_starts():
    place = landed(StreamPlace(CHANNEL), [event(1, "a"), event(2, "a"), event(3, "b")]).place
    assert (place.position, place.complete_position) == (3, 2)
    assert landed(place, [event(4, "b")]).place.complete_position == 2
    assert landed(place, [event(4, "c")]).place.complete_position == 3


def test_at_the_tip_every_transaction_is_complete_and_the_tips_id_is_kept():
    place = landed(StreamPlace(CHANNEL), [event(1)], at_tip=True, tip_replay_id=b"tip").place
    assert (place.complete_position, place.replay_id) == (1, b"tip")
    assert landed(place, [], at_tip=True, tip_replay_id=b"").place.replay_id == b"tip"


def test_an_event_without_a_readable_header_is_quarantined_with_a_position_and_the_stream_goes_on():
    broken = DeliveredEvent("x", "schema", b"\xff\xff\xff", b"2", 5)
    result = landed(StreamPlace(CHANNEL), [event(1), broken, event(3)])
    assert result.rows["position"].to_pylist() == [1, 3]
    assert result.quarantined["position"].to_pylist() == [2]
    assert result.quarantined["payload"].to_pylist() == [b"\xff\xff\xff"]
    assert result.place.position == 3


@given(st.lists(st.integers(0, 4), max_size=20))
def test_only_the_last_replay_id_is_held_back(steps):
    replay, events = 0, []
    for number, step in enumerate(steps):
        replay += step > 1
        events.append(event(number, replay=replay + 1))
    whole, held = hold_back_last_replay_id(events)
    assert [*whole, *held] == events
    assert len({one.replay_id for one in held}) <= 1
    assert not {one.replay_id for one in whole} & {one.replay_id for one in held}
    assert bool(held) == bool(events)


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=20), st.integers(0, 20))
def test_how_the_stream_is_cut_into_deliveries_changes_neither_positions_nor_completeness(keys, cut):
    events = [event(number, key) for number, key in enumerate(keys, 1)]
    whole = landed(StreamPlace(CHANNEL), events).place
    first = landed(StreamPlace(CHANNEL), events[:cut])
    assert landed(first.place, events[cut:]).place == whole
