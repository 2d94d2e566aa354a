"""A Pub/Sub service on loopback, over TLS, that plays a script: one list of steps for each Subscribe call.

It records what clients send. Waiting steps are bounded; a call without a script answers UNAVAILABLE.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc
import trustme

from sfcdc_assets.streams.pubsub.errors import ERROR_CODE_PREFIX
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2_grpc as pb_grpc
from sfcdc_assets_tests.eventually import BOUND_SECONDS

SILENCE_SECONDS = 3 * BOUND_SECONDS
"""Longer than any wait of a test, so that only the client can have ended it."""


def replay(number: int) -> bytes:
    """A replay id in the captured form: an 8-byte counter and two zero bytes."""
    return number.to_bytes(8, "big") + b"\0\0"


def event(number: int, name: str | None = None, payload: bytes | None = None) -> pb.ConsumerEvent:
    name = name or f"event-{number}"
    producer = pb.ProducerEvent(id=name, schema_id="schema", payload=payload or name.encode())
    return pb.ConsumerEvent(event=producer, replay_id=replay(number))


@dataclass
class Events:
    """Deliver these; pending is what was asked for and not delivered, if not given."""

    events: Sequence[pb.ConsumerEvent]
    latest: bytes = b""
    pending: int | None = None


@dataclass
class Keepalive:
    latest: bytes


@dataclass
class Abort:
    """End with an error; without an `error_code` there are no trailers, as when the network ends a call."""

    error_code: str = ""
    code: grpc.StatusCode = grpc.StatusCode.INTERNAL
    details: str = "Received RST_STREAM with code 0 (Call ended without gRPC status)"


class Reset:
    """Reset the HTTP/2 stream."""


class Silence:
    """Say nothing until the client goes away."""


@dataclass
class Asked:
    """Wait until so many events were asked for in all."""

    number: int


Step = Events | Keepalive | Abort | Reset | Silence | Asked


@dataclass
class Call:
    """What one Subscribe call brought."""

    metadata: dict[str, str]
    requests: list[pb.FetchRequest] = field(default_factory=list)
    asked: int = 0
    delivered: int = 0
    most_outstanding: int = 0
    over: threading.Event = field(default_factory=threading.Event)


class ScriptedService(pb_grpc.PubSubServicer):
    """Plays `scripts`; `tokens` are the access tokens it accepts (all, when None)."""

    def __init__(self, *scripts: Sequence[Step], tokens: set[str] | None = None) -> None:
        self.scripts = [list(script) for script in scripts]
        self.tokens = tokens
        self.calls: list[Call] = []
        self.unary: list[tuple[str, dict[str, str]]] = []
        self.unary_script: list[Abort | Silence] = []
        self.can_subscribe = True
        self._changed = threading.Condition()

    def GetTopic(self, request: pb.TopicRequest, context: Any) -> pb.TopicInfo:  # noqa: N802 (gRPC's name)
        self._unary("GetTopic", context)
        return pb.TopicInfo(topic_name=request.topic_name, tenant_guid="CORE/prod/x", can_subscribe=self.can_subscribe)

    def GetSchema(self, request: pb.SchemaRequest, context: Any) -> pb.SchemaInfo:  # noqa: N802 (gRPC's name)
        self._unary("GetSchema", context)
        return pb.SchemaInfo(schema_json='{"type":"string"}', schema_id=request.schema_id)

    def Subscribe(self, requests: Iterator[pb.FetchRequest], context: Any) -> Iterator[pb.FetchResponse]:  # noqa: N802
        call = Call(dict(context.invocation_metadata()))
        with self._changed:
            script: Sequence[Step] = self.scripts.pop(0) if self.scripts else [Abort(code=grpc.StatusCode.UNAVAILABLE)]
            self.calls.append(call)
        if not context.add_callback(lambda: self._note(call.over.set)):
            call.over.set()
        threading.Thread(target=self._read_requests, args=(call, requests), daemon=True).start()
        self._wait(call, lambda: call.asked > 0)
        self._check_token(context)
        for step in script:
            yield from self._play(step, call, context)

    def _play(self, step: Step, call: Call, context: Any) -> Iterator[pb.FetchResponse]:
        if isinstance(step, Events):
            with self._changed:
                call.delivered += len(step.events)
                pending = call.asked - call.delivered if step.pending is None else step.pending
            yield pb.FetchResponse(
                events=step.events, latest_replay_id=step.latest, pending_num_requested=pending, rpc_id="rpc-1"
            )
        elif isinstance(step, Keepalive):
            pending = call.asked - call.delivered
            yield pb.FetchResponse(latest_replay_id=step.latest, pending_num_requested=pending)
        elif isinstance(step, Asked):
            self._wait(call, lambda: call.asked >= step.number)
        elif isinstance(step, Silence):
            call.over.wait(SILENCE_SECONDS)
        elif isinstance(step, Reset):
            context.cancel()
        else:
            self._abort(step, context)

    def _unary(self, name: str, context: Any) -> None:
        self.unary.append((name, dict(context.invocation_metadata())))
        self._check_token(context)
        step = self.unary_script.pop(0) if self.unary_script else None
        if isinstance(step, Silence):
            over = threading.Event()
            if context.add_callback(over.set):
                over.wait(SILENCE_SECONDS)
        elif step is not None:
            self._abort(step, context)

    def _check_token(self, context: Any) -> None:
        token = dict(context.invocation_metadata())["accesstoken"]
        if self.tokens is not None and token not in self.tokens:
            details = f"An authentication exception occurred for {token}."
            self._abort(Abort("service.auth.error", grpc.StatusCode.UNAUTHENTICATED, details), context)

    @staticmethod
    def _abort(step: Abort, context: Any) -> None:
        if step.error_code:
            code = ERROR_CODE_PREFIX + step.error_code
            context.set_trailing_metadata((("error-code", code), ("rpc-id", "rpc-1"), ("type", "Subscribe")))
        context.abort(step.code, step.details)

    def _read_requests(self, call: Call, requests: Iterator[pb.FetchRequest]) -> None:
        try:
            for request in requests:
                self._note(lambda request=request: self._record(call, request))
        except grpc.RpcError:
            pass  # the call was cancelled

    @staticmethod
    def _record(call: Call, request: pb.FetchRequest) -> None:
        call.requests.append(request)
        call.asked += request.num_requested
        call.most_outstanding = max(call.most_outstanding, call.asked - call.delivered)

    def _note(self, change: Callable[[], None]) -> None:
        with self._changed:
            change()
            self._changed.notify_all()

    def _wait(self, call: Call, condition: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: condition() or call.over.is_set(), BOUND_SECONDS)


class ScriptedServer:
    """Serves a `ScriptedService`; a context manager."""

    def __init__(self, service: ScriptedService, folder: Path) -> None:
        authority = trustme.CA()
        issued = authority.issue_cert("localhost")
        self.ca_file = folder / "ca.pem"
        authority.cert_pem.write_to_path(self.ca_file)
        key = issued.private_key_pem.bytes()
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        self.server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.max_send_message_length", 64 * 1024 * 1024)])
        pb_grpc.add_PubSubServicer_to_server(service, self.server)
        port = self.server.add_secure_port("localhost:0", grpc.ssl_server_credentials([(key, chain)]))
        self.endpoint = f"localhost:{port}"

    def __enter__(self) -> ScriptedServer:
        self.server.start()
        return self

    def __exit__(
        self, exception: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.server.stop(0).wait(BOUND_SECONDS)
