"""Calls over real gRPC that break, are refused or not answered: where they go on, how often, and what is raised."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import grpc
import pytest

from sfcdc_assets.runtime.clock import using
from sfcdc_assets.streams.backoff import Backoff
from sfcdc_assets.streams.delivered_event import ReplayStart
from sfcdc_assets.streams.pubsub.errors import (
    AuthenticationRefused,
    DeliveryLimitReached,
    PubSubUnavailable,
    ReplayIdRefused,
    TopicNotFound,
    TopicNotPermitted,
)
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.simulated_clock import SimulatedClock
from sfcdc_assets_tests.streams.pubsub.reading import (
    CUT,
    Connect,
    StoppedClock,
    numbered,
    read,
    starts,
    subscribe,
    taken,
)
from sfcdc_assets_tests.streams.pubsub.scripted_service import Abort, Asked, Events, Keepalive, Reset, event, replay


@pytest.mark.parametrize("cut", [CUT, Reset(), Abort("service.unavailable", grpc.StatusCode.INTERNAL)])
def test_a_broken_stream_goes_on_where_the_reader_is(connect: Connect, cut: Any) -> None:
    client = connect(
        [Events(numbered(1, 3)), cut],
        [Events(numbered(3, 5)), Keepalive(replay(5))],
    )
    assert read(client).names == ["event-1", "event-2", "event-3", "event-4", "event-5"]
    # Event 3 is the last one received: whether it has siblings is not known, so it comes again and is dropped.
    assert starts(client) == [(pb.EARLIEST, b""), (pb.CUSTOM, replay(2))]


def test_a_stream_ended_without_an_error_is_resumed_too(connect: Connect) -> None:
    client = connect([Events(numbered(1, 2))], [Events(numbered(2, 3)), Keepalive(replay(3))])
    assert read(client).names == ["event-1", "event-2", "event-3"]
    assert client.pauses == pytest.approx([0.5], abs=0.1)


def test_siblings_of_one_replay_id_are_neither_lost_nor_doubled(connect: Connect) -> None:
    siblings = [event(2, name="merged", payload=record) for record in (b"a", b"b", b"c")]
    client = connect(
        [Events([event(1), siblings[0]]), CUT],
        [Events(siblings[:2]), CUT],
        [Events([*siblings, event(3)]), Keepalive(replay(3))],
    )
    payloads = [each.payload for each in read(client).events]
    assert payloads == [b"event-1", b"a", b"b", b"c", b"event-3"]
    assert starts(client)[1:] == [(pb.CUSTOM, replay(1))] * 2


def test_the_stream_is_resumed_after_the_id_of_an_empty_response(connect: Connect) -> None:
    client = connect([Events(numbered(1, 1)), Keepalive(replay(7)), CUT], [Keepalive(replay(8))])
    with closing(subscribe(client)) as subscription:
        said = [subscription.take(BOUND_SECONDS) for _ in range(3)]
    assert [each is not None and each.nothing_more for each in said] == [False, True, True]
    assert starts(client)[1] == (pb.CUSTOM, replay(7))


def test_latest_resumes_after_what_was_received_and_not_at_a_later_tip(connect: Connect) -> None:
    client = connect([Events(numbered(4, 4)), CUT], [Keepalive(replay(4))])
    read(client, ReplayStart.LATEST)
    assert starts(client) == [(pb.LATEST, b""), (pb.CUSTOM, replay(4))]


def test_an_expired_token_is_refreshed_in_mid_stream(connect: Connect) -> None:
    expired = Abort("service.auth.error", grpc.StatusCode.UNAUTHENTICATED)
    client = connect([Events(numbered(1, 2)), expired], [Events(numbered(2, 3)), Keepalive(replay(3))])
    assert read(client).names == ["event-1", "event-2", "event-3"]
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
    assert read(client).names == ["event-1", "event-2"]
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
    subscription = subscribe(client)
    first = subscription.take(BOUND_SECONDS)
    assert first is not None
    assert first.events[0].event_id == "event-1"
    with pytest.raises(error):
        subscription.take(BOUND_SECONDS)
    assert client.pauses == []


def test_a_topic_that_may_not_be_subscribed_is_not_called(connect: Connect) -> None:
    client = connect([Keepalive(replay(1))])
    client.service.can_subscribe = False
    with pytest.raises(TopicNotPermitted, match="View All"):
        read(client)
    assert client.service.calls == []


def test_a_service_that_accepts_and_fails_is_not_called_without_end(connect: Connect) -> None:
    client = connect(*[[CUT]] * 10, attempts=4)
    with using(StoppedClock()), pytest.raises(PubSubUnavailable, match="RST_STREAM"):
        read(client)
    assert len(client.service.calls) == 4
    assert client.pauses == [0.5, 1.0, 2.0]


def test_a_response_resets_the_backoff(connect: Connect) -> None:
    client = connect(
        [CUT], [CUT], [Events(numbered(1, 1)), CUT], [CUT], [Events(numbered(1, 2)), Keepalive(replay(2))], attempts=4
    )
    with using(StoppedClock()):
        assert read(client).names == ["event-1", "event-2"]
    assert client.pauses == [0.5, 1.0, 0.5, 1.0]


def test_an_outage_that_outlasts_a_quick_reader_is_reported_each_time_and_mended_when_it_ends(connect: Connect) -> None:
    clock = SimulatedClock()
    client = connect([Events(numbered(1, 2)), CUT], [CUT], [Events(numbered(2, 3)), Keepalive(replay(3))])
    client.connection.backoff = Backoff(attempts=5, first=100.0, longest=100.0, random=lambda: 1.0)
    client.connection.sleep = clock.sleep
    with using(clock), closing(subscribe(client)) as subscription:
        assert taken(subscription) == ["event-1", "event-2"]
        with pytest.raises(PubSubUnavailable, match="RST_STREAM"):
            taken(subscription)
        calls = len(client.service.calls)
        with pytest.raises(PubSubUnavailable, match="RST_STREAM"):
            subscription.take(0)
        assert len(client.service.calls) == calls  # the pause is kept
        clock.advance(101_000)
        with pytest.raises(PubSubUnavailable, match="RST_STREAM"):
            taken(subscription)
        clock.advance(101_000)
        assert taken(subscription) == ["event-3"]


def test_a_call_that_served_for_a_while_is_begun_again_without_a_pause(connect: Connect) -> None:
    clock = SimulatedClock()
    client = connect([Events(numbered(1, 2)), Asked(102), CUT], [Events(numbered(2, 3)), Keepalive(replay(3))])
    client.connection.sleep = clock.sleep
    with using(clock), closing(subscribe(client)) as subscription:
        assert taken(subscription) == ["event-1", "event-2"]
        clock.advance(11_000)
        before = clock()
        subscription.top_up()
        assert taken(subscription) == ["event-3"]
        assert clock() == before


def test_no_token_is_in_an_error_that_the_service_wrote_it_into(connect: Connect) -> None:
    client = connect([], accepted=set())
    with pytest.raises(AuthenticationRefused) as caught:
        read(client)
    assert "token-" not in str(caught.value)
    assert "token-" not in repr(caught.value.refusal)
    assert "***" in str(caught.value)
