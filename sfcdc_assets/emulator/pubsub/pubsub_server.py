"""The gRPC server of the emulated org: TLS on loopback, one thread a call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.pubsub.pubsub_service import PubSubService
from sfcdc_assets.emulator.serving.certificate import ServerCertificate
from sfcdc_assets.runtime.errors import PortInUseError
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2_grpc as pb_grpc

_REASON = "Invalid protobuf byte sequence"
_UNREADABLE = object()


class UnreadableRequests(grpc.ServerInterceptor):  # type: ignore[misc]
    """Keeps from the gRPC library what it cannot read.

    The library logs a traceback for each, and a call with a stream of requests is then never over for it, so that the
    server that has the call cannot be stopped.
    """

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler | None:
        """Return the handler of a call, for messages of any kind."""
        handler = continuation(handler_call_details)
        if handler is None:
            return None
        read, write = _reader(handler.request_deserializer), handler.response_serializer
        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(_of_stream(handler.stream_stream), read, write)
        return grpc.unary_unary_rpc_method_handler(_of_one(handler.unary_unary), read, write)


def _reader(deserializer: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def read(message: bytes) -> Any:
        try:
            return deserializer(message)
        except DecodeError:
            return _UNREADABLE

    return read


def _of_one(behaviour: Callable[..., Any]) -> Callable[..., Any]:
    def answered(request: Any, context: grpc.ServicerContext) -> Any:
        if request is _UNREADABLE:
            context.abort(grpc.StatusCode.INTERNAL, _REASON)
        return behaviour(request, context)

    return answered


def _of_stream(behaviour: Callable[..., Any]) -> Callable[..., Any]:
    def answered(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
        return behaviour(_readable(requests, context), context)

    return answered


def _readable(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
    """Yield the requests up to one that is unreadable, which ends the call as if the client had closed its side."""
    for request in requests:
        if request is _UNREADABLE:
            context.set_code(grpc.StatusCode.INTERNAL)
            context.set_details(_REASON)
            return
        yield request


_THREADS = 1_000
"""gRPC's server takes one for each call; they are started when they are needed."""
_STOP_SECONDS = 5
_BINDING_ATTEMPTS = 100
_BINDING_SECONDS = 0.02
"""Between two attempts to take the port of a server that goes away."""
_OPTIONS = (
    # Without this a second server could share the port and take half of the calls, instead of failing to start.
    ("grpc.so_reuseport", 0),
    # Clients ping an idle stream; the default would answer a ping a minute with GOAWAY "too many pings".
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # A publish request that is too large is refused as Salesforce's proxy does it, not as this library does.
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
)


class PubSubServer:
    """Serves a `PubSubService`. At most 1,000 calls at a time, of which a Subscribe stream is one for as long as it
    is open; one more is refused with RESOURCE_EXHAUSTED, and does not wait unheard.

    Commits the fault `goaway` whenever it is armed: the gRPC server that has the port is replaced by another one.
    """

    def __init__(self, service: PubSubService, certificate: ServerCertificate, port: int = 0) -> None:
        """Bind the port, or any free one for 0. Raises PortInUseError."""
        self._service = service
        self._certificate = certificate
        self._lock = threading.Lock()
        self._is_stopped = False
        self._server, self._executor, self.port = self._bound(port)

    def start(self) -> None:
        """Take calls from now on."""
        self._server.start()
        self._service.faults.on_armed(self._look)
        self._look()

    def stop(self) -> None:
        """Refuse new calls, cancel open ones and return when all have ended, well within a second."""
        with self._lock:
            self._is_stopped = True
            stopped = self._server.stop(grace=None)
            self._service.stop()
            stopped.wait(_STOP_SECONDS)
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _bound(self, port: int) -> tuple[grpc.Server, ThreadPoolExecutor, int]:
        executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="pubsub")
        server = grpc.server(
            executor, options=_OPTIONS, interceptors=[UnreadableRequests()], maximum_concurrent_rpcs=_THREADS
        )
        pb_grpc.add_PubSubServicer_to_server(self._service, server)  # type: ignore[no-untyped-call]
        credentials = grpc.ssl_server_credentials([(self._certificate.key, self._certificate.chain)])
        try:
            return server, executor, server.add_secure_port(f"127.0.0.1:{port}", credentials)
        except RuntimeError as error:
            executor.shutdown(wait=False)
            raise PortInUseError("the Pub/Sub API", port) from error

    def _look(self) -> None:
        if self._service.faults.armed(Fault.GOAWAY):
            threading.Thread(target=self._go_away, daemon=True, name="goaway").start()

    def _go_away(self) -> None:
        with self._lock:
            while not self._is_stopped and self._service.faults.take(Fault.GOAWAY):
                self._server.stop(grace=float(self._service.faults.option(Fault.GOAWAY, "seconds", 1)))
                # The streams that are left end with the old server; its port is free as soon as it does not listen.
                self._server, self._executor, self.port = self._bound_again()
                self._server.start()

    def _bound_again(self) -> tuple[grpc.Server, ThreadPoolExecutor, int]:
        for attempt in range(_BINDING_ATTEMPTS):
            try:
                return self._bound(self.port)
            except PortInUseError:
                if attempt == _BINDING_ATTEMPTS - 1:
                    raise
                threading.Event().wait(_BINDING_SECONDS)
        raise AssertionError("the last attempt raises")
