"""The Streaming API of the emulated org: messages, places to replay from, errors and timeouts, as the guide has
them (Streaming API Developer Guide, "How the Client Connects", "Message Durability", "Clients and Timeouts")."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from sfcdc_assets.emulator.clock import ManualClock
from sfcdc_assets.emulator.cometd.client_session import CometdTiming
from sfcdc_assets.emulator.cometd.messages import CometdAnswer, CometdCall
from sfcdc_assets.emulator.cometd.service import CometdService
from sfcdc_assets.emulator.delivery_meter import DeliveryMeter
from sfcdc_assets.emulator.event_bus import EventBus
from sfcdc_assets.emulator.faults import Fault
from sfcdc_assets.emulator.org import EmulatedOrg
from sfcdc_assets.emulator.sessions import Sessions
from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually

ALL = "/data/ChangeEvents"
USER = "005000000000001AAA"


class Emulated:
    """A service without sockets, and one client of it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.org = EmulatedOrg(clock=self.clock, seed=3)
        self.org.selected_entities = ["Account", "Contact"]
        self.org.populate(3)
        self.accounts = [str(record["Id"]) for record in self.org.records("Account")]
        bus = EventBus(self.org)
        self.meter = DeliveryMeter(self.clock)
        self.service = CometdService(self.org, bus, sessions=Sessions(self.org), meter=self.meter)
        self.client_id: str | None = None
        self.cookie: str | None = None

    def update(self, **values: Any) -> None:
        with self.org.transaction() as work:
            work.update("Account", self.accounts[0], values or {"Phone": str(self.clock())})

    def call(self, *messages: dict[str, Any], **about: Any) -> CometdAnswer:
        given = {"has_token": True, "user_id": USER, "cookie": self.cookie, **about}
        return self.service.answer(CometdCall(messages, **given))

    def send(self, channel: str, **values: Any) -> dict[str, Any]:
        """The one reply to a message."""
        (reply,) = self.call({"channel": channel, "id": "7", "clientId": self.client_id, **values}).messages
        assert (reply["channel"], reply["id"]) == (channel, "7")
        return reply

    def handshake(self, **about: Any) -> dict[str, Any]:
        message = {
            "channel": "/meta/handshake",
            "id": "1",
            "version": "1.0",
            "supportedConnectionTypes": ["long-polling"],
            "ext": {"replay": True},
        }
        answer = self.call(message, **about)
        (reply,) = answer.messages
        self.client_id, self.cookie = reply.get("clientId"), answer.cookie
        return reply

    def subscribe(self, channel: str = ALL, place: object = -1) -> dict[str, Any]:
        return self.send("/meta/subscribe", subscription=channel, ext={"replay": {channel: place}})

    def connect(self, **values: Any) -> list[dict[str, Any]]:
        message = {"channel": "/meta/connect", "clientId": self.client_id, "connectionType": "long-polling", "id": "9"}
        return self.call({**message, **values}).messages

    def held(self) -> Held:
        return Held(self)


class Held:
    """A connect that waits in a thread."""

    def __init__(self, emulated: Emulated) -> None:
        self.messages: list[dict[str, Any]] | None = None
        before = emulated.service.held_connects
        self._thread = threading.Thread(target=self._run, args=(emulated,), daemon=True)
        self._thread.start()
        eventually(
            lambda: emulated.service.next_due() not in (None, 0) or not self._thread.is_alive(),
            "the connect to come to rest",
        )
        assert emulated.service.held_connects in (before, before + 1)

    def _run(self, emulated: Emulated) -> None:
        self.messages = emulated.connect()

    @property
    def is_waiting(self) -> bool:
        return self._thread.is_alive()

    def answer(self) -> list[dict[str, Any]]:
        self._thread.join(BOUND_SECONDS)
        assert self.messages is not None, "the connect is held"
        return self.messages


@pytest.fixture
def emulated() -> Iterator[Emulated]:
    emulated = Emulated()
    yield emulated
    emulated.service.stop()
    emulated.org.close()


@pytest.fixture
def subscribed(emulated: Emulated) -> Emulated:
    """A client as the guide has it: handshake, subscription, and the first connect, which is answered at once."""
    emulated.handshake()
    assert emulated.subscribe()["successful"]
    emulated.connect()
    return emulated


def replay_ids(messages: list[dict[str, Any]]) -> list[int]:
    return [message["data"]["event"]["replayId"] for message in messages if "data" in message]


