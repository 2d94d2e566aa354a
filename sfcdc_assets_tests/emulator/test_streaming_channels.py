"""Generic channels of the emulated org, and its streaming objects by REST (Streaming API Developer Guide, "Generic
Streaming Quick Start", "StreamingChannel", "Streaming Channel Push")."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
import requests

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.emulator.streaming.streaming_channels import StreamingChannels
from sfcdc_assets_tests.emulator.cometd_service.emulated import USER, Emulated
from sfcdc_assets_tests.emulator.test_push_topics import follow, messages

CHANNEL = "/u/notifications/ExampleUserChannel"
OTHER = "005000000000002AAA"


@pytest.fixture
def emulated() -> Iterator[Emulated]:
    with closing(Emulated()) as emulated:
        yield emulated


@pytest.fixture
def channels(emulated: Emulated) -> StreamingChannels:
    return emulated.service.topics.channels


def push(emulated: Emulated, channel_id: str, payload: str, *users: str) -> dict[str, Any]:
    topics = emulated.service.topics
    event = {"payload": payload, "userIds": list(users)}
    (result,) = topics.channels.push(channel_id, [event], emulated.service.users_of(channel_id))
    emulated.service.bus.wake()
    return result


def test_a_payload_goes_to_who_is_subscribed_or_to_the_users_that_are_named(
    emulated: Emulated, channels: StreamingChannels
) -> None:
    channel = channels.create({"Name": CHANNEL}).id
    assert push(emulated, channel, "nobody listens") == {"fanoutCount": 0, "userOnlineStatus": {}}
    follow(emulated, CHANNEL)
    assert push(emulated, channel, "Broadcast message to all subscribers") == {
        "fanoutCount": -1,
        "userOnlineStatus": {},
    }
    assert push(emulated, channel, "hello world!", USER, OTHER) == {
        "fanoutCount": 1,
        "userOnlineStatus": {USER: True, OTHER: False},
    }
    push(emulated, channel, "for another", OTHER)
    broadcast, named = messages(emulated)
    assert broadcast["payload"] == "Broadcast message to all subscribers"
    assert broadcast["event"].keys() == {"createdDate", "replayId"}
    assert named["payload"] == "hello world!"
    follow(emulated, CHANNEL, -2)
    assert messages(emulated)[0]["payload"] == "nobody listens"
    follow(emulated, CHANNEL, broadcast["event"]["replayId"])
    assert [each["payload"] for each in messages(emulated)] == ["hello world!"]


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({}, "REQUIRED_FIELD_MISSING"),
        ({"Name": "/u/" + "x" * 78}, "STRING_TOO_LONG"),
        ({"Name": "/x/y"}, "FIELD_INTEGRITY_EXCEPTION"),
        ({"Name": "/u/with space"}, "FIELD_INTEGRITY_EXCEPTION"),
        ({"Name": "/u/a", "Description": "x" * 256}, "STRING_TOO_LONG"),
        ({"Name": "/u/a", "Colour": "red"}, "INVALID_FIELD"),
        ({"Name": CHANNEL.upper().replace("/U/", "/u/")}, "DUPLICATE_VALUE"),
    ],
)
def test_a_channel_that_is_not_right_is_not_created(
    channels: StreamingChannels, values: dict[str, Any], code: str
) -> None:
    channels.create({"Name": CHANNEL})
    with pytest.raises(ApiError) as refused:
        channels.create(values)
    assert refused.value.error_code == code
    assert len(channels.all()) == 1


def test_a_payload_of_more_than_3000_characters_is_refused_and_nothing_sent(
    emulated: Emulated, channels: StreamingChannels
) -> None:
    channel = channels.create({"Name": CHANNEL}).id
    follow(emulated, CHANNEL)
    events = [{"payload": "short", "userIds": []}, {"payload": "x" * 3_001, "userIds": []}]
    with pytest.raises(ApiError, match="max length=3000"):
        channels.push(channel, events, [])
    assert messages(emulated) == []
    assert push(emulated, channel, "x" * 3_000)["fanoutCount"] == -1


def test_a_channel_that_does_not_exist_is_made_only_where_the_org_does_so(emulated: Emulated) -> None:
    emulated.handshake()
    assert emulated.subscribe("/u/new")["error"] == "404::Unknown channel"
    emulated.org.settings = replace(emulated.org.settings, dynamic_streaming_channels=True)
    assert emulated.subscribe("/u/new")["successful"]
    (made,) = emulated.service.topics.channels.all()
    assert (made.name, made.is_dynamic) == ("/u/new", True)
    assert emulated.subscribe("/u/NEW")["error"] == "404::Channel names may not vary only by case"
    assert emulated.subscribe("/u/not a name")["error"] == "403::Cannot create channel"


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[requests.Session, str]]:
    org = EmulatedOrg(seed=3)
    org.populate(1)
    with pytest.MonkeyPatch.context() as patch, EmulatorServer(org, directory=tmp_path_factory.mktemp("org")) as server:
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
            patch.delenv(name, raising=False)
        session = requests.Session()
        session.verify = str(server.ca_file)
        session.headers["Authorization"] = f"Bearer {server.sessions.issue(org.users.integration)}"
        yield session, f"{server.rest_url}/services/data/v60.0"
    org.close()


def test_both_objects_are_records_by_rest_and_soql(rest: tuple[requests.Session, str]) -> None:
    session, data = rest
    topic = {"Name": "Accounts", "Query": "SELECT Id, Name FROM Account", "ApiVersion": 60.0}
    made = session.post(f"{data}/sobjects/PushTopic", json=topic)
    assert (made.status_code, made.json()["id"][:3]) == (201, "0IF")
    record = f"{data}/sobjects/PushTopic/{made.json()['id']}"
    assert session.get(record).json().items() >= {**topic, "IsActive": True, "NotifyForOperations": "All"}.items()
    assert session.patch(record, json={"IsActive": False, "NotifyForOperationUpdate": False}).status_code == 204
    query = "SELECT Id, Name, IsActive, NotifyForOperations, Query FROM PushTopic WHERE Name = 'Accounts'"
    (found,) = session.get(f"{data}/query", params={"q": query}).json()["records"]
    assert (found["IsActive"], found["NotifyForOperations"], found["Query"]) == (False, "Create", topic["Query"])
    refused = session.post(
        f"{data}/sobjects/PushTopic", json={**topic, "Name": "B", "Query": "SELECT Id FROM Account LIMIT 1"}
    )
    assert (refused.status_code, refused.json()[0]["errorCode"]) == (400, "INVALID_FIELD")
    assert refused.json()[0]["message"] == "'LIMIT' is not allowed"
    assert session.delete(record).status_code == 204
    assert session.get(record).status_code == 404
    channel = session.post(f"{data}/sobjects/StreamingChannel", json={"Name": CHANNEL, "Description": "Example"})
    assert channel.json()["id"].startswith("0M6")
    (listed,) = session.get(f"{data}/query", params={"q": "SELECT Name, Id FROM StreamingChannel"}).json()["records"]
    assert listed["Name"] == CHANNEL
    push = f"{data}/sobjects/StreamingChannel/{channel.json()['id']}/push"
    assert session.get(push).json() == {"OnlineUserIds": [], "ChannelName": CHANNEL}
    events = {"pushEvents": [{"payload": "Broadcast message to all subscribers", "userIds": []}]}
    assert session.post(push, json=events).json() == [{"fanoutCount": 0, "userOnlineStatus": {}}]
    long = session.post(push, json={"pushEvents": [{"payload": "x" * 3_001, "userIds": []}]})
    assert (long.status_code, long.json()[0]["errorCode"]) == (400, "STRING_TOO_LONG")
