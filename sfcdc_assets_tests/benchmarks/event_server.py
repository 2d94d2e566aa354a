"""A Pub/Sub service that does nothing but deliver, in a process of its own: faster than anything that reads from it.

Events are there as bytes before the first request. It keeps to the protocol (no more than was asked for, an empty
response after the last event, TLS), so that any client can be measured with it.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import grpc

from sfcdc_assets.emulator.serving.certificate import server_certificate
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb

SCHEMA_ID = "S" * 22
EVENTS_A_RESPONSE = 50
"""At most; the service's own number is not documented."""
STARTED_WITHIN_SECONDS = 120.0


@dataclass(frozen=True)
class Served:
    """Where the events are: `host:port`, and the certificate to trust."""

    endpoint: str
    ca_file: Path


@contextmanager
def served(folder: Path, schema_json: str, payloads: Sequence[bytes], count: int) -> Iterator[Served]:
    """Serve `count` events, the payloads over and over, to any number of clients."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(theirs, folder, schema_json, list(payloads), count), daemon=True)
    process.start()
    try:
        if not ours.poll(STARTED_WITHIN_SECONDS):
            raise TimeoutError("the event server did not start")
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


def event_id(number: int) -> str:
    """The id of the event of a number, from 0."""
    return f"00000000-0000-4000-8000-{number:012d}"


def replay_id(number: int) -> bytes:
    """Its replay id."""
    return (number + 1).to_bytes(8, "big") + b"\0\0"


def _serve(to_owner: Connection, folder: Path, schema_json: str, payloads: list[bytes], count: int) -> None:
    events = [
        pb.ConsumerEvent(
            event=pb.ProducerEvent(id=event_id(number), schema_id=SCHEMA_ID, payload=payloads[number % len(payloads)]),
            replay_id=replay_id(number),
        )
        for number in range(count)
    ]
    # A response is its parts one after another, in bytes too.
    encoded = [pb.FetchResponse(events=[event]).SerializeToString() for event in events]
    del events
    handlers = {
        "GetTopic": grpc.unary_unary_rpc_method_handler(
            lambda request, _: pb.TopicInfo(topic_name=request.topic_name, can_subscribe=True, schema_id=SCHEMA_ID),
            pb.TopicRequest.FromString,
            pb.TopicInfo.SerializeToString,
        ),
        "GetSchema": grpc.unary_unary_rpc_method_handler(
            lambda request, _: pb.SchemaInfo(schema_json=schema_json, schema_id=request.schema_id),
            pb.SchemaRequest.FromString,
            pb.SchemaInfo.SerializeToString,
        ),
        "Subscribe": grpc.stream_stream_rpc_method_handler(
            lambda requests, _: _delivered(requests, encoded), pb.FetchRequest.FromString, lambda response: response
        ),
    }
    server = grpc.server(ThreadPoolExecutor(16))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("eventbus.v1.PubSub", handlers),))
    certificate = server_certificate(folder)
    credentials = grpc.ssl_server_credentials([(certificate.key, certificate.chain)])
    port = server.add_secure_port("localhost:0", credentials)
    server.start()
    to_owner.send(Served(f"localhost:{port}", certificate.ca_file))
    server.wait_for_termination()


class _Asked:
    """How many events a call has asked for; reads its requests in a thread of its own."""

    def __init__(self, requests: Iterator[pb.FetchRequest], first: int) -> None:
        self.number = first
        self._requests = requests
        self._changed = threading.Condition()
        self._ended = False
        threading.Thread(target=self._read, daemon=True).start()

    def more_than(self, number: int) -> bool:
        """Wait until more were asked for; False when the client went away instead."""
        with self._changed:
            self._changed.wait_for(lambda: self.number > number or self._ended)
            return self.number > number

    def until_over(self) -> None:
        """Wait until the client goes away."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended)

    def _read(self) -> None:
        with suppress(grpc.RpcError):
            for request in self._requests:
                with self._changed:
                    self.number += request.num_requested
                    self._changed.notify()
        with self._changed:
            self._ended = True
            self._changed.notify()


def _delivered(requests: Iterator[pb.FetchRequest], encoded: Sequence[bytes]) -> Iterator[bytes]:
    first = next(requests)
    asked = _Asked(requests, first.num_requested)
    done = int.from_bytes(first.replay_id[:8], "big") if first.replay_id else 0
    asked.number += done
    while done < len(encoded):
        if not asked.more_than(done):
            return
        at, done = done, min(asked.number, done + EVENTS_A_RESPONSE, len(encoded))
        yield b"".join(encoded[at:done]) + _rest(done, asked.number - done)
    if asked.more_than(done):
        yield _rest(done, asked.number - done)
        asked.until_over()


def _rest(done: int, pending: int) -> bytes:
    """What a response has beside its events."""
    return pb.FetchResponse(latest_replay_id=replay_id(done - 1), pending_num_requested=pending).SerializeToString()