def test_a_handshake_offers_replay_and_gives_a_client_id_and_a_cookie(emulated: Emulated) -> None:
    reply = emulated.handshake()
    assert reply == {
        "channel": "/meta/handshake",
        "id": "1",
        "clientId": emulated.client_id,
        "successful": True,
        "version": "1.0",
        "minimumVersion": "1.0",
        "supportedConnectionTypes": ["long-polling"],
        "reestablish": False,
        "ext": {"replay": True, "payload.format": True},
    }
    assert emulated.cookie
    assert emulated.handshake(replays=False)["ext"] == {"payload.format": True}, "36.0 and older do not replay"


def test_the_first_connect_is_answered_at_once_with_the_advice(emulated: Emulated) -> None:
    emulated.handshake()
    (reply,) = emulated.connect()
    assert reply == {
        "channel": "/meta/connect",
        "id": "9",
        "clientId": emulated.client_id,
        "successful": True,
        "advice": {"interval": 0, "multiple-clients": True, "reconnect": "retry", "timeout": 110_000},
    }
    (reply,) = emulated.connect(advice={"timeout": 0})
    assert reply["successful"]


def test_an_event_ends_a_connect_and_is_the_message_of_the_guide(subscribed: Emulated) -> None:
    held = subscribed.held()
    subscribed.update(Fax="4155551212", BillingCity="Köln", Site=None, Description="x" * 1_500)
    *events, reply = held.answer()
    assert reply == {"channel": "/meta/connect", "id": "9", "clientId": subscribed.client_id, "successful": True}
    (event,) = events
    assert (event.keys(), event["channel"]) == ({"data", "channel"}, ALL)
    assert event["data"].keys() == {"schema", "payload", "event"}
    assert event["data"]["event"].keys() == {"replayId", "EventUuid"}
    payload = event["data"]["payload"]
    head = payload.pop("ChangeEventHeader")
    assert set(head) == {
        "entityName", "recordIds", "changeType", "changedFields", "changeOrigin", "transactionKey", "sequenceNumber",
        "commitTimestamp", "commitNumber", "commitUser",
    }  # fmt: skip
    assert {"Fax", "BillingAddress.City", "LastModifiedDate", "Description"} <= set(head["changedFields"])
    assert payload["Fax"] == "4155551212"
    assert payload["BillingAddress"] == {"City": "Köln"}
    assert payload["LastModifiedDate"] == "2025-01-01T00:00:00.000Z"
    assert payload.keys() <= {"Fax", "BillingAddress", "Site", "Description", "LastModifiedDate", "LastModifiedById"}
    subscribed.org.settings = replace(subscribed.org.settings, cometd_event_uuids=False)
    subscribed.update(Fax=None)
    (event, _) = subscribed.connect()
    assert event["data"]["event"].keys() == {"replayId"}
    assert event["data"]["payload"]["Fax"] is None, "a null is written out"


def test_a_text_that_is_sent_as_a_difference_is_an_object(subscribed: Emulated) -> None:
    text = "\n".join(f"line {number} of a long description" for number in range(60))
    subscribed.update(Description=text)
    subscribed.update(Description=text.replace("line 7 of", "row 7 of"))
    first, second, _ = subscribed.connect()
    assert first["data"]["payload"]["Description"] == text
    assert second["data"]["payload"]["Description"].keys() == {"diff"}
    assert second["data"]["payload"]["Description"]["diff"].startswith("--- \n+++ ")


def test_replay_goes_on_after_an_id_or_brings_all_or_only_new_events(emulated: Emulated) -> None:
    for _ in range(3):
        emulated.update()
        emulated.clock.advance(1_000)
    emulated.handshake()
    emulated.subscribe(place=-2)
    ids = replay_ids(emulated.connect())
    assert len(ids) == 3
    assert ids == sorted(ids)
    emulated.subscribe(place=ids[0])
    assert replay_ids(emulated.connect()) == ids[1:]
    emulated.subscribe(place=-1)
    emulated.update()
    (new,) = replay_ids(emulated.connect())
    assert new not in ids
    # Without the extension only new events are sent.
    emulated.send("/meta/subscribe", subscription=ALL)
    assert replay_ids(emulated.connect(advice={"timeout": 0})) == []


def test_an_id_that_is_older_than_the_retention_is_refused_in_the_vendors_words(emulated: Emulated) -> None:
    emulated.update()
    emulated.handshake()
    emulated.subscribe(place=-2)
    (old,) = replay_ids(emulated.connect())
    emulated.clock.advance(73 * 3_600_000)
    emulated.update()
    emulated.handshake()
    assert emulated.subscribe(place=old)["error"] == (
        f"400::The replayId {{{old}}} you provided was invalid. Please provide a valid ID, -2 to replay all events, or "
        "-1 to replay only new events."
    )
    emulated.subscribe(place=-2)
    assert len(replay_ids(emulated.connect())) == 1


