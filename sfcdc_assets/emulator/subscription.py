"""One Subscribe call: what was requested, what is due, when to speak and when to stop (docs/salesforce-streams.md,
"Flow control").

The caller's thread runs `responses`; requests arrive from another thread. Both meet at the bus's condition, which also
tells of new events, so nothing here polls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sfcdc_assets.emulator.clock import Clock
from sfcdc_assets.emulator.delivery_meter import DeliveryMeter
from sfcdc_assets.emulator.event_bus import Batch, EventBus
from sfcdc_assets.emulator.event_bus_errors import (
    ReplayIdCorruptedError,
    ReplayIdMissingError,
    UnknownReplayPresetError,
)
from sfcdc_assets.emulator.event_store import StoredEvent
from sfcdc_assets.emulator.faults import Fault, Faults
from sfcdc_assets.emulator.refusal_codes import CODES
from sfcdc_assets.emulator.rpc_refusal import (
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
from sfcdc_assets.emulator.topic import Topic
from sfcdc_assets.pubsub.proto import pubsub_api_pb2 as pb

MAX_OUTSTANDING = 100
"""Events a client can have outstanding over all requests of the call; asking for more is not an error."""
MAX_PAYLOAD_BYTES = 3_000_000
"""Payload bytes of one response, unless a single event is larger."""
_STREAM_FAULTS = (
    Fault.STREAM_RESET,
    Fault.SILENT_STREAM,
    Fault.STREAM_AUTH_ERROR,
    Fault.STREAM_UNAVAILABLE,
    Fault.STREAM_REFUSED,
)


Word = pb.CommitReplayResponse | RpcRefusal
"""What a managed stream says beside events."""


@dataclass(frozen=True)
class _Ahead:
    """A response made before it was requested, while the client makes something of the last one.

    Its events are those that follow as long as the client may read the same `entities`, and the bus has removed none.
    """

    events: tuple[StoredEvent, ...]
    response: pb.FetchResponse
    after: int
    entities: frozenset[str]
    removals: int


@dataclass(frozen=True)
class StreamTiming:
    """Seconds by the org's clock.

    A stream with requests outstanding hears from the org at least every `keepalive`: Salesforce promises 270, and 60 to
    270 were seen. One with none is closed after `idle_close`, as a normal end or, if `idle_is_error`, with an error
    status. A stream of publish requests ends when none with an event came for `publish_idle`.
    """

    keepalive: float = 270.0
    idle_close: float = 60.0
    publish_idle: float = 70.0
    idle_is_error: bool = False


class Subscription:
    """The state of one call. `open_topic` finds the topic of the first request or raises RpcRefusal."""

    def __init__(
        self,
        bus: EventBus,
        *,
        rpc_id: str,
        timing: StreamTiming,
        clock: Clock,
        faults: Faults,
        meter: DeliveryMeter,
        open_topic: Callable[[str], Topic],
        readable: Callable[[Topic], frozenset[str]],
        allowance: Callable[[], int],
    ) -> None:
        """`allowance`: how many events may still be delivered now, over all subscribers of the org."""
        self._allowance = allowance
        self._bus = bus
        self.rpc_id = rpc_id
        self._timing = timing
        self._clock = clock
        self._faults = faults
        self._meter = meter
        self._open_topic = open_topic
        self._readable = readable
        self._topic: Topic | None = None
        self._read_through = 0
        self.pending = 0
        """Events requested and not yet delivered."""
        self.responses_sent = 0
        self.events_sent = 0
        self.opened_at = clock()
        self.ended_at: int | None = None
        """Epoch ms by the org's clock; None while the call is open."""
        self._requests: deque[pb.FetchRequest] = deque()
        self._words: deque[Word] = deque()
        self._ended = False
        self._is_closing = False
        self._quiet_since = clock()
        self._paused_until = 0
        self._held_until = 0
        self._is_silent = False
        self._is_at_work = True
        self._ahead: _Ahead | None = None

    @property
    def is_started(self) -> bool:
        """Whether the first request has been accepted, so that the place in the stream is fixed."""
        return self._topic is not None

    @property
    def place(self) -> tuple[Topic, int] | None:
        """The topic and the number read through; None before the first request."""
        return None if self._topic is None else (self._topic, self._read_through)

    def next_due(self) -> int:
        """When this stream speaks next, or ends, if nothing happens (epoch ms by the org's clock)."""
        with self._bus.changed:
            if self._is_silent:
                return self._clock() + 86_400_000
            if self._held_until:
                return self._held_until
            return 0 if self._is_at_work or self._is_due() else self._due_at()

    def put(self, request: pb.FetchRequest) -> None:
        """A request has arrived."""
        with self._bus.changed:
            self._requests.append(request)
            self._bus.changed.notify_all()

    def say(self, word: Word) -> None:
        """Answer with this between the events, or end with it."""
        with self._bus.changed:
            self._words.append(word)
            self._bus.changed.notify_all()

    def close(self) -> None:
        """The client will request no more: `responses` returns once it has given what is there and was requested."""
        with self._bus.changed:
            self._is_closing = True
            self._bus.changed.notify_all()

    def end(self) -> None:
        """The client cancelled, or the server stops: `responses` returns."""
        with self._bus.changed:
            self._ended = True
            self._bus.changed.notify_all()

    def responses(self) -> Iterator[pb.FetchResponse | pb.CommitReplayResponse]:
        """Responses until the call is over. Raises RpcRefusal for a wrong request or a fault that ends the stream."""
        while True:
            requests, ended, in_time = self._wait()
            for request in requests:
                self._accept(request)
            for word in self._take_words():
                if isinstance(word, RpcRefusal):
                    raise word
                self.responses_sent += 1
                yield word
            if ended:
                return
            if self._topic is not None and not self._commit_faults():
                return
            if self.pending == 0:
                if self._is_closing:
                    return
                if not in_time and not requests:
                    if self._timing.idle_is_error:
                        raise IDLE_TOO_LONG(seconds=self._timing.idle_close)
                    return
                continue
            if self._is_paused():
                continue
            batch, response = self._read()
            self._read_through = batch.through
            if batch.events or not in_time:
                if self._faults.take(Fault.SLOW_NETWORK):
                    self._hold_back()
                yield self._completed(batch, response)
                self._read_ahead(len(batch.events))
            elif self._is_closing and not self._is_paused():
                return

    def _wait(self) -> tuple[list[pb.FetchRequest], bool, bool]:
        """Wait for something to do: the requests arrived, whether the call is over, and False if the time is up."""
        with self._bus.changed:
            self._is_at_work = False
            while not (in_time := self._is_due()) and (left := self._due_at() - self._clock()) > 0:
                # A clock that is moved wakes everybody who waits on the bus.
                self._bus.changed.wait(left / 1000)
            requests = list(self._requests)
            self._requests.clear()
            self._is_at_work = True
            return requests, self._ended, in_time

    def _take_words(self) -> list[Word]:
        with self._bus.changed:
            words = list(self._words)
            self._words.clear()
            return words

    def _due_at(self) -> int:
        limit = self._timing.keepalive if self.pending else self._timing.idle_close
        return self._paused_until if self._is_paused() else self._quiet_since + round(limit * 1000)

    def _is_due(self) -> bool:
        return (
            bool(self._requests)
            or bool(self._words)
            or self._ended
            or (self._is_closing and not self._is_paused())
            or (self.pending > 0 and self._bus.last_number > self._read_through and not self._is_paused())
            or (self._topic is not None and any(self._faults.armed(fault) for fault in _STREAM_FAULTS))
        )

    def _is_paused(self) -> bool:
        return self._clock() < self._paused_until

    def _pause(self, fault: Fault) -> None:
        seconds = float(self._faults.option(fault, "seconds", 5))
        self._paused_until = self._clock() + round(seconds * 1000)

    def _accept(self, request: pb.FetchRequest) -> None:
        """Add to what is outstanding. Only the first request's replay fields count; later ones are ignored silently."""
        if self._topic is None:
            topic = self._open_topic(request.topic_name)
        elif request.topic_name and request.topic_name != self._topic.name:
            raise TOPIC_MISMATCH(first=self._topic.name, later=request.topic_name)
        else:
            topic = self._topic
        if request.num_requested <= 0:
            raise BAD_NUM_REQUESTED(num_requested=request.num_requested)
        if self._topic is None:
            if self._allowance() <= 0:
                raise DELIVERY_LIMIT_EXCEEDED()
            try:
                self._read_through = self._bus.start(request.replay_preset, request.replay_id, topic.retention_ms)
            except UnknownReplayPresetError:
                raise REPLAY_PRESET_UNKNOWN(preset=request.replay_preset) from None
            except ReplayIdMissingError:
                raise REPLAY_ID_MISSING() from None
            except ReplayIdCorruptedError as error:
                raise REPLAY_ID_CORRUPTED(replay=error.replay.hex()) from None
            self._topic = topic
            if self._faults.take(Fault.LATE_ANSWER):
                self._pause(Fault.LATE_ANSWER)
        if self.pending == 0:
            self._quiet_since = self._clock()
        self.pending = min(MAX_OUTSTANDING, self.pending + request.num_requested)

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
            self._is_silent = True
            with self._bus.changed:
                self._bus.changed.wait_for(lambda: self._ended)
            return False
        return True

    def _read(self) -> tuple[Batch, pb.FetchResponse]:
        """What follows, and a response with these events."""
        assert self._topic is not None
        entities = self._readable(self._topic)
        most = max(0, min(self.pending, self._allowance()))
        after = int(self._faults.option(Fault.STREAM_PAUSE, "after", 1))
        cut = most > after and self._faults.armed(Fault.STREAM_PAUSE) > 0
        ahead, self._ahead = self._ahead, None
        if ahead and 0 < most <= len(ahead.events) and not cut and self._follows(ahead, entities):
            events = ahead.events[:most]
            del ahead.response.events[most:]
            return Batch(events, events[-1].number, events[-1].replay_id), ahead.response
        batch = self._bus.read(
            entities,
            after=self._read_through,
            max_events=max(1, after if cut else most),
            max_bytes=MAX_PAYLOAD_BYTES,
            channels=self._topic.channels,
        )
        if batch.events and most == 0:
            raise DELIVERY_LIMIT_EXCEEDED()
        if cut and batch.through < self._bus.last_number and self._faults.take(Fault.STREAM_PAUSE):
            self._pause(Fault.STREAM_PAUSE)
        return batch, _with_events(batch.events)

    def _hold_back(self) -> None:
        """The network is slow: what is read is on its way. gRPC gives a message to its client whole, so a client sees
        no more of it than that."""
        seconds = float(self._faults.option(Fault.SLOW_NETWORK, "seconds", 5))
        with self._bus.changed:
            self._held_until = self._clock() + round(seconds * 1000)
            while not self._ended and (left := self._held_until - self._clock()) > 0:
                # A clock that is moved wakes everybody who waits on the bus.
                self._bus.changed.wait(left / 1000)
            self._held_until = 0

    def _read_ahead(self, count: int) -> None:
        """Read as many events as the last response had, if there are more than that."""
        if not count or self._requests or self.pending or self._topic is None:
            return
        removals, entities = self._bus.removals, self._readable(self._topic)
        batch = self._bus.read(
            entities,
            after=self._read_through,
            max_events=count,
            max_bytes=MAX_PAYLOAD_BYTES,
            channels=self._topic.channels,
        )
        if batch.events and batch.through == batch.events[-1].number < self._bus.last_number:
            self._ahead = _Ahead(batch.events, _with_events(batch.events), self._read_through, entities, removals)

    def _follows(self, ahead: _Ahead, entities: frozenset[str]) -> bool:
        return (ahead.after, ahead.entities, ahead.removals) == (self._read_through, entities, self._bus.removals)

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


def _with_events(events: Sequence[StoredEvent]) -> pb.FetchResponse:
    """In place: messages that are made apart are copied into the one around them."""
    response = pb.FetchResponse()
    for event in events:
        consumed = response.events.add()
        consumed.replay_id = event.replay_id
        produced = consumed.event
        produced.id, produced.schema_id, produced.payload = event.event_id, event.schema_id, event.payload
    return response
