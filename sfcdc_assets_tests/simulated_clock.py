"""A clock for an emulated org and its client at once: nobody waits, time is moved instead.

The sockets stay real. A wait of the thread that drives the test is over when what it waits for has arrived; only when
the org has nothing to do before some later moment, and all that it sent has arrived, is the clock moved there.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition
from typing import Any

import pytest

from sfcdc_assets.emulator.cometd.service import CometdService
from sfcdc_assets.emulator.pubsub.pubsub_service import PubSubService
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.runtime.clock import Clock, using
from sfcdc_assets.streams.cometd.subscription import LongPoll
from sfcdc_assets.streams.pubsub.fetch_stream import FetchStream

MESSAGE_SECONDS = 20.0
"""What a message may take over loopback at most, by the machine's clock: a busy machine takes seconds. One that takes
longer was given up in a way that is not known here: by another client than those of this clock."""
BOUND_SECONDS = 60.0
"""The longest the org may be busy, by the machine's clock, before time goes on all the same."""
END_SECONDS = 3.0
"""What the end of a stream may take to be heard of, by the machine's clock. Another client's may never end."""
LOOK_SECONDS = 0.002
FAR_MS = 86_400_000


def _machine_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(eq=False)  # two that work are not the same one
class _Beside:
    """A thread beside the driver's. `waits`: until when (seconds of `monotonic`) and for what; None while it works."""

    waits: tuple[float, Callable[[], bool]] | None = None


