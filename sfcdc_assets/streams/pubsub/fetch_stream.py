"""One call that reads a topic: requests go in, responses come out, and HTTP/2 flow control holds the service back
while those that wait to be taken are too large."""

from __future__ import annotations

import math
from queue import SimpleQueue
from typing import Any

import grpc

from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets.streams.delivered_event import DeliveredEvent, ReplayPreset, ReplayStart, with_replay_ids
from sfcdc_assets.streams.open_call import Arrival, OpenCall
from sfcdc_assets.streams.pubsub.channel import PubSubConnection
from sfcdc_assets.streams.pubsub.errors import PubSubError, ended, refused
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.streams.transport import SILENCE_SECONDS

_PRESETS = {
    ReplayPreset.LATEST: pb.LATEST,
    ReplayPreset.EARLIEST: pb.EARLIEST,
    ReplayPreset.CUSTOM: pb.CUSTOM,
}


def first_request(topic: str, start: ReplayStart, number: int) -> pb.FetchRequest:
    """Return the first request of a call; it alone decides on topic and start."""
    return pb.FetchRequest(
        topic_name=topic, replay_preset=_PRESETS[start.preset], replay_id=start.replay_id, num_requested=number
    )


class FetchStream(OpenCall):
    """An open Subscribe call. Close it, also after an error: only then has the service stopped sending.

    `outstanding` counts the events asked for and not yet taken by the caller; those that wait to be taken still count,
    so that the service is never asked for more than the caller keeps up with.
    """

    rpc = "Subscribe"

    def __init__(
        self, connection: PubSubConnection, subject: str, start: ReplayStart, number: int, clock: Clock
    ) -> None:
        """Start the call and ask for `number` events of `subject`, a topic."""
        super().__init__(clock)
        self.outstanding = number
        self._unserved = number
        self._asked_since = self.last_sign
        self._subject = subject
        self._start = start
        self._last_replay_id = start.replay_id
        """Of the last event before the next response."""
        # gRPC takes requests from this iterator until it ends; ending it early would half-close the call.
        self._requests: SimpleQueue[Any] = SimpleQueue()
        self._requests.put(self._first_request(number))
        self._call, self._secret = connection.open_stream(self.rpc, iter(self._requests.get, None))
        self._begin_to_read(f"{self.rpc} {subject}")

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
        self._requests.put(self._request(number))

    def take(self, seconds: float) -> Arrival | None:
        """See `OpenCall.take`."""
        arrival = super().take(seconds)
        if arrival is not None:
            self.outstanding = max(0, self.outstanding - len(arrival.events))
        return arrival

    def _first_request(self, number: int) -> Any:
        return first_request(self._subject, self._start, number)

    def _request(self, number: int) -> Any:
        return pb.FetchRequest(topic_name=self._subject, num_requested=number)

    def _end(self) -> None:
        self._call.cancel()
        self._requests.put(None)

    def _read(self) -> PubSubError | None:
        subject, replay_id = self._subject, self._start.replay_id
        try:
            for response in self._call:
                arrival = self._arrival(response)
                if arrival is not None and not self._put(arrival):
                    return None
        except grpc.RpcError as broken:
            return refused(broken, rpc=self.rpc, subject=subject, replay_id=replay_id, secret=self._secret)
        return ended(rpc=self.rpc, subject=subject, replay_id=replay_id)

    def _arrival(self, response: Any) -> Arrival | None:
        """Return what a response says of the stream; None for one that says nothing of it."""
        at, at_ms = self._clock.monotonic(), self._clock.now_ms()
        delivered = [
            DeliveredEvent(event.id, event.schema_id, event.payload, each.replay_id, at_ms)
            for each in response.events
            for event in (each.event,)
        ]
        events = with_replay_ids(delivered, self._last_replay_id)
        self._last_replay_id = events[-1].replay_id if events else self._last_replay_id
        with self._changed:
            self._unserved -= len(events)
        # With nothing requested an empty response would say nothing.
        nothing_more = not events and response.pending_num_requested > 0
        return Arrival(events, nothing_more, response.ByteSize(), at, at_ms, response.latest_replay_id)
