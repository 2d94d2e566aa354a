"""One Subscribe call: requests go in, responses come out, and no read waits without end.

gRPC's own iterator blocks for as long as the service is silent, so a thread reads it into a short queue, and the caller
reads the queue with a deadline. When the queue is full the thread stops reading, and HTTP/2 flow control holds the
service back: memory is bounded by `RESPONSES_WAITING` responses (3 MB each at most) however slow the caller is.
"""

from __future__ import annotations

import threading
from queue import Empty, Full, Queue, SimpleQueue

import grpc

from sfcdc_assets.pubsub.channel import PubSubConnection
from sfcdc_assets.pubsub.errors import PubSubError, ended, refused
from sfcdc_assets.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.pubsub.replay import ReplayStart

RESPONSES_WAITING = 8
_FULL_QUEUE_SECONDS = 0.1
_CLOSE_SECONDS = 10.0


class FetchStream:
    """An open call. Close it, also after an error: only then has the service stopped sending.

    `outstanding` counts the events asked for and not yet taken by the caller; those in the queue still count, so that
    the service is never asked for more than the caller keeps up with.
    """

    def __init__(
        self, connection: PubSubConnection, topic: str, start: ReplayStart, number: int, timeout: float | None
    ) -> None:
        """Start the call and ask for `number` events; after `timeout` seconds gRPC ends it in any case."""
        self.outstanding = number
        self._topic = topic
        self._start = start
        self._closed = threading.Event()
        self._responses: Queue[pb.FetchResponse | PubSubError] = Queue(RESPONSES_WAITING)
        # gRPC takes requests from this iterator until it ends; ending it early would half-close the call.
        self._requests: SimpleQueue[pb.FetchRequest | None] = SimpleQueue()
        self._requests.put(start.fetch_request(topic, number))
        self._call, self._secret = connection.subscribe(iter(self._requests.get, None), timeout)
        self._reader = threading.Thread(target=self._read, name=f"subscribe {topic}", daemon=True)
        self._reader.start()

    def request(self, number: int) -> None:
        """Ask for more events."""
        self.outstanding += number
        self._requests.put(pb.FetchRequest(topic_name=self._topic, num_requested=number))

    def take(self, timeout: float) -> pb.FetchResponse | None:
        """The next response, or None after `timeout` seconds of silence. Raises the call's error once it is reached."""
        try:
            item = self._responses.get(timeout=timeout) if timeout > 0 else self._responses.get_nowait()
        except Empty:
            return None
        if isinstance(item, PubSubError):
            raise item
        self.outstanding = max(0, self.outstanding - len(item.events))
        return item

    def close(self) -> None:
        """Cancel the call and wait until it is over."""
        self._closed.set()
        self._call.cancel()
        self._requests.put(None)
        self._reader.join(_CLOSE_SECONDS)

    def _read(self) -> None:
        topic, replay_id = self._topic, self._start.replay_id
        try:
            for response in self._call:
                if not self._put(response):
                    return
            self._put(ended(rpc="Subscribe", subject=topic, replay_id=replay_id))
        except grpc.RpcError as error:
            self._put(refused(error, rpc="Subscribe", subject=topic, replay_id=replay_id, secret=self._secret))

    def _put(self, item: pb.FetchResponse | PubSubError) -> bool:
        while not self._closed.is_set():
            try:
                self._responses.put(item, timeout=_FULL_QUEUE_SECONDS)
            except Full:
                continue
            return True
        return False