class SimulatedClock(Clock):
    """The same time for everybody: for the org as a function, for the client as its `Clock`.

    With `runs` the machine's own time passes too, so that what is dated by others is not far off. One that follows no
    org waits for nobody. Threads that `start_thread` began wait with the driver: time goes on when all of them wait.
    """

    def __init__(self, now: int | None = None, *, runs: bool = False, offsets: Sequence[Sequence[int]] = ()) -> None:
        """Start at `now` (epoch ms). `offsets`: those of the clock that it goes on for, where tables are older."""
        self._lock = threading.Lock()
        self._runs = runs
        self._start = _machine_ms() if now is None else now
        self._offset = self._start - (_machine_ms() if runs else 0)
        self.offsets = [*offsets, (_machine_ms() if offsets else 0, self._offset)]
        """Since when, by the machine's clock, it was how far off."""
        self._moved: list[Callable[[], None]] = []
        self._driver = threading.get_ident()
        self._server: EmulatorServer | None = None
        self._streams: list[FetchStream] = []
        self._polls: list[LongPoll] = []
        self._given_up = 0
        self._beside: list[_Beside] = []
        self._of_thread = threading.local()

    def start_thread(self, name: str, work: Callable[[], object]) -> threading.Thread:
        beside = _Beside()
        self._beside.append(beside)  # by now: the driver may wait before the thread runs

        def run() -> None:
            self._of_thread.beside = beside
            try:
                work()
            finally:
                self._beside.remove(beside)

        return super().start_thread(name, run)

    @contextmanager
    def followed(self, server: EmulatorServer) -> Iterator[None]:
        """The clock of the client of this org, whose clock it is, until the block ends."""
        begin, poll, created_ms = FetchStream.__init__, LongPoll.__init__, Table.created_ms.fget
        assert created_ms is not None

        def known(stream: FetchStream, *arguments: Any) -> None:
            if self in arguments:
                self._streams.append(stream)
            begin(stream, *arguments)

        def polled(stream: LongPoll, *arguments: Any) -> None:
            if self in arguments:
                self._polls.append(stream)
            poll(stream, *arguments)

        with pytest.MonkeyPatch.context() as patch, using(self):
            self._server = server
            patch.setattr(FetchStream, "__init__", known)
            patch.setattr(LongPoll, "__init__", polled)
            if self._runs:
                # A library dates the creation of tables by the machine's clock.
                patch.setattr(Table, "created_ms", property(lambda table: self.event_at(created_ms(table))))
            try:
                yield
            finally:
                self._server = None

    def on_move(self, moved: Callable[[], None]) -> None:
        """Call `moved` after each jump."""
        self._moved.append(moved)

    def __call__(self) -> int:
        with self._lock:
            return self._offset + (_machine_ms() if self._runs else 0)

    def event_at(self, machine_ms: int) -> int:
        """The time by this clock at a time by the machine's."""
        return machine_ms + next(offset for since, offset in reversed(self.offsets) if since <= machine_ms)

    def now_ms(self) -> int:
        return self()

    def monotonic(self) -> float:
        return (self() - self._start) / 1000

    def advance(self, milliseconds: int) -> int:
        """Let time pass; returns the new time."""
        with self._lock:
            self._offset += max(0, milliseconds)
            if self._runs:
                self.offsets.append((_machine_ms(), self._offset))
        for moved in self._moved:
            moved()
        return self()

    def sleep(self, seconds: float) -> None:
        if hasattr(self._of_thread, "beside"):
            condition = Condition()
            with condition:
                self.wait_for(condition, lambda: False, seconds)
        else:
            self.advance(max(1, round(seconds * 1000)))

    def wait_for(self, condition: Condition, predicate: Callable[[], bool], seconds: float) -> bool:
        """Also one who does not want to wait is given what was sent before: time was moved, not waited for. A wait is
        never shorter than was asked for, as with any clock."""
        deadline = self.monotonic() + seconds
        beside: _Beside | None = getattr(self._of_thread, "beside", None)
        if beside is not None:
            beside.waits = (deadline, predicate)
        try:
            return self._wait_for(condition, predicate, deadline, beside)
        finally:
            if beside is not None:
                beside.waits = None

    def _wait_for(
        self, condition: Condition, predicate: Callable[[], bool], deadline: float, beside: _Beside | None
    ) -> bool:
        busy_since = time.monotonic()
        while not predicate():
            left = deadline - self.monotonic()
            is_driver = threading.get_ident() == self._driver
            until = self._all_idle_until(time.monotonic() - busy_since) if is_driver else None
            if until is None:
                if left <= 0 and not is_driver and (beside is None or self._is_idle(busy_since)):
                    return False
                condition.wait(LOOK_SECONDS)
            elif left <= 0:
                return False
            else:
                # Nothing may be held while the clock is moved: those who are woken may want to put something here.
                condition.release()
                try:
                    self.advance(max(1, min(round(left * 1000) + 1, until - self())))
                finally:
                    condition.acquire()
                busy_since = time.monotonic()
        return True

    def _is_idle(self, busy_since: float) -> bool:
        """Whether nothing that the org has sent is on its way: a clock that runs ends a wait of a thread beside the
        driver's no sooner than one of the driver's, however slow the machine is."""
        return self._idle_until(time.monotonic() - busy_since) is not None

    def _all_idle_until(self, busy: float) -> int | None:
        """When the org or a thread beside the driver's does something next; None while one of them is at work."""
        waits = [each.waits for each in list(self._beside)]
        now = self.monotonic()
        if any(each is None or each[0] <= now or each[1]() for each in waits):
            return self() + 1_000 if busy > BOUND_SECONDS else None
        until = self._idle_until(busy)
        ends = [self._start + math.ceil(each[0] * 1000) for each in waits if each is not None]
        return None if until is None else min([until, *ends])

    def _idle_until(self, busy: float) -> int | None:
        """When the org does something next; None while it is at work, no stream was begun yet (but a thread beside the
        driver's may want none), or a message is on its way. `busy`: for how long already, in seconds of the machine."""
        if self._server is None:
            return self() + FAR_MS
        streams = any(not getattr(stream, "is_over", False) for stream in self._streams)
        polls = any(not getattr(poll, "is_over", False) for poll in self._polls)
        idle = [self._polls_idle_until(self._server.cometd, busy)] if polls else []
        if streams or not polls:
            idle.append(self._streams_idle_until(self._server.service, busy))
        return None if None in idle else min(each for each in idle if each is not None)

    def _streams_idle_until(self, service: PubSubService | None, busy: float) -> int | None:
        due = service.next_due() if service is not None else None
        begun = service.subscribed_streams if service is not None else 0
        over = [stream for stream in self._streams if getattr(stream, "is_over", False)]
        wanted = len(self._streams) - len(over)
        if due is None and not wanted and self._beside:
            return self() + FAR_MS  # who waits now, waits for a thread beside the driver's
        if service is None or due is None or due <= self() or begun < wanted:
            return self() + 1_000 if busy > BOUND_SECONDS else None
        is_new = any(not getattr(stream, "responses", 0) for stream in self._streams if stream not in over)
        if is_new and service.open_streams > wanted and busy < END_SECONDS:
            return None  # one that has ended and whose end the org has not heard of looks like one that it begins
        if service.open_streams == wanted:
            # The org has heard of every end: what it had sent on those streams and has not arrived never will.
            sent_on_ended = service.responses_ever_sent - service.responses_sent
            self._given_up = sent_on_ended - sum(getattr(stream, "responses", 0) for stream in over)
        if busy < MESSAGE_SECONDS and (service.unasked_streams or self._on_their_way(service) > self._given_up):
            return None
        self._given_up = self._on_their_way(service)
        return due

    def _polls_idle_until(self, service: CometdService, busy: float) -> int | None:
        """The same of clients that poll: each of them has a connect that is held, and has got all answers."""
        due, wanted = service.next_due(), sum(not getattr(poll, "is_over", False) for poll in self._polls)
        if due is None or due <= self() or service.held_connects < wanted:
            return self() + 1_000 if busy > BOUND_SECONDS else None
        on_their_way = service.answers_sent - sum(getattr(poll, "responses", 0) for poll in self._polls)
        if busy < MESSAGE_SECONDS and on_their_way > self._given_up:
            return None
        self._given_up = on_their_way
        return due

    def _on_their_way(self, service: PubSubService) -> int:
        """Responses that were sent and have not arrived. A client has always asked for more, so a stream of which
        nothing is asked has a request on its way to it."""
        return service.responses_ever_sent - sum(getattr(stream, "responses", 0) for stream in self._streams)
