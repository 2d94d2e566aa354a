"""Reading a channel over real gRPC: its tip, its limits and everything that breaks on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import grpc
import pytest

from sfcdc_assets.pubsub.errors import (
    AuthenticationRefused,
    DeliveryLimitReached,
    PubSubUnavailable,
    ReplayIdRefused,
    TopicNotFound,
    TopicNotPermitted,
)
from sfcdc_assets.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.pubsub.replay import ReplayStart
from sfcdc_assets.pubsub.subscription import Delivery, deliveries
from sfcdc_assets_tests.pubsub.conftest import TENANT, Client
from sfcdc_assets_tests.pubsub.scripted_service import (
    BOUND_SECONDS,
    Abort,
    Asked,
    Events,
    Keepalive,
    Reset,
    Silence,
    event,
    replay,
)

Connect = Callable[..., Client]
TOPIC = "/data/ChangeEvents"
CUT = Abort()


def read(client: Client, start: ReplayStart = ReplayStart.EARLIEST, **options: Any) -> list[Delivery]:
    options = {"settle": 0.2, "budget": 20.0, **options}
    return list(deliveries(client.connection, TOPIC, start, **options))


def names(read: list[Delivery]) -> list[str]:
    return [each.event_id for delivery in read for each in delivery.events]


def numbered(first: int, last: int) -> list[pb.ConsumerEvent]:
    return [event(number) for number in range(first, last + 1)]


def starts(client: Client) -> list[tuple[int, bytes]]:
    return [(call.requests[0].replay_preset, call.requests[0].replay_id) for call in client.service.calls]


def test_a_keepalive_is_the_tip_and_its_replay_id_the_place(connect: Connect) -> None:
    client = connect([Events(numbered(1, 3), replay(3)), Keepalive(replay(9)), Silence()])
    read_all = read(client, settle=BOUND_SECONDS)
    assert names(read_all) == ["event-1", "event-2", "event-3"]
    assert read_all[-1] == Delivery((), replay(9), at_tip=True)
    assert not any(delivery.at_tip for delivery in read_all[:-1])
    first = read_all[0].events[0]
    assert (first.schema_id, first.payload, first.replay_id) == ("schema", b"event-1", replay(1))
    assert abs(first.received_at_ms / 1000 - time.time()) < 60


def test_silence_after_events_is_the_tip_and_the_last_event_the_place(connect: Connect) -> None:
    client = connect([Events(numbered(1, 2), latest=replay(50)), Silence()])
    assert read(client)[-1] == Delivery((), replay(2), at_tip=True)


def test_a_silent_stream_on_a_working_connection_ends_at_settle(connect: Connect) -> None:
    client = connect([Silence()])
    assert read(client, ReplayStart.after(replay(5))) == [Delivery((), replay(5), at_tip=True)]
    assert client.service.calls[0].over.wait(BOUND_SECONDS)


def test_silence_of_a_service_that_answers_nothing_at_all_is_an_outage_and_not_the_tip(connect: Connect) -> None:
    client = connect([Silence()])
    client.service.unary_script = [Silence()]
    with pytest.raises(PubSubUnavailable, match="Deadline Exceeded"):
        read(client, budget=0.5)


def test_nothing_is_known_of_the_place_of_an_empty_channel(connect: Connect) -> None:
    client = connect([Silence()])
    assert read(client) == [Delivery((), b"", at_tip=True)]


def test_an_event_at_the_latest_id_shortens_the_wait_for_the_tip_but_not_to_nothing(connect: Connect) -> None:
    client = connect([Events(numbered(1, 1), replay(1)), Events(numbered(2, 2), replay(2)), Silence()])
    before = time.monotonic()
    read_all = read(client, settle=4.0)
    assert names(read_all) == ["event-1", "event-2"]
    assert read_all[-1].at_tip
    assert 0.9 < time.monotonic() - before < 3.9


def test_more_is_asked_for_before_the_last_is_served_and_never_more_than_a_hundred(connect: Connect) -> None:
    client = connect(
        [
            Events(numbered(1, 49)),
            Events(numbered(50, 50)),
            Asked(150),
            Events(numbered(51, 140)),
            Asked(240),
            Events(numbered(141, 240)),
            Asked(340),
            Keepalive(replay(240)),
        ]
    )
    assert len(names(read(client))) == 240
    (call,) = client.service.calls
    assert [request.num_requested for request in call.requests] == [100, 50, 90, 100]
    assert call.most_outstanding == 100


def test_no_more_is_asked_for_than_stop_after_leaves(connect: Connect) -> None:
    client = connect([Events(numbered(1, 40)), Events(numbered(41, 70)), Asked(130), Events(numbered(71, 130))])
    read_all = read(client, stop_after=130)
    assert len(names(read_all)) == 130
    assert read_all[-1] == Delivery((), replay(129), at_tip=False)
    assert sum(request.num_requested for request in client.service.calls[0].requests) == 130


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


@pytest.mark.parametrize("cut", [CUT, Reset(), Abort("service.unavailable", grpc.StatusCode.INTERNAL)])
def test_a_broken_stream_goes_on_where_the_reader_is(connect: Connect, cut: Any) -> None:
    client = connect(
        [Events(numbered(1, 3)), cut],
        [Events(numbered(3, 5)), Keepalive(replay(5))],
    )
    assert names(read(client)) == ["event-1", "event-2", "event-3", "event-4", "event-5"]
    # Event 3 is the last one received: whether it has siblings is not known, so it comes again and is dropped.
    assert starts(client) == [(pb.EARLIEST, b""), (pb.CUSTOM, replay(2))]


def test_a_stream_ended_without_an_error_is_resumed_too(connect: Connect) -> None:
    client = connect([Events(numbered(1, 2))], [Events(numbered(2, 3)), Keepalive(replay(3))])
    assert names(read(client)) == ["event-1", "event-2", "event-3"]
    assert client.pauses == [0.5]


def test_siblings_of_one_replay_id_are_neither_lost_nor_doubled(connect: Connect) -> None:
    siblings = [event(2, name="merged", payload=record) for record in (b"a", b"b", b"c")]
    client = connect(
        [Events([event(1), siblings[0]]), CUT],
        [Events(siblings[:2]), CUT],
        [Events([*siblings, event(3)]), Keepalive(replay(3))],
    )
    payloads = [each.payload for delivery in read(client) for each in delivery.events]
    assert payloads == [b"event-1", b"a", b"b", b"c", b"event-3"]
    assert starts(client)[1:] == [(pb.CUSTOM, replay(1))] * 2


def test_an_empty_response_is_a_place_to_resume_from(connect: Connect) -> None:
    client = connect([Events(numbered(1, 1)), Events([], latest=replay(7), pending=0), CUT], [Keepalive(replay(8))])
    assert read(client)[-1] == Delivery((), replay(8), at_tip=True)
    assert starts(client)[1] == (pb.CUSTOM, replay(7))


def test_latest_resumes_after_what_was_received_and_not_at_a_later_tip(connect: Connect) -> None:
    client = connect([Events(numbered(4, 4)), CUT], [Keepalive(replay(4))])
    read(client, ReplayStart.LATEST)
    assert starts(client) == [(pb.LATEST, b""), (pb.CUSTOM, replay(4))]


def test_an_expired_token_is_refreshed_in_mid_stream(connect: Connect) -> None:
    expired = Abort("service.auth.error", grpc.StatusCode.UNAUTHENTICATED)
    client = connect([Events(numbered(1, 2)), expired], [Events(numbered(2, 3)), Keepalive(replay(3))])
    assert names(read(client)) == ["event-1", "event-2", "event-3"]
    assert client.service.calls[1].metadata["accesstoken"] == "token-2"
    assert client.pauses == []


def test_a_second_refusal_of_a_fresh_token_is_final(connect: Connect) -> None:
    expired = Abort("service.auth.error", grpc.StatusCode.UNAUTHENTICATED)
    client = connect([expired], [expired], [Keepalive(replay(1))])
    with pytest.raises(AuthenticationRefused, match="SFCDC_INSTANCE_URL"):
        read(client)
    assert client.tokens == ["token-1", "token-2"]


def test_a_token_that_expires_again_later_is_refreshed_again(connect: Connect) -> None:
    expired = Abort("service.auth.error", grpc.StatusCode.UNAUTHENTICATED)
    client = connect([Events(numbered(1, 1)), expired], [Events(numbered(2, 2)), expired], [Keepalive(replay(2))])
    assert names(read(client)) == ["event-1", "event-2"]
    assert client.tokens == ["token-1", "token-2", "token-3"]


@pytest.mark.parametrize("suffix", ["corrupted", "validation.failed"])
def test_a_refused_replay_id_is_raised_and_never_answered_with_latest(connect: Connect, suffix: str) -> None:
    refusal = Abort(f"subscription.fetch.replayid.{suffix}", grpc.StatusCode.INVALID_ARGUMENT, "bad replay id")
    client = connect([refusal], [Keepalive(replay(1))])
    with pytest.raises(ReplayIdRefused, match=replay(77).hex()) as caught:
        read(client, ReplayStart.after(replay(77)))
    assert caught.value.refusal.replay_id == replay(77).hex()
    assert len(client.service.calls) == 1


@pytest.mark.parametrize(
    ("error_code", "error"),
    [
        ("topic.not.found", TopicNotFound),
        ("topic.meta.permission", TopicNotPermitted),
        ("subscription.topic.cannot.subscribe", TopicNotPermitted),
        ("subscription.limit.exceeded", DeliveryLimitReached),
    ],
)
def test_what_time_does_not_mend_is_raised_at_once(connect: Connect, error_code: str, error: type[Exception]) -> None:
    client = connect([Events(numbered(1, 1)), Abort(error_code)])
    reading = deliveries(client.connection, TOPIC, ReplayStart.EARLIEST, settle=5.0, budget=20.0)
    assert next(reading).events[0].event_id == "event-1"
    with pytest.raises(error):
        next(reading)
    assert client.pauses == []


def test_a_topic_that_may_not_be_subscribed_is_not_called(connect: Connect) -> None:
    client = connect([Keepalive(replay(1))])
    client.service.can_subscribe = False
    with pytest.raises(TopicNotPermitted, match="View All"):
        read(client)
    assert client.service.calls == []


def test_a_service_that_accepts_and_fails_is_not_called_without_end(connect: Connect) -> None:
    client = connect(*[[CUT]] * 10, attempts=4)
    with pytest.raises(PubSubUnavailable, match="RST_STREAM"):
        read(client)
    assert len(client.service.calls) == 4
    assert client.pauses == [0.5, 1.0, 2.0]


def test_a_response_resets_the_backoff(connect: Connect) -> None:
    client = connect(
        [CUT], [CUT], [Events(numbered(1, 1)), CUT], [CUT], [Events(numbered(1, 2)), Keepalive(replay(2))], attempts=4
    )
    assert names(read(client)) == ["event-1", "event-2"]
    assert client.pauses == [0.5, 1.0, 0.5, 1.0]


def test_leaving_early_cancels_the_call_on_the_service(connect: Connect) -> None:
    client = connect([Events(numbered(1, 3)), Silence()])
    with closing(deliveries(client.connection, TOPIC, ReplayStart.EARLIEST, settle=30.0, budget=60.0)) as reading:
        next(reading)
        assert not client.service.calls[0].over.is_set()
    assert client.service.calls[0].over.wait(BOUND_SECONDS)


def test_the_budget_ends_a_busy_stream_and_what_has_arrived_is_kept(connect: Connect) -> None:
    now = [0.0]
    client = connect([Events(numbered(1, 60)), Events(numbered(61, 90)), Silence()])
    reading = deliveries(
        client.connection, TOPIC, ReplayStart.EARLIEST, settle=5.0, budget=10.0, clock=lambda: now[0], stop_after=90
    )
    first = next(reading)
    call = client.service.calls[0]
    deadline = time.monotonic() + BOUND_SECONDS
    while call.delivered < 90 and time.monotonic() < deadline:  # the second response has been sent
        call.over.wait(0.01)
    now[0] = 9.9
    second = next(reading)
    now[0] = 10.5
    assert names([first, second]) == [f"event-{number}" for number in range(1, 91)]
    assert list(reading) == [Delivery((), replay(89), at_tip=False)]


def test_silence_cut_short_by_the_budget_is_not_the_tip(connect: Connect) -> None:
    client = connect([Events(numbered(1, 2)), Silence()])
    assert read(client, settle=30.0, budget=0.7)[-1] == Delivery((), replay(1), at_tip=False)


def test_a_budget_without_any_answer_is_an_outage_and_not_an_empty_channel(connect: Connect) -> None:
    client = connect(*[[CUT]] * 10, attempts=100)
    with pytest.raises(PubSubUnavailable):
        read(client, budget=1.5, clock=iter([float(second) / 2 for second in range(100)]).__next__)


def test_an_outage_at_the_end_of_the_budget_keeps_what_was_received(connect: Connect) -> None:
    client = connect([Events(numbered(1, 2)), CUT])
    client.connection.backoff = type(client.connection.backoff)(attempts=5, first=100.0, longest=100.0)
    assert read(client, budget=10.0)[-1] == Delivery((), replay(1), at_tip=False)


def test_events_far_beyond_grpcs_default_size_are_received(connect: Connect) -> None:
    big = [event(number, payload=bytes([number]) * 1_000_000) for number in range(1, 9)]
    client = connect([Events(big), Keepalive(replay(8))])
    received = [each for delivery in read(client) for each in delivery.events]
    assert [len(each.payload) for each in received] == [1_000_000] * 8


def test_a_slow_reader_bounds_what_is_asked_for(connect: Connect) -> None:
    client = connect([*(Events(numbered(5 * n + 1, 5 * n + 5)) for n in range(20)), Silence()])
    reading = deliveries(client.connection, TOPIC, ReplayStart.EARLIEST, settle=0.3, budget=20.0)
    next(reading)
    call = client.service.calls[0]
    assert call.asked == 100  # 95 events are unread: no more is asked for, however many have arrived
    assert len(names(list(reading))) == 95
    assert call.most_outstanding <= 100


def test_no_token_is_in_an_error_that_the_service_wrote_it_into(connect: Connect) -> None:
    client = connect([], accepted=set())
    with pytest.raises(AuthenticationRefused) as caught:
        read(client)
    assert "token-" not in str(caught.value)
    assert "token-" not in repr(caught.value.refusal)
    assert "***" in str(caught.value)
