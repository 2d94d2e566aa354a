"""One Subscribe call: requests go in, responses come out, and no read waits without end.

gRPC's own iterator blocks for as long as the service is silent, so a thread reads it and notes when each response came;
the caller takes them with a deadline. The thread stops reading while `BYTES_WAITING` wait to be taken, and HTTP/2 flow
control holds the service back: memory is bounded however slow the caller is.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from queue import SimpleQueue

import grpc

from sfcdc_assets.clock import Clock
from sfcdc_assets.pubsub.channel import PubSubConnection
from sfcdc_assets.pubsub.errors import PubSubError, ended, refused
from sfcdc_assets.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.streams.replay import ReplayPreset, ReplayStart

BYTES_WAITING = 16 * 1024 * 1024
"""Bytes of responses that wait to be taken, beside the last one, which has 3 MB at most."""
_CLOSE_SECONDS = 10.0

_PRESETS = {
    ReplayPreset.LATEST: pb.LATEST,
    ReplayPreset.EARLIEST: pb.EARLIEST,
    ReplayPreset.CUSTOM: pb.CUSTOM,
}


@dataclass(frozen=True, slots=True)
class Arrival:
    """A response, its bytes, and when it arrived: by the clock's seconds, and as epoch ms UTC."""

    response: pb.FetchResponse
    size: int
    at: float
    at_ms: int


def first_request(topic: str, start: ReplayStart, number: int) -> pb.FetchRequest:
    """The first request of a call; it alone decides on topic and start."""
    return pb.FetchRequest(
        topic_name=topic, replay_preset=_PRESETS[start.preset], replay_id=start.replay_id, num_requested=number
    )


class FetchStream:
    """An open call. Close it, also after an error: only then has the service stopped sending.

    `outstanding` counts the events asked for and not yet taken by the caller; those that wait to be taken still count,
    so that the service is never asked for more than the caller keeps up with. `last_sign` is when the service was last
    heard of, or the call was begun; `responses` how many have arrived.
    """

    def __init__(self, connection: PubSubConnection, topic: str, start: ReplayStart, number: int, clock: Clock) -> None:
        """Start the call and ask for `number` events."""
        self.outstanding = number
        self.last_sign = clock.monotonic()
        self.responses = 0
        self._clock = clock
        self._topic = topic
        self._start = start
        self._changed = threading.Condition()
        self._arrived: deque[Arrival] = deque()
        self._bytes = 0
        self._error: PubSubError | None = None
        self._closed = False
        # gRPC takes requests from this iterator until it ends; ending it early would half-close the call.
        self._requests: SimpleQueue[pb.FetchRequest | None] = SimpleQueue()
        self._requests.put(first_request(topic, start, number))
        self._call, self._secret = connection.subscribe(iter(self._requests.get, None))
        self._reader = threading.Thread(target=self._read, name=f"subscribe {topic}", daemon=True)
        self._reader.start()

    @property
    def is_over(self) -> bool:
        """Whether the call was ended, by the service, the network or `close`; responses before that may wait to be
        taken."""
        return self._closed or self._error is not None

    def request(self, number: int) -> None:
        """Ask for more events."""
        self.outstanding += number
        self._requests.put(pb.FetchRequest(topic_name=self._topic, num_requested=number))

    def take(self, seconds: float) -> Arrival | None:
        """The next response, or None after `seconds` of silence. Raises the call's error once it is reached."""
        with self._changed:
            self._clock.wait_for(self._changed, lambda: bool(self._arrived or self._error), seconds)
            if self._arrived:
                arrival = self._arrived.popleft()
                self._bytes -= arrival.size
                self._changed.notify_all()
                self.outstanding = max(0, self.outstanding - len(arrival.response.events))
                return arrival
            if self._error is not None:
                raise self._error
            return None

    def close(self) -> None:
        """Cancel the call and wait until it is over."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._call.cancel()
        self._requests.put(None)
        self._reader.join(_CLOSE_SECONDS)

    def _read(self) -> None:
        topic, replay_id = self._topic, self._start.replay_id
        try:
            for response in self._call:
                if not self._put(response):
                    return
            error: PubSubError = ended(rpc="Subscribe", subject=topic, replay_id=replay_id)
        except grpc.RpcError as broken:
            error = refused(broken, rpc="Subscribe", subject=topic, replay_id=replay_id, secret=self._secret)
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _put(self, response: pb.FetchResponse) -> bool:
        size = response.ByteSize()
        with self._changed:
            arrival = Arrival(response, size, self._clock.monotonic(), self._clock.now_ms())
            self.last_sign = arrival.at
            self.responses += 1
            self._arrived.append(arrival)
            self._bytes += size
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._closed or self._bytes < BYTES_WAITING)
            return not self._closed
