"""Reading a channel over CometD, sockets and all: what breaks is mended after what was taken, and nobody waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.streams import open_call
from sfcdc_assets.streams.cometd.client import BayeuxClient
from sfcdc_assets.streams.cometd.errors import (
    AuthenticationRefused,
    ChannelNotFound,
    ChannelNotPermitted,
    CometdUnavailable,
    DeliveryLimitReached,
    ReplayIdRefused,
    RequestTooLarge,
    ServerBusy,
    TooManyClients,
)
from sfcdc_assets.streams.cometd.subscription import CometdSubscription
from sfcdc_assets.streams.cometd.transport import CometdTransport
from sfcdc_assets.streams.delivered_event import DeliveredEvent, ReplayStart
from sfcdc_assets.streams.errors import TransportError
from sfcdc_assets.streams.rest_schemas import EventSchemaNotFound
from sfcdc_assets.streams.resume import ResumePoint
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream, stream

THREE_HOURS = 3 * 3_600
ACCOUNT = "/data/AccountChangeEvent"


@pytest.fixture
def org(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream]:
    monkeypatch.setenv("SFCDC_TRANSPORT", "cometd")
    with stream(tmp_path, records=5) as opened:
        yield opened


@pytest.fixture
def subscription(org: Stream) -> Iterator[CometdSubscription]:
    opened = subscribed(org)
    yield opened
    opened.close()


def subscribed(org: Stream, start: ReplayStart = ReplayStart.EARLIEST, channel: str = CHANNEL) -> CometdSubscription:
    transport = org.connected.transport
    assert isinstance(transport, CometdTransport)
    return transport.subscribe(channel, start, ResumePoint())


def taken(subscription: CometdSubscription, seconds: float = 1.0) -> list[DeliveredEvent]:
    """Events until it is quiet for so long."""
    events: list[DeliveredEvent] = []
    while (received := subscription.take(seconds)) is not None:
        events += received.events
        if received.nothing_more:
            break
    return events


def sessions(monkeypatch: pytest.MonkeyPatch) -> list[BayeuxClient]:
    """The sessions that are begun from now on."""
    begun: list[BayeuxClient] = []
    handshake = BayeuxClient.handshake

    def noted(client: BayeuxClient) -> None:
        begun.append(client)
        handshake(client)

    monkeypatch.setattr(BayeuxClient, "handshake", noted)
    return begun


def test_events_come_once_in_order_and_the_place_is_the_last_whole_id(
    org: Stream, subscription: CometdSubscription
) -> None:
    org.update(0)
    org.siblings(1, 2)
    first = taken(subscription)
    assert len(first) == 3
    assert first[1].replay_id == first[2].replay_id
    assert (subscription.resume_point.replay_id, subscription.resume_point.open_id) == (
        first[0].replay_id,
        first[2].replay_id,
    )
    subscription.close()
    org.update(3)
    assert len(taken(subscription)) == 1, "siblings that come again are known, in whatever order their fields are"


def test_a_connect_that_was_held_for_its_time_says_that_there_is_nothing_more(
    org: Stream, subscription: CometdSubscription
) -> None:
    org.update(0)
    taken(subscription)
    began = clock.current().monotonic()
    received = subscription.take(200)
    assert received is not None
    assert (received.events, received.nothing_more) == ((), True)
    assert 105 < clock.current().monotonic() - began < 115
    assert subscription.resume_point.open_id is None
    assert subscription.quiet_for() is not None


def test_an_accepted_subscription_is_no_answer_of_the_stream(org: Stream) -> None:
    subscription = subscribed(org, ReplayStart.LATEST)
    try:
        assert subscription.take(5) is None
        assert (subscription.is_open, subscription.has_answered, subscription.quiet_for()) == (True, False, None)
        org.update(0)
        assert len(taken(subscription)) == 1
        assert subscription.has_answered
    finally:
        subscription.close()
    assert not subscription.is_open
    assert org.server.cometd.open_sessions == 0, "a session that is ended is given back"


def test_three_idle_hours_cost_one_session_for_each_token_and_no_event(
    org: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = sessions(monkeypatch)
    reader = org.reader()
    org.update(0)
    reader.land(TICK)
    before = org.clock()
    report = reader.land(replace(TICK, quiet=THREE_HOURS, budget=THREE_HOURS))
    assert org.clock() - before >= THREE_HOURS * 1_000 - 120_000
    assert (report.count, report.is_complete) == (0, True)
    org.update(1)
    reader.land(TICK)
    assert org.records_landed() == org.ids(0, 1)
    assert len(begun) == 2, "a token is good for two hours"


@pytest.mark.parametrize(
    "fault",
    [
        Fault.COMETD_UNKNOWN_CLIENT,
        Fault.COMETD_LOST_COOKIE,
        Fault.COMETD_UNAUTHORIZED,
        Fault.COMETD_BUSY,
        Fault.COMETD_RESET,
        Fault.COMETD_CUT,
    ],
)
def test_what_breaks_is_mended_after_the_last_event_taken(
    org: Stream, subscription: CometdSubscription, fault: Fault
) -> None:
    for number in range(4):
        org.update(number)
        if number == 1:
            assert len(taken(subscription)) == 2
            org.server.faults.arm(fault)
        if number == 2:
            assert len(taken(subscription, 10)) == 1
    org.server.faults.disarm()
    assert len(taken(subscription, 10)) == 1
    assert org.server.bus.read({"Account"}, after=0, max_events=9, max_bytes=10**6).events[-1].counter == int(
        subscription.resume_point.open_id or b"0"
    )


def test_an_answer_that_stops_in_its_middle_for_a_while_is_waited_for(
    org: Stream, subscription: CometdSubscription
) -> None:
    org.server.faults.arm(Fault.COMETD_SLOW, 3, seconds="0.1")
    org.update(1)
    org.update(2)
    assert len(taken(subscription)) == 2
    assert org.server.faults.struck(Fault.COMETD_SLOW) == 3


def test_a_silent_connect_is_given_up_after_two_minutes(org: Stream, subscription: CometdSubscription) -> None:
    org.update(0)
    assert len(taken(subscription)) == 1
    org.server.faults.arm(Fault.COMETD_SILENCE)
    org.update(1)
    assert subscription.take(60) is None
    assert len(taken(subscription, 100)) == 1


def test_a_client_that_was_held_up_for_more_than_40_seconds_goes_on_where_it_was(
    org: Stream, subscription: CometdSubscription, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_call, "BYTES_WAITING", 1)
    begun = sessions(monkeypatch)
    org.update(0)
    assert len(taken(subscription)) == 1
    org.update(1)
    org.update(2)
    # The second has arrived and is not taken: the thread waits.
    eventually(lambda: subscription.responses >= 2, "the second response")
    org.clock.advance(41_000)
    assert org.server.cometd.open_sessions == 0
    org.update(3)
    assert len(taken(subscription, 10)) == 3
    assert len(begun) == 2


@pytest.mark.parametrize(
    ("fault", "kind"),
    [(Fault.COMETD_EVENT_LIMIT, DeliveryLimitReached), (Fault.COMETD_CLIENT_LIMIT, TooManyClients)],
)
def test_a_limit_is_reported_and_not_run_against(
    org: Stream, fault: Fault, kind: type[Exception], subscription: CometdSubscription
) -> None:
    org.server.faults.arm(fault)
    org.update(0)
    with pytest.raises(kind):
        taken(subscription)
    if kind is TooManyClients:
        assert org.server.faults.armed(fault) == 0
        with pytest.raises(TooManyClients):
            subscription.take(10)
        clock.sleep(60)
    assert len(taken(subscription)) == 1, "it may be read on"


def test_an_outage_is_raised_after_growing_pauses(org: Stream, subscription: CometdSubscription) -> None:
    org.server.faults.arm(Fault.COMETD_BUSY, 100)
    with pytest.raises(ServerBusy, match="events are kept for 72 hours"):
        subscription.take(600)
    org.server.faults.disarm()
    clock.sleep(30)
    org.update(0)
    assert len(taken(subscription)) == 1


def test_credentials_that_stay_refused_are_reported_after_one_fresh_token(org: Stream) -> None:
    asked: list[bool] = []
    transport = org.connected.transport
    assert isinstance(transport, CometdTransport)
    token = transport._connection.token

    def counted(*, refresh: bool) -> str:
        asked.append(refresh)
        return token(refresh=refresh)

    transport._connection = replace(transport._connection, token=counted)
    subscription = subscribed(org)
    org.server.faults.arm(Fault.COMETD_UNAUTHORIZED, 2)
    with pytest.raises(AuthenticationRefused, match="A new token does not help"):
        subscription.take(5)
    assert asked.count(True) == 1
    org.update(0)
    assert len(taken(subscription)) == 1
    org.server.sessions.expire_all()
    org.update(1)
    subscription.close()
    assert len(taken(subscription)) == 1, "a token that was revoked is renewed"


def test_a_refused_place_is_reported_and_never_answered_with_new_events_only(org: Stream) -> None:
    org.update(0)
    subscription = subscribed(org)
    taken(subscription)
    taken(subscription, 200)
    subscription.close()
    org.server.bus.expire()
    org.update(1)
    for _ in range(2):
        with pytest.raises(ReplayIdRefused, match="take a new snapshot"):
            subscription.take(5)


@pytest.mark.parametrize(
    ("channel", "kind"),
    [("/data/NoSuchChangeEvent", ChannelNotFound), ("/data/CaseChangeEvent", ChannelNotPermitted)],
)
def test_a_channel_that_is_not_to_be_had_is_reported(org: Stream, channel: str, kind: type[Exception]) -> None:
    org.org.unreadable_objects.add("Case")
    with pytest.raises(kind):
        subscribed(org, channel=channel).take(5)


@pytest.mark.parametrize("fault", [None, Fault.COMETD_CLIENT_LIMIT, Fault.COMETD_EVENT_LIMIT])
def test_a_session_that_is_refused_what_it_was_begun_for_is_ended(org: Stream, fault: Fault | None) -> None:
    """One that is left behind counts against the clients that the org lets in, until the service forgets it."""
    channel = CHANNEL if fault else "/data/NoSuchChangeEvent"
    for _ in range(8):
        if fault is not None:
            org.server.faults.arm(fault)
        refused = subscribed(org, channel=channel)
        with suppress(TransportError):
            refused.take(0)
        assert org.server.cometd.open_sessions <= 1
        refused.close()
        with suppress(TransportError):
            org.connected.transport.check_channel(channel, 5)
        assert org.server.cometd.open_sessions == 0
    org.server.faults.disarm()


@pytest.mark.parametrize("transport", ["pubsub", "cometd"])
def test_whether_a_channel_is_there_is_asked_again_with_a_fresh_token(
    org: Stream, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else may be asked of the org before the first look at a channel, so nobody else would renew it."""
    monkeypatch.setenv("SFCDC_TRANSPORT", transport)
    with connect(load_settings()) as connected:
        connected.transport.check_channel(CHANNEL, 5)
        org.server.sessions.expire_all()
        connected.transport.check_channel(CHANNEL, 5)


