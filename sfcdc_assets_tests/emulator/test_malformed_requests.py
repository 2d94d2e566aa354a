"""Malformed requests to all that an org serves: no 5xx, no traceback, no call that hangs, and the org goes on."""

from __future__ import annotations

import logging
import random
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import grpc
import pytest
import requests

from sfcdc_assets.emulator.cometd.client_session import COOKIE, CometdTiming
from sfcdc_assets.emulator.definitions.object_file import built_in_definitions, stock_definitions
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets_tests.emulator.malformed.bayeux import bayeux_request
from sfcdc_assets_tests.emulator.malformed.pubsub import STREAMS, frames, pubsub_call
from sfcdc_assets_tests.emulator.malformed.rest import rest_request
from sfcdc_assets_tests.eventually import BOUND_SECONDS

REQUESTS = 1_000
"""Seconds within which anything is answered."""
HANDSHAKE = {"channel": "/meta/handshake", "version": "1.0", "supportedConnectionTypes": ["long-polling"]}
BROKEN = {grpc.StatusCode.UNKNOWN, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.DATA_LOSS}
"""What a call ends with whose handler failed, or that hangs."""


class Fuzzed:
    """A served org and a client that knows how to ask properly, beside asking badly."""

    def __init__(self, org: EmulatedOrg, server: EmulatorServer) -> None:
        self.org, self.server = org, server
        self.statuses: dict[str, int] = {}
        self._http = requests.Session()
        self._http.trust_env = False  # which would name another authority
        self._http.verify = str(server.ca_file)
        self._token = server.sessions.issue(org.users.integration)
        self._http.headers["Authorization"] = f"Bearer {self._token}"
        credentials = grpc.ssl_channel_credentials(server.ca_file.read_bytes())
        self._channel = grpc.secure_channel(server.pubsub_endpoint, credentials)
        self._metadata = {
            "accesstoken": self._token,
            "instanceurl": server.rest_url,
            "tenantid": org.organization_id,
        }
        self._client_id, self._cookie = "", ""
        self._ids: dict[str, str] = {}

    def rest(self, dice: random.Random) -> None:
        if not self._ids or dice.random() < 0.01:
            self._ids = self._real_ids()
        asked = rest_request(dice, self._ids)
        path = asked.path[1:] if asked.path.startswith("//") else f"/services/data/v59.0{asked.path}"
        headers = {name: value.encode("latin-1") for name, value in asked.headers.items()}
        answer = self._http.request(
            asked.method, self.server.rest_url + path, params=asked.asked, data=asked.content, headers=headers,
            timeout=BOUND_SECONDS, allow_redirects=False,
        )  # fmt: skip
        # SOAP answers each refusal with a fault and 500.
        is_fault = "<sf:exceptionCode>" in answer.text and "UNKNOWN_EXCEPTION" not in answer.text
        assert answer.status_code < 500 or is_fault, (asked, answer.text)
        self._note(f"REST {answer.status_code}")

    def _real_ids(self) -> dict[str, str]:
        """A record and open jobs, for requests to get further."""
        base = self.server.rest_url

        def made(path: str, document: dict[str, str]) -> str:
            return str(self._http.post(base + path, json=document, timeout=BOUND_SECONDS).json()["id"])

        return {
            "record": made("/services/data/v59.0/sobjects/Account", {"Name": "real"}),
            "ingest": made("/services/data/v59.0/jobs/ingest", {"object": "Account", "operation": "insert"}),
            "query": made("/services/data/v59.0/jobs/query", {"operation": "query", "query": "SELECT Id FROM Account"}),
            "async": made(
                "/services/async/59.0/job", {"operation": "insert", "object": "Account", "contentType": "JSON"}
            ),
        }

    def bayeux(self, dice: random.Random) -> None:
        if not self._client_id or dice.random() < 0.02:
            answer = self._http.post(f"{self.server.rest_url}/cometd/59.0", json=[HANDSHAKE], timeout=BOUND_SECONDS)
            self._client_id, self._cookie = answer.json()[0]["clientId"], answer.cookies[COOKIE]
        asked = bayeux_request(dice, self._client_id)
        cookie = f"{COOKIE}={self._cookie}" if asked.knows_cookie else ""
        sent: dict[str, Any] = {"Content-Type": "application/json", "Cookie": cookie}
        if asked.token is not None:
            sent["Authorization"] = asked.token.encode("latin-1")
        answer = self._http.request(
            asked.method, self.server.rest_url + asked.path, data=asked.content, headers=sent, timeout=BOUND_SECONDS
        )
        assert answer.status_code < 500, (asked, answer.text)
        if answer.status_code == 200:
            assert all(isinstance(reply, dict) for reply in answer.json()), asked
        self._note(f"Bayeux {answer.status_code}")

    def pubsub(self, dice: random.Random) -> None:
        asked = pubsub_call(dice)
        metadata = dict(self._metadata)
        if asked.header is not None:
            name, given = asked.header
            metadata = {key: value for key, value in metadata.items() if key != name}
            metadata |= {name: given} if given is not None else {}
        path = f"/eventbus.v1.PubSub/{asked.method}"
        options = {"metadata": [*metadata.items()], "timeout": BOUND_SECONDS}
        if asked.method in STREAMS:
            call = self._channel.stream_stream(path)(iter(asked.messages), **options)
        else:
            call = self._channel.unary_stream(path)(asked.messages[0], **options)
        with suppress(grpc.RpcError):  # its status is what counts
            for _ in call:
                pass
        shown = (asked.method, asked.header, [each[:99] for each in asked.messages], call.details())
        assert call.code() not in BROKEN, shown
        self._note(f"gRPC {call.code().name}")

    def connection(self, dice: random.Random) -> None:
        """Say something that is no protocol, and go; the answer, if there is one, is of no interest."""
        host, port = self.server.pubsub_endpoint.split(":")
        if dice.random() < 0.3:
            port = self.server.rest_url.rsplit(":", 1)[1]
        said = frames(dice)
        with socket.create_connection((host, int(port)), timeout=BOUND_SECONDS) as plain, suppress(OSError):
            if dice.random() < 0.3:
                plain.sendall(said)
                return
            context = ssl.create_default_context(cafile=str(self.server.ca_file))
            context.set_alpn_protocols(["h2"])
            with context.wrap_socket(plain, server_hostname="localhost") as secure:
                secure.sendall(said)
        self._note("connection")

    def check_the_org_goes_on(self) -> None:
        """All three protocols answer a good request."""
        base = self.server.rest_url
        counted = self._http.get(
            f"{base}/services/data/v59.0/query?q=SELECT COUNT() FROM Account", timeout=BOUND_SECONDS
        )
        assert counted.json()["totalSize"] == sum(1 for _ in self.org.records("Account"))
        (reply,) = self._http.post(f"{base}/cometd/59.0", json=[HANDSHAKE], timeout=BOUND_SECONDS).json()
        assert reply["successful"]
        request = pb.TopicRequest(topic_name="/data/ChangeEvents").SerializeToString()
        call = self._channel.unary_unary("/eventbus.v1.PubSub/GetTopic")
        answer = pb.TopicInfo.FromString(call(request, metadata=[*self._metadata.items()], timeout=BOUND_SECONDS))
        assert answer.can_subscribe
        assert self.server.service.open_streams == 0

    def close(self) -> None:
        self._channel.close()
        self._http.close()

    def _note(self, status: str) -> None:
        self.statuses[status] = self.statuses.get(status, 0) + 1


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    org = EmulatedOrg(clock=ManualClock(), seed=1, objects=[*built_in_definitions(), *stock_definitions()])
    org.populate({"User": 1, "Account": 5, "Contact": 5})
    timing = CometdTiming(timeout=0)
    with EmulatorServer(org, directory=tmp_path_factory.mktemp("org"), cometd_timing=timing) as server:
        client = Fuzzed(org, server)
        yield client
        client.close()
    org.close()


