"""One Subscribe call: requests go in, responses come out, and HTTP/2 flow control holds the service back while those
that wait to be taken are too large."""

from __future__ import annotations

import math
from queue import SimpleQueue

import grpc

from sfcdc_assets.clock import Clock
from sfcdc_assets.pubsub.channel import PubSubConnection
from sfcdc_assets.pubsub.errors import PubSubError, ended, refused
from sfcdc_assets.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.open_call import Arrival, OpenCall
from sfcdc_assets.streams.replay import ReplayPreset, ReplayStart
from sfcdc_assets.streams.transport import SILENCE_SECONDS

_PRESETS = {
    ReplayPreset.LATEST: pb.LATEST,
    ReplayPreset.EARLIEST: pb.EARLIEST,
    ReplayPreset.CUSTOM: pb.CUSTOM,
}


def first_request(topic: str, start: ReplayStart, number: int) -> pb.FetchRequest:
    """The first request of a call; it alone decides on topic and start."""
    return pb.FetchRequest(
        topic_name=topic, replay_preset=_PRESETS[start.preset], replay_id=start.replay_id, num_requested=number
    )


class FetchStream(OpenCall):
    """An open call. Close it, also after an error: only then has the service stopped sending.

    `outstanding` counts the events asked for and not yet taken by the caller; those that wait to be taken still count,
    so that the service is never asked for more than the caller keeps up with.
    """

    def __init__(self, connection: PubSubConnection, topic: str, start: ReplayStart, number: int, clock: Clock) -> None:
        """Start the call and ask for `number` events."""
        super().__init__(clock)
        self.outstanding = number
        self._unserved = number
        self._asked_since = self.last_sign
        self._topic = topic
        self._start = start
        # gRPC takes requests from this iterator until it ends; ending it early would half-close the call.
        self._requests: SimpleQueue[pb.FetchRequest | None] = SimpleQueue()
        self._requests.put(first_request(topic, start, number))
        self._call, self._secret = connection.subscribe(iter(self._requests.get, None))
        self._begin_to_read(f"subscribe {topic}")

    @property
    def longest_silence(self) -> float:
        """A service that is asked for nothing owes nothing."""
        return SILENCE_SECONDS if self.outstanding else math.inf

    @property
    def listening_since(self) -> float | None:
        """A service that has brought all that was asked for brings no more until it is asked again."""
        since = super().listening_since
        with self._changed:
            return None if since is None or self._unserved <= 0 else max(since, self._asked_since)

    def request(self, number: int) -> None:
        """Ask for more events."""
        self.outstanding += number
        with self._changed:
            if self._unserved <= 0:
                self._asked_since = self._clock.monotonic()
            self._unserved += number
        self._requests.put(pb.FetchRequest(topic_name=self._topic, num_requested=number))

    def take(self, seconds: float) -> Arrival | None:
        """See `OpenCall.take`."""
        arrival = super().take(seconds)
        if arrival is not None:
            self.outstanding = max(0, self.outstanding - len(arrival.events))
        return arrival

    def _end(self) -> None:
        self._call.cancel()
        self._requests.put(None)

    def _read(self) -> PubSubError | None:
        topic, replay_id = self._topic, self._start.replay_id
        try:
            for response in self._call:
                if not self._put(self._arrival(response)):
                    return None
        except grpc.RpcError as broken:
            return refused(broken, rpc="Subscribe", subject=topic, replay_id=replay_id, secret=self._secret)
        return ended(rpc="Subscribe", subject=topic, replay_id=replay_id)

    def _arrival(self, response: pb.FetchResponse) -> Arrival:
        at, at_ms = self._clock.monotonic(), self._clock.now_ms()
        events = [
            DeliveredEvent(event.id, event.schema_id, event.payload, each.replay_id, at_ms)
            for each in response.events
            for event in (each.event,)
        ]
        with self._changed:
            self._unserved -= len(events)
        # With nothing requested an empty response would say nothing.
        nothing_more = not events and response.pending_num_requested > 0
        return Arrival(events, nothing_more, response.ByteSize(), at, at_ms, response.latest_replay_id)
