"""A served org and clients of all its protocols that know nothing of it: what they are answered, over the wire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import requests

from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.emulator.pubsub.stream_timing import StreamTiming
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2_grpc as pb_grpc
from sfcdc_assets_tests.eventually import BOUND_SECONDS

PREFIX = "sfdc.platform.eventbus.grpc."
ALL = "/data/ChangeEvents"
HANDSHAKE = {"channel": "/meta/handshake", "version": "1.0", "supportedConnectionTypes": ["long-polling"], "id": "1"}
XML = {"Content-Type": "text/xml", "SOAPAction": "login"}


class Wire:
    """Requests to one served org; `clock` is the org's."""

    def __init__(self, org: EmulatedOrg, clock: ManualClock, server: EmulatorServer) -> None:
        self.org, self.clock, self.server, self.faults = org, clock, server, org.faults
        self.http = requests.Session()
        self.http.verify = str(server.ca_file)
        credentials = grpc.ssl_channel_credentials(server.ca_file.read_bytes())
        self.channel = grpc.secure_channel(server.pubsub_endpoint, credentials)
        self.stub = pb_grpc.PubSubStub(self.channel)
        self._settings = org.settings
        self.log_in()

    def log_in(self) -> None:
        """Use a new token from now on."""
        self.token = self.server.sessions.issue(self.org.users.integration)

    def reset(self) -> None:
        """Faults, permissions and settings are those of a new org again; the records stay."""
        self.faults.disarm()
        self.server.rest_faults.disarm()
        self.org.unreadable_objects.clear()
        self.org.settings = self._settings
        self.org.field_security.show("Account", "Phone")
        self.log_in()

    # -- HTTP

    def rest(self, method: str, path: str, version: str = "60.0", **options: Any) -> requests.Response:
        """A path that begins with `/services` is whole, another one follows the version."""
        full = path if path.startswith("/services") else f"/services/data/v{version}{path}"
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        return self.http.request(method, self.server.rest_url + full, headers=headers, timeout=BOUND_SECONDS, **options)

    def query(self, soql: str) -> requests.Response:
        return self.rest("GET", "/query", params={"q": soql})

    def cometd(self, *messages: dict[str, Any], path: str = "/cometd/60.0", **options: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        url = self.server.rest_url + path
        return self.http.post(url, json=list(messages), headers=headers, timeout=BOUND_SECONDS, **options)

    def handshake(self) -> str:
        """The id of a new client, whose cookie this session sends from now on."""
        self.http.cookies.clear()
        self.cometd_client = str(self.cometd(HANDSHAKE).json()[0]["clientId"])
        return self.cometd_client

    def subscribe_cometd(self, channel: str, place: object = -1) -> dict[str, Any]:
        """The reply to a subscription of a new client."""
        message = {"channel": "/meta/subscribe", "clientId": self.handshake(), "subscription": channel}
        (reply,) = self.cometd({**message, "ext": {"replay": {channel: place}}}).json()
        return dict(reply)

    # -- gRPC

    @property
    def metadata(self) -> list[tuple[str, str]]:
        return [
            ("accesstoken", self.token),
            ("instanceurl", self.server.rest_url),
            ("tenantid", self.org.organization_id),
        ]

    def subscribe(self, *requests: pb.FetchRequest) -> Iterator[pb.FetchResponse]:
        """A call that sends these and closes its side: it is given what is there."""
        responses: Iterator[pb.FetchResponse] = self.stub.Subscribe(
            iter(requests), metadata=self.metadata, timeout=BOUND_SECONDS
        )
        return responses

    def create(self, **values: object) -> str:
        with self.org.transaction() as work:
            return work.create("Account", {"Name": "a", **values})

    def close(self) -> None:
        self.channel.close()
        self.http.close()


@contextmanager
def wire(
    folder: Path, settings: OrgSettings | None = None, timing: StreamTiming | None = None, records: int = 5
) -> Iterator[Wire]:
    """A new org with some records, served."""
    clock = ManualClock()
    org = EmulatedOrg(clock=clock, seed=9, settings=settings or OrgSettings())
    org.populate({"Account": records})
    with pytest.MonkeyPatch.context() as patch, EmulatorServer(org, directory=folder, timing=timing) as server:
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
            patch.delenv(name, raising=False)
        opened = Wire(org, clock, server)
        try:
            yield opened
        finally:
            opened.close()
    org.close()


def refused(call: Iterable[Any]) -> grpc.RpcError:
    """The error that ends a call; its responses are thrown away."""
    with pytest.raises(grpc.RpcError) as raised:
        for _ in call:
            pass
    return raised.value


def error_code(error: grpc.RpcError) -> str:
    """What follows the prefix of the `error-code` trailer."""
    return str(dict(error.trailing_metadata())["error-code"]).removeprefix(PREFIX)
