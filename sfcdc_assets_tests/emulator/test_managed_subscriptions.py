"""Managed event subscriptions: made by the Tooling API, read and committed by ManagedSubscribe."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import requests

from sfcdc_assets.emulator.events.event_bus import RETENTION_MS
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2_grpc as pb_grpc
from sfcdc_assets_tests.eventually import BOUND_SECONDS

PATH = "/services/data/v65.0/tooling"


class Client:
    """REST and Pub/Sub with one token."""

    def __init__(self, org: EmulatedOrg, server: EmulatorServer) -> None:
        self.org, self.server = org, server
        token = server.sessions.issue(org.users.integration, 10**12)
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {token}"
        self.session.verify = str(server.ca_file)
        self.session.trust_env = False  # REQUESTS_CA_BUNDLE would win over `verify`
        credentials = grpc.ssl_channel_credentials(server.ca_file.read_bytes())
        self.channel = grpc.secure_channel(server.pubsub_endpoint, credentials)
        self.metadata = [
            ("accesstoken", token),
            ("instanceurl", server.rest_url),
            ("tenantid", org.organization_id),
        ]

    def rest(self, method: str, path: str, **options: Any) -> requests.Response:
        return self.session.request(method, self.server.rest_url + PATH + path, timeout=BOUND_SECONDS, **options)

    def make(self, name: str, **changes: str) -> str:
        facts = {
            "label": name,
            "topicName": "/data/AccountChangeEvent",
            "defaultReplay": "EARLIEST",
            "errorRecoveryReplay": "LATEST",
            "state": "RUN",
        }
        body = {"FullName": name, "Metadata": {**facts, **changes}}
        answer = self.rest("POST", "/sobjects/ManagedEventSubscription", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    def open(self, **first: Any) -> Stream:
        return Stream(self, **first)

    def create(self, count: int) -> None:
        for _ in range(count):
            with self.org.transaction() as work:
                work.create("Account", {"Name": "a"})


class Stream:
    """A ManagedSubscribe call."""

    def __init__(self, client: Client, **first: Any) -> None:
        self._requests: queue.SimpleQueue[pb.ManagedFetchRequest | None] = queue.SimpleQueue()
        self.send(**first)
        stub = pb_grpc.PubSubStub(client.channel)
        self.responses = stub.ManagedSubscribe(
            iter(self._requests.get, None), metadata=client.metadata, timeout=BOUND_SECONDS
        )

    def send(self, **request: Any) -> None:
        self._requests.put(pb.ManagedFetchRequest(**request))

    def events(self, count: int) -> list[pb.ConsumerEvent]:
        found: list[pb.ConsumerEvent] = []
        while len(found) < count:
            found.extend(next(self.responses).events)
        return found

    def commit(self, replay_id: bytes, name: str = "c") -> pb.CommitReplayResponse:
        self.send(commit_replay_id_request=pb.CommitReplayRequest(commit_request_id=name, replay_id=replay_id))
        while not (response := next(self.responses)).HasField("commit_response"):
            pass
        return response.commit_response

    def close(self) -> None:
        """End it as a client does, and wait until the org knows."""
        self._requests.put(None)
        assert list(self.responses) == []

    def error_code(self) -> str:
        with pytest.raises(grpc.RpcError):
            for _ in self.responses:
                pass
        trailers = dict(self.responses.trailing_metadata())
        self._requests.put(None)
        return str(trailers["error-code"]).removeprefix("sfdc.platform.eventbus.grpc.managed.subscription.")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder: Path = tmp_path_factory.mktemp("managed")
    org = EmulatedOrg(clock=ManualClock(), seed=9)
    with EmulatorServer(org, directory=folder) as server:
        client = Client(org, server)
        yield client
        client.channel.close()
        client.session.close()
    org.close()


def test_a_subscriber_goes_on_after_what_it_committed(client: Client) -> None:
    client.make("Goes_On")
    client.create(5)
    stream = client.open(developer_name="Goes_On", num_requested=3)
    first = stream.events(3)
    done = stream.commit(first[1].replay_id, "two")
    assert (done.commit_request_id, done.HasField("error"), done.process_time) == ("two", False, client.org.clock())
    stream.close()
    again = client.open(developer_name="Goes_On", num_requested=10)
    assert again.events(3)[0].event.id == first[2].event.id
    older = again.commit(first[0].replay_id)
    assert older.error.code == pb.ErrorCode.COMMIT
    assert "older" in older.error.msg
    assert again.commit(b"nonsense").HasField("error")
    assert again.commit(b"").HasField("error")
    again.close()


def test_a_place_that_is_lost_is_recovered_as_the_subscription_says(client: Client) -> None:
    subscription_id = client.make("Recovers", errorRecoveryReplay="EARLIEST")
    client.create(2)
    stream = client.open(subscription_id=subscription_id, num_requested=1)
    stream.commit(stream.events(1)[0].replay_id)
    stream.close()
    client.org.clock.advance(RETENTION_MS + 1)  # type: ignore[attr-defined]
    client.create(1)
    again = client.open(subscription_id=subscription_id[:15], num_requested=5)
    assert len(again.events(1)) == 1
    again.close()


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ({"num_requested": 1}, "id.or.developer.name.empty"),
        ({"num_requested": 1, "developer_name": "a", "subscription_id": "b"}, "id.or.developer.name.empty"),
        ({"num_requested": 1, "developer_name": "Nobody"}, "developer.name.not.found"),
        ({"num_requested": 1, "subscription_id": "18x000000000001"}, "subscription.id.not.found"),
        ({"num_requested": 1, "subscription_id": "18x"}, "subscription.id.invalid"),
        ({"num_requested": 0, "developer_name": "Nobody"}, "fetch.request.events.invalid"),
        (
            {"developer_name": "Nobody", "commit_replay_id_request": pb.CommitReplayRequest(commit_request_id="a")},
            "fetch.request.commit.request.restricted",
        ),
        ({"num_requested": 1, "auth_refresh": "x", "developer_name": "a"}, "fetch.request.auth.request.restricted"),
    ],
)
def test_a_wrong_first_request_is_refused(client: Client, first: dict[str, Any], code: str) -> None:
    assert client.open(**first).error_code() == code


def test_a_subscription_has_one_stream_and_ends_when_stopped_or_deleted(client: Client) -> None:
    subscription_id = client.make("Alone", defaultReplay="LATEST")
    path = f"/sobjects/ManagedEventSubscription/{subscription_id}"
    stream = client.open(developer_name="Alone", num_requested=100)
    committed = stream.commit(b"nonsense")  # the stream has begun when it answers
    assert committed.HasField("error")
    assert client.open(developer_name="Alone", num_requested=1).error_code() == "already.active"
    assert client.rest("PATCH", path, json={"Metadata": {"state": "STOP"}}).status_code == 204
    client.create(1)
    assert stream.error_code() == "config.stopped"
    assert client.open(developer_name="Alone", num_requested=1).error_code() == "config.stopped"
    client.rest("PATCH", path, json={"Metadata": {"state": "RUN"}})
    stream = client.open(developer_name="Alone", num_requested=100)
    stream.send(developer_name="Another", num_requested=1)
    assert stream.error_code() == "fetch.request.invalid"
    assert client.rest("DELETE", path).status_code == 204
    assert client.rest("GET", path).status_code == 404


def test_a_subscription_that_was_stopped_has_forgotten_what_was_committed(client: Client) -> None:
    subscription_id = client.make("Stopped", defaultReplay="EARLIEST")
    path = f"/sobjects/ManagedEventSubscription/{subscription_id}"
    client.org.managed_subscriptions.commit("Stopped", b"some place")
    client.rest("PATCH", path, json={"Metadata": {"label": "Renamed"}})
    kept = client.org.managed_subscriptions.get(subscription_id)
    assert (kept.label, kept.committed) == ("Renamed", b"some place")
    for state in ("STOP", "RUN"):
        client.rest("PATCH", path, json={"Metadata": {"state": state}})
        assert client.org.managed_subscriptions.get(subscription_id).committed is None


def test_a_subscription_is_read_and_queried_with_its_metadata(client: Client) -> None:
    subscription_id = client.make("Read_Me")
    path = f"/sobjects/ManagedEventSubscription/{subscription_id}"
    metadata = client.rest("GET", path).json()["Metadata"]
    assert metadata["topicName"] == "/data/AccountChangeEvent"
    soql = f"SELECT Id, DeveloperName, Metadata FROM ManagedEventSubscription WHERE Id = '{subscription_id}' LIMIT 1"
    (row,) = client.rest("GET", "/query", params={"q": soql}).json()["records"]
    assert (row["DeveloperName"], row["Metadata"]) == ("Read_Me", metadata)
    for name, facts in (("Read_Me", {}), ("bad name", {}), ("Bad", {"defaultReplay": "CUSTOM"})):
        body = {"FullName": name, "Metadata": {**metadata, **facts}}
        assert client.rest("POST", "/sobjects/ManagedEventSubscription", json=body).status_code == 400
    changed = {"Metadata": {"topicName": "/data/ContactChangeEvent"}}
    assert client.rest("PATCH", path, json=changed).json()[0]["errorCode"] == "FIELD_INTEGRITY_EXCEPTION"
