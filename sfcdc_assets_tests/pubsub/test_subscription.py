"""Reading a channel over real gRPC: its tip, its limits and everything that breaks on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from sfcdc_assets.clock import Clock, using
from sfcdc_assets.pubsub.errors import (
    AuthenticationRefused,
    DeliveryLimitReached,
    PubSubUnavailable,
    ReplayIdRefused,
    TopicNotFound,
    TopicNotPermitted,
)
from sfcdc_assets.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.pubsub.subscription import PubSubSubscription
from sfcdc_assets.pubsub.transport import PubSubTransport
from sfcdc_assets.streams.backoff import Backoff
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.replay import ReplayStart
from sfcdc_assets.streams.resume import ResumePoint
from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually
from sfcdc_assets_tests.pubsub.conftest import TENANT, Client
from sfcdc_assets_tests.pubsub.scripted_service import (
    Abort,
    Asked,
    Events,
    Keepalive,
    Reset,
    Silence,
    event,
    replay,
)
from sfcdc_assets_tests.simulated_clock import SimulatedClock

Connect = Callable[..., Client]
TOPIC = "/data/ChangeEvents"
CUT = Abort()


@dataclass
class OrgRead:
    """What was read, whether the service said that there is nothing more, and where to go on."""

    events: list[DeliveredEvent]
    nothing_more: bool
    point: ResumePoint

    @property
    def names(self) -> list[str]:
        return [event.event_id for event in self.events]


def subscribe(client: Client, start: ReplayStart = ReplayStart.EARLIEST) -> PubSubSubscription:
    return PubSubTransport(client.connection).subscribe(TOPIC, start, ResumePoint())


def read(client: Client, start: ReplayStart = ReplayStart.EARLIEST) -> OrgRead:
    """Read until the service says that there is nothing more."""
    events: list[DeliveredEvent] = []
    with closing(subscribe(client, start)) as subscription:
        while (received := subscription.take(BOUND_SECONDS)) is not None:
            events += received.events
            if received.nothing_more:
                return OrgRead(events, True, subscription.resume_point)
            subscription.top_up(sparingly=True)
        return OrgRead(events, False, subscription.resume_point)


class StoppedClock(Clock):
    """No time passes between a failure and the pause after it, however long the machine takes."""

    def monotonic(self) -> float:
        return 0.0


def numbered(first: int, last: int) -> list[pb.ConsumerEvent]:
    return [event(number) for number in range(first, last + 1)]


def starts(client: Client) -> list[tuple[int, bytes]]:
    return [(call.requests[0].replay_preset, call.requests[0].replay_id) for call in client.service.calls]


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
        subscription.take(0.0)
        eventually(lambda: subscription.responses == 1, "the first response")
        clock.advance(60_000)
        received = subscription.take(0.0)
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


def taken(subscription: PubSubSubscription) -> list[str]:
    """The next events, waited for by the machine's clock."""

    def events() -> Sequence[DeliveredEvent]:
        received = subscription.take(0)
        return received.events if received is not None else ()

    return [event.event_id for event in eventually(events, "the next events")]


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


def test_an_empty_response_to_no_request_says_nothing(connect: Connect) -> None:
    client = connect([Events(numbered(1, 1)), Events([], latest=replay(7), pending=0), Silence()])
    with using(SimulatedClock()), closing(subscribe(client)) as subscription:
        assert taken(subscription) == ["event-1"]
        said = eventually(lambda: subscription.take(0), "the empty response")
        assert said is not None
        assert (said.nothing_more, subscription.resume_point.open_id) == (False, replay(1))


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


def test_closing_cancels_the_call_on_the_service(connect: Connect) -> None:
    client = connect([Events(numbered(1, 3)), Silence()])
    with closing(subscribe(client)) as subscription:
        subscription.take(BOUND_SECONDS)
        assert not client.service.calls[0].over.is_set()
    assert client.service.calls[0].over.wait(BOUND_SECONDS)


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


def test_no_token_is_in_an_error_that_the_service_wrote_it_into(connect: Connect) -> None:
    client = connect([], accepted=set())
    with pytest.raises(AuthenticationRefused) as caught:
        read(client)
    assert "token-" not in str(caught.value)
    assert "token-" not in repr(caught.value.refusal)
    assert "***" in str(caught.value)
