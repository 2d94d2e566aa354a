"""The Streaming API by HTTP: its addresses, cookies, sizes, and schemas of events by REST."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets_tests.eventually import BOUND_SECONDS

HANDSHAKE = {"channel": "/meta/handshake", "version": "1.0", "supportedConnectionTypes": ["long-polling"], "id": "1"}


class Client:
    def __init__(self, org: EmulatedOrg, server: EmulatorServer) -> None:
        self.org = org
        self.server = server
        self.http = requests.Session()
        self.http.verify = str(server.ca_file)
        self.http.headers["Authorization"] = f"Bearer {server.sessions.issue(org.users.integration)}"

    def post(self, path: str, *messages: dict[str, Any], **options: Any) -> requests.Response:
        return self.http.post(self.server.rest_url + path, json=list(messages), timeout=BOUND_SECONDS, **options)

    def reply(self, path: str, *messages: dict[str, Any]) -> dict[str, Any]:
        (reply,) = self.post(path, *messages).json()
        return reply


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmulatedOrg, EmulatorServer]]:
    org = EmulatedOrg(seed=3)
    org.populate(1)
    with EmulatorServer(org, directory=tmp_path_factory.mktemp("org")) as server:
        yield org, server
    org.close()


@pytest.fixture
def client(served: tuple[EmulatedOrg, EmulatorServer], monkeypatch: pytest.MonkeyPatch) -> Client:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    return Client(*served)


@pytest.mark.parametrize(
    ("path", "replays"),
    [
        ("/cometd/60.0", True),
        ("/cometd/60.0/", True),
        ("/cometd/60.0/handshake", True),
        ("/cometd/37.0", True),
        ("/cometd/36.0", False),
        ("/cometd/replay/36.0", True),
        ("/cometd/replay/36.0/handshake", True),
    ],
)
def test_an_address_has_a_version_and_the_newer_ones_replay(client: Client, path: str, replays: bool) -> None:
    reply = client.reply(path, HANDSHAKE)
    assert reply["successful"]
    assert reply["ext"].get("replay", False) is replays


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/cometd", "400::API version in the URI is mandatory"),
        ("/cometd/", "400::API version in the URI is mandatory"),
        ("/cometd/1.0", "400::Unsupported API version"),
        ("/cometd/999.0", "400::Unsupported API version"),
        ("/cometd/sixty", "400::Unsupported API version"),
    ],
)
def test_another_address_is_refused(client: Client, path: str, reason: str) -> None:
    assert client.reply(path, HANDSHAKE)["error"].startswith(reason)


def test_a_session_is_known_by_its_cookie(client: Client) -> None:
    response = client.post("/cometd/60.0", HANDSHAKE)
    (cookie,) = response.cookies
    assert (cookie.name, cookie.path, cookie.secure) == ("BAYEUX_BROWSER", "/cometd/", True)
    connect = {"channel": "/meta/connect", "connectionType": "long-polling", "clientId": response.json()[0]["clientId"]}
    assert client.reply("/cometd/60.0/connect", connect)["successful"]
    client.http.cookies.clear()
    assert "no BAYEUX_BROWSER cookie present" in client.reply("/cometd/60.0/connect", connect)["error"]
    del client.http.headers["Authorization"]
    assert client.reply("/cometd/60.0", HANDSHAKE)["ext"]["sfdc"] == {
        "failureReason": "401::Request requires authentication"
    }


def test_a_request_has_at_most_32768_bytes_of_json(client: Client) -> None:
    large = client.post("/cometd/60.0", {**HANDSHAKE, "ext": {"padding": "x" * 33_000}})
    assert (large.status_code, large.text) == (413, "Maximum Request Size Exceeded")
    for body in (b"{broken", b"[]", b"[1]"):
        response = client.http.post(f"{client.server.rest_url}/cometd/60.0", data=body, timeout=BOUND_SECONDS)
        assert response.status_code == 400


def test_schemas_of_events_are_to_be_had_by_rest(client: Client) -> None:
    data = f"{client.server.rest_url}/services/data/v60.0"
    newest = client.http.get(
        f"{data}/sobjects/AccountChangeEvent/eventSchema?payloadFormat=COMPACT", timeout=BOUND_SECONDS
    ).json()
    assert newest["uuid"] == client.server.bus.newest_schema_id("Account")
    assert (newest["name"], newest["type"]) == ("AccountChangeEvent", "record")
    same = client.http.get(f"{data}/event/eventSchema/{newest['uuid']}?payloadFormat=COMPACT", timeout=BOUND_SECONDS)
    assert same.json() == newest
    for path in (
        "event/eventSchema/unknown?payloadFormat=COMPACT",
        "sobjects/XChangeEvent/eventSchema?payloadFormat=COMPACT",
    ):
        assert client.http.get(f"{data}/{path}", timeout=BOUND_SECONDS).status_code == 404
