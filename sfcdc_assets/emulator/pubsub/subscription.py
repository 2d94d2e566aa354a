"""One Subscribe call: what was requested, what is due, when to speak and when to stop (docs/salesforce-streams.md,
"Flow control").

The caller's thread runs `responses`; requests arrive from another thread (request_stream.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sfcdc_assets.emulator.errors import ReplayIdCorruptedError, ReplayIdMissingError, UnknownReplayPresetError
from sfcdc_assets.emulator.events.delivery_meter import DeliveryMeter
from sfcdc_assets.emulator.events.event_bus import Batch, EventBus
from sfcdc_assets.emulator.events.topic import Topic
from sfcdc_assets.emulator.faults.faults import Fault, Faults
from sfcdc_assets.emulator.org.clock import Clock
from sfcdc_assets.emulator.pubsub.refusal_codes import CODES
from sfcdc_assets.emulator.pubsub.request_stream import RequestStream
from sfcdc_assets.emulator.pubsub.rpc_refusal import (
    BAD_CREDENTIALS,
    BAD_NUM_REQUESTED,
    DELIVERY_LIMIT_EXCEEDED,
    IDLE_TOO_LONG,
    REPLAY_ID_CORRUPTED,
    REPLAY_ID_MISSING,
    REPLAY_PRESET_UNKNOWN,
    STREAM_RESET,
    TOPIC_MISMATCH,
    UNAVAILABLE,
    RpcRefusal,
)
from sfcdc_assets.emulator.pubsub.stream_timing import StreamTiming
from sfcdc_assets.emulator.pubsub.topic_reader import TopicReader
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb

MAX_OUTSTANDING = 100
"""Events a client can have outstanding over all requests of the call; asking for more is not an error."""
_STREAM_FAULTS = (
    Fault.STREAM_RESET,
    Fault.SILENT_STREAM,
    Fault.STREAM_AUTH_ERROR,
    Fault.STREAM_UNAVAILABLE,
    Fault.STREAM_REFUSED,
)


Word = pb.CommitReplayResponse | RpcRefusal
"""What a managed stream says beside events."""


@dataclass(frozen=True, kw_only=True)
class StreamsOfOrg:
    """What is the same for all calls.

    `open_topic` finds the topic of a first request or raises RpcRefusal; `allowance`: how many events may still be
    delivered now, over all subscribers of the org.
    """

    bus: EventBus
    timing: StreamTiming
    clock: Clock
    faults: Faults
    meter: DeliveryMeter
    open_topic: Callable[[str], Topic]
    readable: Callable[[Topic], frozenset[str]]
    allowance: Callable[[], int]


class Subscription(RequestStream[pb.FetchRequest]):
    """The state of one call, which begins without events."""

    def __init__(self, streams: StreamsOfOrg, rpc_id: str) -> None:
        bus, clock = streams.bus, streams.clock
        super().__init__(bus.changed, clock)
        self._allowance = streams.allowance
        self._bus = bus
        self.rpc_id = rpc_id
        self._timing = streams.timing
        self._faults = streams.faults
        self._meter = streams.meter
        self._open_topic = streams.open_topic
        self._readable = streams.readable
        self._reader: TopicReader | None = None
        self.pending = 0
        """Events requested and not yet delivered."""
        self.responses_sent = 0
        self.events_sent = 0
        self.opened_at = clock()
        self.ended_at: int | None = None
        """Epoch ms by the org's clock; None while the call is open."""
        self._words: deque[Word] = deque()
        self._quiet_since = clock()
        self._paused_until = 0
        self._held_until = 0
        self.is_silent = False
        self._is_at_work = True

    @property
    def is_started(self) -> bool:
        """Whether the first request has been accepted, so that the place in the stream is fixed."""
        return self._reader is not None

    @property
    def place(self) -> tuple[Topic, int] | None:
        """The topic and the number read through; None before the first request."""
        return None if self._reader is None else (self._reader.topic, self._reader.read_through)

    def next_due(self) -> int:
        """Return when this stream speaks next, or ends, if nothing happens (epoch ms by the org's clock)."""
        with self._changed:
            if self.is_silent:
                return self._clock() + 86_400_000
            if self._held_until:
                return self._held_until
            return 0 if self._is_at_work or self._is_due() else self._due_at()

    def say(self, word: Word) -> None:
        """Answer with this between the events, or end with it."""
        with self._changed:
            self._words.append(word)
            self._changed.notify_all()

    def responses(self) -> Iterator[pb.FetchResponse | pb.CommitReplayResponse]:
        """Responses until the call is over. Raises RpcRefusal for a wrong request or a fault that ends the stream."""
        while True:
            requests, ended, in_time = self._arrived()
            for request in requests:
                self._accept(request)
            for word in self._take_words():
                if isinstance(word, RpcRefusal):
                    raise word
                self.responses_sent += 1
                yield word
            if ended:
                return
            if self._reader is not None and not self._commit_faults():
                return
            if self.pending == 0:
                if self._has_said_all():
                    return
                if not in_time and not requests:
                    if self._timing.idle_is_error:
                        raise IDLE_TOO_LONG(seconds=self._timing.idle_close)
                    return
                continue
            if self._is_paused():
                continue
            assert self._reader is not None  # events are requested
            batch, response = self._read(self._reader)
            self._reader.passed(batch)
            if batch.events or not in_time:
                if self._faults.take(Fault.SLOW_NETWORK):
                    self._hold_back()
                yield self._completed(batch, response)
                if batch.events and not self._requests and not self.pending:
                    self._reader.read_ahead(len(batch.events))
            elif self._has_said_all() and not self._is_paused():
                return

    def _arrived(self) -> tuple[list[pb.FetchRequest], bool, bool]:
        """Wait for something to do: the requests arrived, whether the call is over, and False if the time is up."""
        with self._changed:
            self._is_at_work = False
            in_time = self._wait(self._is_due, self._due_at)
            requests = list(self._requests)
            self._requests.clear()
            self._is_at_work = True
            return requests, self._ended, in_time

    def _has_said_all(self) -> bool:
        """Return whether the client has closed its side, and every request of it has been looked at."""
        with self._changed:
            return self._is_closing and not self._requests

    def _take_words(self) -> list[Word]:
        with self._changed:
            words = list(self._words)
            self._words.clear()
            return words

    def _due_at(self) -> int:
        limit = self._timing.keepalive if self.pending else self._timing.idle_close
        if self._is_paused():
            return self._paused_until
        due = self._quiet_since + round(limit * 1000)
        return min(due, self._bus.next_publication) if self.pending else due

    def _is_due(self) -> bool:
        return (
            bool(self._requests)
            or bool(self._words)
            or self._ended
            or (self._is_closing and not self._is_paused())
            or (self.pending > 0 and self._reader is not None and self._reader.has_more and not self._is_paused())
            or (self._reader is not None and any(self._faults.armed(fault) for fault in _STREAM_FAULTS))
        )

    def _is_paused(self) -> bool:
        return self._clock() < self._paused_until

    def _pause(self, fault: Fault) -> None:
        seconds = float(self._faults.option(fault, "seconds", 5))
        self._paused_until = self._clock() + round(seconds * 1000)

    def _accept(self, request: pb.FetchRequest) -> None:
        """Add to what is outstanding. Only the first request's replay fields count; later ones are ignored silently."""
        topic = self._open_topic(request.topic_name) if self._reader is None else self._reader.topic
        if self._reader is not None and request.topic_name not in ("", topic.name):
            raise TOPIC_MISMATCH(first=topic.name, later=request.topic_name)
        if request.num_requested <= 0:
            raise BAD_NUM_REQUESTED(num_requested=request.num_requested)
        if self._reader is None:
            if self._allowance() <= 0:
                raise DELIVERY_LIMIT_EXCEEDED()
            self._reader = TopicReader(self._bus, topic, self._readable, self._start(request, topic))
            if self._faults.take(Fault.LATE_ANSWER):
                self._pause(Fault.LATE_ANSWER)
        if self.pending == 0:
            self._quiet_since = self._clock()
        self.pending = min(MAX_OUTSTANDING, self.pending + request.num_requested)

    def _start(self, request: pb.FetchRequest, topic: Topic) -> int:
        try:
            return self._bus.start(request.replay_preset, request.replay_id, topic.retention_ms)
        except UnknownReplayPresetError:
            raise REPLAY_PRESET_UNKNOWN(preset=request.replay_preset) from None
        except ReplayIdMissingError:
            raise REPLAY_ID_MISSING() from None
        except ReplayIdCorruptedError as error:
            raise REPLAY_ID_CORRUPTED(replay=error.replay.hex()) from None

    def _commit_faults(self) -> bool:
        """Commit an armed fault. False if the stream was silent until its client gave up."""
        if self._faults.take(Fault.STREAM_RESET):
            raise STREAM_RESET()
        if self._faults.take(Fault.STREAM_AUTH_ERROR):
            raise BAD_CREDENTIALS()
        if self._faults.take(Fault.STREAM_UNAVAILABLE):
            raise UNAVAILABLE()
        if self._faults.take(Fault.STREAM_REFUSED):
            raise CODES[str(self._faults.option(Fault.STREAM_REFUSED, "code", "subscription.internal.error"))]()
        if self._faults.take(Fault.SILENT_STREAM):
            self.is_silent = True
            with self._changed:
                self._changed.wait_for(lambda: self._ended)
            return False
        return True

    def _read(self, reader: TopicReader) -> tuple[Batch, pb.FetchResponse]:
        """Return what follows, and a response with these events."""
        most = max(0, min(self.pending, self._allowance()))
        after = int(self._faults.option(Fault.STREAM_PAUSE, "after", 1))
        cut = most > after and self._faults.armed(Fault.STREAM_PAUSE) > 0
        batch, response = reader.read(max(1, after if cut else most))
        if batch.events and most == 0:
            raise DELIVERY_LIMIT_EXCEEDED()
        if cut and batch.through < self._bus.last_number and self._faults.take(Fault.STREAM_PAUSE):
            self._pause(Fault.STREAM_PAUSE)
        return batch, response

    def _hold_back(self) -> None:
        """Hold events back, as where the network is slow: what is read is on its way. gRPC gives a message to its
        client whole, so a client sees no more of it than that."""
        seconds = float(self._faults.option(Fault.SLOW_NETWORK, "seconds", 5))
        with self._changed:
            self._held_until = self._clock() + round(seconds * 1000)
            self._wait(lambda: self._ended, lambda: self._held_until)
            self._held_until = 0

    def _completed(self, batch: Batch, response: pb.FetchResponse) -> pb.FetchResponse:
        self.responses_sent += 1
        self.events_sent += len(batch.events)
        self.pending -= len(batch.events)
        self._quiet_since = self._clock()
        if batch.events:
            numbers = [event.number for event in batch.events]
            self._meter.delivered(numbers, sum(event.is_platform_event for event in batch.events))
        response.latest_replay_id = batch.latest_replay_id
        response.rpc_id = self.rpc_id
        response.pending_num_requested = self.pending
        return response
