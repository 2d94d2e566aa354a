"""Messages that are no protobuf: their calls end with INTERNAL, as those of Salesforce's gRPC library do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
from google.protobuf.message import DecodeError

_REASON = "Invalid protobuf byte sequence"
_UNREADABLE = object()


class UnreadableRequests(grpc.ServerInterceptor):
    """Keeps from the gRPC library what it cannot read.

    The library logs a traceback for each, and a call with a stream of requests is then never over for it, so that the
    server that has the call cannot be stopped.
    """

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler | None:
        """The handler of a call, for messages of any kind."""
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
    """The requests up to one that is unreadable, which ends the call as if the client had closed its side."""
    for request in requests:
        if request is _UNREADABLE:
            context.set_code(grpc.StatusCode.INTERNAL)
            context.set_details(_REASON)
            return
        yield request