def test_an_org_that_is_not_there_is_unavailable(org: Stream) -> None:
    subscription = subscribed(org)
    assert org.connected.session.version
    assert org.connected.session.token()
    with org.server.outage(), pytest.raises(CometdUnavailable):
        subscription.take(1)


def test_several_channels_are_subscribed_to_in_one_request_each_from_its_place(
    org: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    org.update(0)
    transport = org.connected.transport
    assert isinstance(transport, CometdTransport)
    client = transport._connection.client(clock.current())
    sent: list[list[Any]] = []
    post = client.http.post

    def noted(messages: Any, seconds: float, *, subject: str = "") -> list[dict[str, Any]]:
        sent.append(list(messages))
        return post(messages, seconds, subject=subject)

    monkeypatch.setattr(client.http, "post", noted)
    client.handshake()
    client.subscribe({CHANNEL: ReplayStart.EARLIEST, ACCOUNT: ReplayStart.LATEST})
    assert [message["ext"]["replay"] for message in sent[1]] == [{CHANNEL: -2}, {ACCOUNT: -1}]
    assert [event["channel"] for event in client.connect().events] == [CHANNEL]
    org.update(1)
    assert {event["channel"] for event in client.connect().events} == {CHANNEL, ACCOUNT}
    assert sent[0][0]["ext"] == {"replay": True}
    many = {f"/data/Object_number_{number}__ChangeEvent": ReplayStart.EARLIEST for number in range(300)}
    with pytest.raises(ChannelNotFound):
        client.subscribe(many)
    assert len(sent[-1]) < 300, "no request has more than 32,768 bytes"
    with pytest.raises(RequestTooLarge, match="32,768"):
        client.subscribe({f"/data/{'x' * 33_000}": ReplayStart.LATEST})
    client.disconnect()
    assert org.server.cometd.open_sessions == 0


def test_schemas_have_the_ids_and_the_text_that_pubsub_gives_them(org: Stream) -> None:
    transport = org.connected.transport
    schema_id = transport.newest_schema_id("Account")
    assert schema_id == org.server.bus.newest_schema_id("Account")
    assert transport.schema(schema_id) == org.server.bus.schema_json(schema_id)
    for ask in (lambda: transport.schema("unknown"), lambda: transport.newest_schema_id("Nothing__c")):
        with pytest.raises(EventSchemaNotFound, match="no event schema"):
            ask()
