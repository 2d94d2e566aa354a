"""A served org with platform events, and clients of it by REST, CometD and the Pub/Sub API: for tests."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import fastavro
import grpc
import pytest
import requests

from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2_grpc as pb_grpc
from sfcdc_assets_tests.emulator.rest_server import RestClient
from sfcdc_assets_tests.eventually import BOUND_SECONDS

ORDER = "Order_Event__e"
TOPIC = f"/event/{ORDER}"


class EventClient:
    """Talks to one served org."""

    def __init__(self, org: EmulatedOrg, server: EmulatorServer, clock: ManualClock) -> None:
        self.org, self.server, self.clock = org, server, clock
        self.rest = RestClient(server.rest_url, "")
        self.rest.session.trust_env = False
        self.rest.session.verify = str(server.ca_file)
        self.channel = grpc.secure_channel(
            server.pubsub_endpoint, grpc.ssl_channel_credentials(server.ca_file.read_bytes())
        )
        self.stub = pb_grpc.PubSubStub(self.channel)
        self.log_in()

    def log_in(self) -> None:
        """Anew, as tokens last for two hours of the org's clock."""
        token = self.server.sessions.issue(self.org.users.integration)
        self.rest.session.headers["Authorization"] = f"Bearer {token}"
        self.metadata = (
            ("accesstoken", token),
            ("instanceurl", self.server.rest_url),
            ("tenantid", self.org.organization_id),
        )

    def post_event(self, name: str = ORDER, **values: Any) -> requests.Response:
        return self.rest.post(f"/sobjects/{name}", values)

    def topic(self, name: str = TOPIC) -> pb.TopicInfo:
        return self.stub.GetTopic(pb.TopicRequest(topic_name=name), metadata=self.metadata)

    def schema(self, schema_id: str) -> dict[str, Any]:
        found = self.stub.GetSchema(pb.SchemaRequest(schema_id=schema_id), metadata=self.metadata)
        return json.loads(found.schema_json)

    def encoded(self, schema_id: str, **values: Any) -> bytes:
        buffer = io.BytesIO()
        system = {"CreatedDate": self.clock(), "CreatedById": self.org.users.integration}
        fastavro.schemaless_writer(buffer, fastavro.parse_schema(self.schema(schema_id)), {**system, **values})
        return buffer.getvalue()

    def producer_event(self, event_id: str = "", **values: Any) -> pb.ProducerEvent:
        schema_id = self.topic().schema_id
        return pb.ProducerEvent(id=event_id, schema_id=schema_id, payload=self.encoded(schema_id, **values))

    def publish(self, *events: pb.ProducerEvent, topic: str = TOPIC) -> pb.PublishResponse:
        request = pb.PublishRequest(topic_name=topic, events=events)
        return self.stub.Publish(request, metadata=self.metadata, timeout=BOUND_SECONDS)

    def received(self, count: int, topic: str = TOPIC, after: bytes = b"") -> list[pb.ConsumerEvent]:
        """The first events after a place, from the earliest that is kept."""
        preset = pb.ReplayPreset.CUSTOM if after else pb.ReplayPreset.EARLIEST
        request = pb.FetchRequest(topic_name=topic, replay_preset=preset, replay_id=after, num_requested=count)
        ended = threading.Event()

        def requests_() -> Iterator[pb.FetchRequest]:
            yield request
            ended.wait(BOUND_SECONDS)

        stream = self.stub.Subscribe(requests_(), metadata=self.metadata, timeout=BOUND_SECONDS)
        events: list[pb.ConsumerEvent] = []
        while len(events) < count:
            events += next(stream).events
        ended.set()
        stream.cancel()
        return events

    def decoded(self, event: pb.ConsumerEvent) -> dict[str, Any]:
        schema = fastavro.parse_schema(self.schema(event.event.schema_id))
        return dict(fastavro.schemaless_reader(io.BytesIO(event.event.payload), schema))  # type: ignore[arg-type]

    def place(self) -> bytes:
        """The tip of the bus."""
        return self.server.bus.latest_replay_id()

    def streamed(self, *requests_: pb.PublishRequest) -> list[pb.PublishResponse]:
        stream = self.stub.PublishStream(iter(requests_), metadata=self.metadata, timeout=BOUND_SECONDS)
        return list(stream)

    def bayeux(self, *channels: str, replay: int) -> list[dict[str, Any]]:
        """The events that one connect brings after subscribing, or why a subscription was refused."""
        return [each for each in self.connects(*channels, replay=replay) if each["channel"] != "/meta/connect"]

    def connects(self, *channels: str, replay: int) -> list[dict[str, Any]]:
        """What one connect is answered with after subscribing."""
        url = f"{self.server.rest_url}/cometd/60.0"
        handshake = {"channel": "/meta/handshake", "version": "1.0", "supportedConnectionTypes": ["long-polling"]}
        client_id = self.rest.session.post(url, json=[handshake], timeout=BOUND_SECONDS).json()[0]["clientId"]
        ext = {"replay": dict.fromkeys(channels, replay)}
        subscribe = [
            {"channel": "/meta/subscribe", "clientId": client_id, "subscription": each, "ext": ext} for each in channels
        ]
        for reply in self.rest.session.post(url, json=subscribe, timeout=BOUND_SECONDS).json():
            if not reply["successful"]:
                return [reply]
        connect = {"channel": "/meta/connect", "clientId": client_id, "connectionType": "long-polling"}
        answer: list[dict[str, Any]] = self.rest.session.post(url, json=[connect], timeout=BOUND_SECONDS).json()
        bye = {"channel": "/meta/disconnect", "clientId": client_id}
        self.rest.session.post(url, json=[bye], timeout=BOUND_SECONDS)
        return answer

    def close(self) -> None:
        self.rest.session.close()
        self.channel.close()


class OpenPublishStream:
    """A PublishStream call whose requests are sent when the test says so."""

    def __init__(self, client: EventClient) -> None:
        self._requests: SimpleQueue[pb.PublishRequest | None] = SimpleQueue()
        self._responses = client.stub.PublishStream(
            iter(self._requests.get, None), metadata=client.metadata, timeout=BOUND_SECONDS
        )

    def send(self, *events: pb.ProducerEvent, topic: str = "") -> pb.PublishResponse:
        self._requests.put(pb.PublishRequest(topic_name=topic, events=events))
        return next(self._responses)

    def error(self) -> grpc.RpcError:
        try:
            for _ in self._responses:
                pass
        except grpc.RpcError as error:
            self._requests.put(None)
            return error
        raise AssertionError("the stream ended without an error")


@contextmanager
def event_client(folder: Path) -> Iterator[EventClient]:
    clock = ManualClock()
    org = EmulatedOrg(seed=5, clock=clock)
    org.populate({"User": 1, "Account": 1})
    with EmulatorServer(org, directory=folder) as server:
        client = EventClient(org, server, clock)
        try:
            yield client
        finally:
            client.close()
    org.close()


def error_of(raised: pytest.ExceptionInfo[grpc.RpcError] | grpc.RpcError) -> tuple[grpc.StatusCode, str]:
    """The status of a refused call and the vendor's error code, without its prefix."""
    error = raised.value if isinstance(raised, pytest.ExceptionInfo) else raised
    codes = dict(error.trailing_metadata() or ())
    return error.code(), str(codes.get("error-code", "")).removeprefix("sfdc.platform.eventbus.grpc.")
