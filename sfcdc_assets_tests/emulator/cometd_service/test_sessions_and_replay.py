"""The Streaming API of the emulated org: messages, places to replay from, errors and timeouts, as the guide has
them (Streaming API Developer Guide, "How the Client Connects", "Message Durability", "Clients and Timeouts")."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sfcdc_assets.emulator.cometd.client_session import CometdTiming
from sfcdc_assets_tests.emulator.cometd_service.emulated import ALL, Emulated, replay_ids


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


def test_timing_is_advised_in_milliseconds() -> None:
    assert CometdTiming(timeout=3, interval=2).advice()["timeout"] == 3_000
    assert CometdTiming(timeout=3, interval=2).advice()["interval"] == 2_000
