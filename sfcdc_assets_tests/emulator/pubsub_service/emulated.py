"""The Pub/Sub service of an emulated org behind gRPC, a client that speaks nothing but the protocol, and what a
refusal is."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.pubsub.pubsub_server import PubSubServer
from sfcdc_assets.emulator.pubsub.pubsub_service import PubSubService
from sfcdc_assets.emulator.pubsub.stream_timing import StreamTiming
from sfcdc_assets.emulator.serving.certificate import server_certificate
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2_grpc as pb_grpc
from sfcdc_assets_tests.eventually import BOUND_SECONDS

TOKEN = "00Dxx!token-of-the-test"
ALL = "/data/ChangeEvents"
EARLIEST, LATEST, CUSTOM = pb.ReplayPreset.EARLIEST, pb.ReplayPreset.LATEST, pb.ReplayPreset.CUSTOM


class OneToken:
    """Sessions of an org that has given out one token."""

    def user_of(self, access_token: str) -> str | None:
        return "005000000000001AAA" if access_token == TOKEN else None


class Stream:
    """A Subscribe call whose requests are sent when the test says so."""

    def __init__(self, call: Callable[..., Iterator[pb.FetchResponse]], metadata: list[tuple[str, str]]) -> None:
        self._requests: queue.SimpleQueue[pb.FetchRequest | None] = queue.SimpleQueue()
        self.responses = call(iter(self._requests.get, None), metadata=metadata, timeout=BOUND_SECONDS)

    def request(self, number: int, topic: str = "", preset: int = LATEST, replay: bytes = b"") -> Stream:
        self._requests.put(
            pb.FetchRequest(topic_name=topic, num_requested=number, replay_preset=preset, replay_id=replay)
        )
        return self

    def half_close(self) -> None:
        self._requests.put(None)

    def next(self) -> pb.FetchResponse:
        return next(self.responses)

    def events(self, count: int) -> list[pb.ConsumerEvent]:
        """Read until at least `count` events have come; the call's deadline bounds the wait."""
        found: list[pb.ConsumerEvent] = []
        while len(found) < count:
            found.extend(self.next().events)
        return found

    def error(self) -> grpc.RpcError:
        with pytest.raises(grpc.RpcError) as raised:
            for _ in self.responses:
                pass
        return raised.value

    def ended_by_the_server(self) -> bool:
        """Whether the stream is over, normally or as a cancelled one, with nothing more delivered."""
        try:
            return not list(self.responses)
        except grpc.RpcError as error:
            return error.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)

    def cancel(self) -> None:
        self.half_close()
        self.responses.cancel()


class Emulated:
    """A served org and a client of it."""

    def __init__(self, directory: Path, timing: StreamTiming) -> None:
        self.clock = ManualClock()
        self.org = EmulatedOrg(clock=self.clock, seed=4)
        self.bus = EventBus(self.org)
        certificate = server_certificate(directory)
        self.service = PubSubService(self.org, self.bus, sessions=OneToken(), timing=timing)
        self.server = PubSubServer(self.service, certificate)
        self.server.start()
        self.ca_file, self.endpoint = certificate.ca_file, f"localhost:{self.server.port}"
        credentials = grpc.ssl_channel_credentials(self.ca_file.read_bytes())
        self.channel = grpc.secure_channel(self.endpoint, credentials)
        self.stub = pb_grpc.PubSubStub(self.channel)
        self.metadata = [
            ("accesstoken", TOKEN),
            ("instanceurl", "https://localhost:1"),
            ("tenantid", self.org.organization_id),
        ]
        self.streams: list[Stream] = []

    def subscribe(self, number: int, topic: str = ALL, preset: int = EARLIEST, replay: bytes = b"") -> Stream:
        return self.open().request(number, topic, preset, replay)

    def open(self) -> Stream:
        self.streams.append(Stream(self.stub.Subscribe, self.metadata))
        return self.streams[-1]

    def create(self, count: int, **values: object) -> None:
        for _ in range(count):
            with self.org.transaction() as work:
                work.create("Account", {"Name": "a", **values})

    def with_header(self, name: str, value: str | None) -> list[tuple[str, str]]:
        others = [(key, text) for key, text in self.metadata if key != name]
        return others if value is None else [*others, (name, value)]

    def close(self) -> None:
        for stream in self.streams:
            stream.cancel()
        self.channel.close()
        self.server.stop()
        self.org.close()


def trailers(error: grpc.RpcError) -> dict[str, str]:
    return {key: value for key, value in error.trailing_metadata() if key in ("error-code", "rpc-id", "type")}


def refused(error: grpc.RpcError, status: grpc.StatusCode, error_code: str, kind: str = "Subscribe") -> None:
    """The status, the code, and the rpc id both in the trailers and at the end of the text."""
    assert error.code() == status
    found = trailers(error)
    assert found["error-code"] == "sfdc.platform.eventbus.grpc." + error_code
    assert found["type"] == kind
    assert error.details().endswith(f" rpcId: {found['rpc-id']}")