@pytest.mark.parametrize("place", [-3, 0, 7, 2**70, "soon", None, [1]])
def test_what_is_no_replay_id_is_refused(emulated: Emulated, place: object) -> None:
    emulated.update()
    emulated.handshake()
    assert "you provided was invalid" in emulated.subscribe(place=place)["error"]


def test_several_channels_may_be_subscribed_to_in_one_request_and_left_again(emulated: Emulated) -> None:
    emulated.handshake()
    channels = (ALL, "/data/AccountChangeEvent", "/data/ContactChangeEvent")
    own = {"clientId": emulated.client_id, "channel": "/meta/subscribe"}
    answer = emulated.call(*({**own, "id": str(n), "subscription": each} for n, each in enumerate(channels)))
    assert [(reply["id"], reply["subscription"], reply["successful"]) for reply in answer.messages] == [
        (str(n), each, True) for n, each in enumerate(channels)
    ]
    emulated.update()
    *events, _ = emulated.connect()
    assert sorted(event["channel"] for event in events) == ["/data/AccountChangeEvent", ALL]
    assert emulated.send("/meta/unsubscribe", subscription=ALL)["successful"]
    emulated.update()
    *events, _ = emulated.connect()
    assert [event["channel"] for event in events] == ["/data/AccountChangeEvent"]


def test_a_connect_is_held_for_110_seconds_and_then_answered_empty(subscribed: Emulated) -> None:
    held = subscribed.held()
    subscribed.clock.advance(109_999)
    assert held.is_waiting
    subscribed.clock.advance(1)
    (reply,) = held.answer()
    assert reply["successful"]


def test_a_client_that_does_not_connect_again_within_40_seconds_is_forgotten(subscribed: Emulated) -> None:
    subscribed.clock.advance(40_000)
    assert subscribed.service.open_sessions == 1
    held = subscribed.held()
    subscribed.clock.advance(110_000)
    assert held.answer()[-1]["successful"]
    subscribed.clock.advance(40_001)
    (reply,) = subscribed.connect()
    assert (reply["error"], reply["advice"]) == ("403::Unknown client", {"interval": 0, "reconnect": "handshake"})
    assert subscribed.service.open_sessions == 0


def test_a_second_connect_ends_the_first_and_a_disconnect_ends_both(subscribed: Emulated) -> None:
    first = subscribed.held()
    second = subscribed.held()
    assert first.answer()[-1]["successful"]
    assert subscribed.send("/meta/disconnect")["successful"]
    assert second.answer()[-1]["successful"]
    assert subscribed.connect()[0]["error"] == "403::Unknown client"


@pytest.mark.parametrize(
    ("channel", "values", "error"),
    [
        ("/meta/subscribe", {}, "400::Channel name not specified"),
        ("/meta/subscribe", {"subscription": " "}, "400::Channel name not specified"),
        ("/meta/subscribe", {"subscription": "data/X"}, "400::Channel subscriptions must start with a leading '/'"),
        (
            "/meta/subscribe",
            {"subscription": "/data/NoSuchChangeEvent"},
            "400::The channel you requested to subscribe to doesn't exist {/data/NoSuchChangeEvent}",
        ),
        ("/meta/subscribe", {"subscription": "/meta/connect"}, "403::Restricted channel"),
        ("/meta/subscribe", {"subscription": "/u/notifications"}, "404::Unknown channel"),
        ("/meta/connect", {"connectionType": "websocket"}, "400::Invalid connection type websocket"),
        ("/meta/nonsense", {}, "403::Restricted channel"),
        ("/data/ChangeEvents", {"data": {}}, "403::Restricted channel"),
        ("/meta/connect", {"clientId": ""}, "403::Client has not completed handshake"),
        ("/meta/connect", {"clientId": "unknown"}, "403::Unknown client"),
    ],
)
def test_errors_have_the_vendors_words(emulated: Emulated, channel: str, values: dict[str, Any], error: str) -> None:
    emulated.handshake()
    reply = emulated.send(channel, **values)
    assert (reply["error"], reply["successful"]) == (error, False)


def test_a_handshake_is_denied_with_the_reason_in_its_extension(emulated: Emulated) -> None:
    for about, reason in (
        ({"has_token": False, "user_id": None}, "401::Request requires authentication"),
        ({"user_id": None}, "401::Authentication invalid"),
    ):
        reply = emulated.handshake(**about)
        assert reply["error"] == "403::Handshake denied"
        assert reply["ext"]["sfdc"] == {"failureReason": reason}
        assert reply["advice"]["reconnect"] == "none"


