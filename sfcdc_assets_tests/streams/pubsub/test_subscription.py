"""Reading a channel over real gRPC: its tip, its silences and its limits."""

from __future__ import annotations

import time
from contextlib import closing

import grpc
import pytest

from sfcdc_assets.runtime.clock import using
from sfcdc_assets.streams.delivered_event import ReplayStart
from sfcdc_assets.streams.pubsub.errors import PubSubUnavailable
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually
from sfcdc_assets_tests.simulated_clock import SimulatedClock
from sfcdc_assets_tests.streams.pubsub.conftest import TENANT
from sfcdc_assets_tests.streams.pubsub.reading import Connect, numbered, read, starts, subscribe, taken
from sfcdc_assets_tests.streams.pubsub.scripted_service import Abort, Asked, Events, Keepalive, Silence, event, replay


def test_an_empty_response_says_that_there_is_nothing_more_and_its_id_is_a_resume_point(connect: Connect) -> None:
    client = connect([Events(numbered(1, 3), replay(3)), Keepalive(replay(9)), Silence()])
    reading = read(client)
    assert reading.names == ["event-1", "event-2", "event-3"]
    assert reading.nothing_more
    assert (reading.point.replay_id, reading.point.open_id) == (replay(9), None)
    first = reading.events[0]
    assert (first.schema_id, first.payload, first.replay_id) == ("schema", b"event-1", replay(1))
    assert abs(first.received_at_ms / 1000 - time.time()) < 60


@pytest.mark.parametrize("latest", [replay(50), replay(2)])
def test_silence_after_events_leaves_the_resume_point_before_the_last_id(connect: Connect, latest: bytes) -> None:
    client = connect([Events(numbered(1, 2), latest=latest), Silence()])
    with using(SimulatedClock()), closing(subscribe(client)) as subscription:
        assert taken(subscription) == ["event-1", "event-2"]
        assert subscription.take(0.3) is None
        point = subscription.resume_point
    assert (point.replay_id, point.open_id) == (replay(1), replay(2))


def test_a_stream_that_has_not_answered_is_not_quiet_however_long_it_is_silent(connect: Connect) -> None:
    client = connect([Silence()])
    with using(SimulatedClock()), closing(subscribe(client, ReplayStart.after(replay(5)))) as subscription:
        assert subscription.take(0.3) is None
        eventually(lambda: client.service.calls, "the service to have the call")
        assert not subscription.has_answered
        assert subscription.quiet_for() is None
        assert subscription.open_for() >= 0.3
    assert client.service.calls[0].over.wait(BOUND_SECONDS)


def test_a_quiet_stream_says_how_long_it_brought_no_event(connect: Connect) -> None:
    client = connect([Events(numbered(1, 1)), Silence()])
    with using(SimulatedClock()), closing(subscribe(client)) as subscription:
        assert taken(subscription) == ["event-1"]
        assert subscription.take(0.4) is None
        assert subscription.quiet_for() == pytest.approx(0.4, abs=0.002)


def test_a_silence_of_which_nobody_asked_for_more_is_no_silence_of_the_stream(connect: Connect) -> None:
    clock = SimulatedClock()
    client = connect([Events(numbered(1, 100)), Asked(200), Silence()])
    with using(clock), closing(subscribe(client)) as subscription:
        received = subscription.take(0.0)  # the first response may be there as fast as that
        eventually(lambda: subscription.responses == 1, "the first response")
        clock.advance(60_000)
        received = received or subscription.take(0.0)
        assert received is not None
        assert len(received.events) == 100
        assert subscription.quiet_for() == 0.0
        clock.advance(60_000)
        assert subscription.quiet_for() == 0.0
        subscription.top_up()
        assert subscription.quiet_for() == 0.0
        clock.advance(3_000)
        assert subscription.quiet_for() == 3.0


def test_a_service_that_answers_nothing_at_all_is_an_outage(connect: Connect) -> None:
    client = connect([Silence()])
    client.service.unary_script = [Abort(code=grpc.StatusCode.DEADLINE_EXCEEDED, details="Deadline Exceeded")] * 9
    with pytest.raises(PubSubUnavailable, match="Deadline Exceeded"):
        read(client)


def test_a_stream_without_a_sign_of_life_for_300_s_is_begun_again(connect: Connect) -> None:
    clock = SimulatedClock()
    client = connect([Events(numbered(1, 2)), Silence()], [Events(numbered(2, 3)), Keepalive(replay(3))])
    client.connection.sleep = clock.sleep
    with using(clock), closing(subscribe(client)) as subscription:
        assert taken(subscription) == ["event-1", "event-2"]
        clock.advance(299_000)
        assert subscription.take(0) is None
        assert len(client.service.calls) == 1
        clock.advance(2_000)
        assert taken(subscription) == ["event-3"]
    assert starts(client)[1] == (pb.CUSTOM, replay(1))


def test_more_is_asked_for_as_it_is_taken_and_never_more_than_a_hundred(connect: Connect) -> None:
    client = connect(
        [
            Events(numbered(1, 49)),
            Events(numbered(50, 50)),
            Asked(150),
            Events(numbered(51, 150)),
            Asked(250),
            Keepalive(replay(240)),
        ]
    )
    assert len(read(client).events) == 150
    (call,) = client.service.calls
    assert [request.num_requested for request in call.requests] == [100, 50, 100]
    assert call.most_outstanding == 100


def test_every_call_carries_the_three_headers(connect: Connect) -> None:
    client = connect([Keepalive(replay(1))])
    read(client)
    for metadata in (client.service.calls[0].metadata, client.service.unary[0][1]):
        sent = {key: metadata[key] for key in ("accesstoken", "instanceurl", "tenantid")}
        assert sent == {
            "accesstoken": "token-1",
            "instanceurl": "https://example.my.salesforce.com",
            "tenantid": TENANT,
        }


def test_an_empty_response_to_no_request_says_nothing(connect: Connect) -> None:
    client = connect([Events(numbered(1, 1)), Events([], latest=replay(7), pending=0), Silence()])
    with using(SimulatedClock()), closing(subscribe(client)) as subscription:
        assert taken(subscription) == ["event-1"]
        said = eventually(lambda: subscription.take(0), "the empty response")
        assert said is not None
        assert (said.nothing_more, subscription.resume_point.open_id) == (False, replay(1))


def test_closing_cancels_the_call_on_the_service(connect: Connect) -> None:
    client = connect([Events(numbered(1, 3)), Silence()])
    with closing(subscribe(client)) as subscription:
        subscription.take(BOUND_SECONDS)
        assert not client.service.calls[0].over.is_set()
    assert client.service.calls[0].over.wait(BOUND_SECONDS)


def test_events_far_beyond_grpcs_default_size_are_received(connect: Connect) -> None:
    big = [event(number, payload=bytes([number]) * 1_000_000) for number in range(1, 9)]
    client = connect([Events(big), Keepalive(replay(8))])
    assert [len(each.payload) for each in read(client).events] == [1_000_000] * 8


def test_a_slow_reader_bounds_what_is_asked_for(connect: Connect) -> None:
    client = connect([*(Events(numbered(5 * n + 1, 5 * n + 5)) for n in range(20)), Silence()])
    with closing(subscribe(client)) as subscription:
        assert taken(subscription)
        call = client.service.calls[0]
        assert call.asked == 100  # 95 events are unread: no more is asked for, however many have arrived
        assert sum(len(taken(subscription)) for _ in range(19)) == 95
    assert call.most_outstanding <= 100