def throw(fuzzed: Fuzzed, first: int, last: int, log: pytest.LogCaptureFixture) -> None:
    """The requests of these numbers; each is known by its number alone."""
    failed: list[threading.ExceptHookArgs] = []
    hook, threading.excepthook = threading.excepthook, failed.append
    try:
        with log.at_level(logging.ERROR):
            for number in range(first, last):
                dice = random.Random(number)
                kinds: tuple[Callable[[random.Random], None], ...] = (
                    fuzzed.rest, fuzzed.rest, fuzzed.rest, fuzzed.rest, fuzzed.bayeux, fuzzed.bayeux, fuzzed.pubsub,
                    fuzzed.pubsub, fuzzed.pubsub, fuzzed.connection if number % 100 < 30 else fuzzed.rest,
                )  # fmt: skip
                try:
                    kinds[number % len(kinds)](dice)
                except (AssertionError, requests.RequestException) as error:
                    raise AssertionError(f"request {number}: {error}") from error
        fuzzed.check_the_org_goes_on()
    finally:
        threading.excepthook = hook
    assert [str(each.exc_value) for each in failed] == []
    assert [(record.message, str(record.exc_info)) for record in log.records if record.exc_info] == []


def test_malformed_requests_are_refused_and_the_org_goes_on(
    fuzzed: Fuzzed, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    throw(fuzzed, 0, REQUESTS, caplog)
    assert "Traceback" not in capfd.readouterr().err
    assert {"REST 400", "REST 404", "REST 405", "Bayeux 200", "Bayeux 400", "connection"} <= {*fuzzed.statuses}
    codes = {"gRPC OK", "gRPC INVALID_ARGUMENT", "gRPC UNAUTHENTICATED", "gRPC INTERNAL", "gRPC UNIMPLEMENTED"}
    assert codes <= {*fuzzed.statuses}


@pytest.mark.slow
def test_ten_thousand_malformed_requests_are_refused_and_the_org_goes_on(
    fuzzed: Fuzzed,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    pytestconfig: pytest.Config,
) -> None:
    throw(fuzzed, 0, pytestconfig.getoption("--requests"), caplog)
    assert "Traceback" not in capfd.readouterr().err