def test_a_session_is_one_users_with_its_cookie_and_a_token_that_is_good(subscribed: Emulated) -> None:
    connect = {"channel": "/meta/connect", "clientId": subscribed.client_id, "connectionType": "long-polling"}
    for about, error in (
        ({"cookie": None}, f"400::Client {subscribed.client_id} has established a session, but no BAYEUX_BROWSER "),
        ({"cookie": "another"}, f"400::Client {subscribed.client_id} has established a session, but no "),
        ({"user_id": "005000000000002AAA"}, "400::Authenticated user id does not match the session's user id"),
        ({"user_id": None}, "401::Authentication invalid"),
    ):
        (reply,) = subscribed.call(connect, **about).messages
        assert reply["error"].startswith(error)


def test_permissions_count_when_subscribing_and_when_events_are_sent(emulated: Emulated) -> None:
    emulated.org.unreadable_objects.add("Account")
    emulated.handshake()
    refused = emulated.subscribe("/data/AccountChangeEvent")
    assert refused["error"] == "403::User not allowed to subscribe CDC without required permissions"
    assert emulated.subscribe(ALL)["successful"]
    emulated.update()
    assert replay_ids(emulated.connect()) == []


def test_limits_of_clients_and_of_events_are_the_orgs(subscribed: Emulated) -> None:
    org = subscribed.org
    org.settings = replace(org.settings, concurrent_streaming_clients=1, daily_event_deliveries=1)
    first, cookie = subscribed.client_id, subscribed.cookie
    subscribed.handshake()
    assert subscribed.subscribe()["error"] == "403::Organization concurrent user limit exceeded"
    subscribed.client_id, subscribed.cookie = first, cookie
    subscribed.update()
    subscribed.update()
    assert len(replay_ids(subscribed.connect())) == 1
    (reply,) = subscribed.connect()
    assert reply["error"] == "403::Organization total events daily limit exceeded"
    assert subscribed.connect()[0]["error"] == "403::Unknown client", "it disconnects"
    assert subscribed.meter.total == 1


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.COMETD_UNKNOWN_CLIENT, "403::Unknown client"),
        (Fault.COMETD_UNAUTHORIZED, "401::Authentication invalid"),
        (Fault.COMETD_EVENT_LIMIT, "403::Organization total events daily limit exceeded"),
    ],
)
def test_faults_end_a_connect_that_is_held(subscribed: Emulated, fault: Fault, error: str) -> None:
    held = subscribed.held()
    subscribed.service.faults.arm(fault)
    assert held.answer()[-1]["error"] == error
    assert subscribed.service.faults.armed(fault) == 0


def test_faults_refuse_what_comes_next(subscribed: Emulated) -> None:
    faults = subscribed.service.faults
    faults.arm(Fault.COMETD_LOST_COOKIE)
    assert "no BAYEUX_BROWSER cookie present" in subscribed.connect()[0]["error"]
    faults.arm(Fault.COMETD_BUSY)
    busy = subscribed.connect()[0]
    assert busy["ext"]["sfdc"]["failureReason"] == "503::Server is too busy. Please try your request again later."
    faults.arm(Fault.COMETD_CLIENT_LIMIT)
    assert subscribed.subscribe()["error"] == "403::Organization concurrent user limit exceeded"
    faults.arm(Fault.COMETD_CUT)
    subscribed.update()
    message = {"channel": "/meta/connect", "clientId": subscribed.client_id, "connectionType": "long-polling"}
    assert subscribed.call(message).is_cut
    faults.arm(Fault.COMETD_RESET)
    subscribed.update()
    assert subscribed.call(message).is_reset
    assert replay_ids(subscribed.connect(advice={"timeout": 0})) == [], "they are lost to this session"


def test_a_silent_connect_is_held_whatever_happens_until_its_client_is_gone(subscribed: Emulated) -> None:
    held = subscribed.held()
    subscribed.service.faults.arm(Fault.COMETD_SILENCE)
    eventually(lambda: not subscribed.service.faults.armed(Fault.COMETD_SILENCE), "the connect to fall silent")
    subscribed.update()
    subscribed.clock.advance(1_000_000)
    assert held.is_waiting
    subscribed.service.stop()
    held.answer()


def test_a_token_that_is_revoked_ends_a_connect_before_it_brings_anything(subscribed: Emulated) -> None:
    authorized = [True]
    message = {"channel": "/meta/connect", "clientId": subscribed.client_id, "connectionType": "long-polling"}
    subscribed.update()
    authorized.clear()
    (reply,) = subscribed.call(message, is_still_authorized=lambda: bool(authorized)).messages
    assert (reply["error"], reply["advice"]["reconnect"]) == ("401::Authentication invalid", "none")
    assert subscribed.meter.total == 0


def test_timing_is_advised_in_milliseconds() -> None:
    assert CometdTiming(timeout=3, interval=2).advice()["timeout"] == 3_000
    assert CometdTiming(timeout=3, interval=2).advice()["interval"] == 2_000
