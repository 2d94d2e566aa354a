"""What the CometD service of the emulated org refuses, in the vendor's words, and its faults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets_tests.emulator.cometd_service.emulated import ALL, Emulated, replay_ids
from sfcdc_assets_tests.eventually import eventually


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
