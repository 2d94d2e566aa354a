"""While a batch of events is committed the next ones are read; what fails in between comes again, once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from sfcdc_assets.change_events.privacy import NOTHING_PRIVATE
from sfcdc_assets.change_events.raw_event_rows import StreamCheckpoint
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.landing import land
from sfcdc_assets.pipeline.landing.channel_reader import ChannelReader
from sfcdc_assets.pipeline.landing.patience import POLL
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.reconciliation.vanish import VanishLimits
from sfcdc_assets.salesforce.limits import Limit
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.errors import SchemaNotFound
from sfcdc_assets.streams.replay import ReplayStart
from sfcdc_assets.streams.resume import ResumePoint, StreamProgress
from sfcdc_assets.streams.transport import Received
from sfcdc_assets_tests.change_events.written_event import event_schema, header, payload

CHANNEL = "/data/ChangeEvents"
SCHEMA = event_schema()
EVENTS = [
    DeliveredEvent(f"event-{n}", "schema", payload(SCHEMA, header(transactionKey=f"t{n // 3}")), b"%03d" % n, 1_000)
    for n in range(1, 41)
]
A_RESPONSE, A_COMMIT = 4, 8
BOUND_SECONDS = 30.0


class Listed:
    """A transport and its subscription, which brings `EVENTS` a few at a time and then says that there are no more."""

    def __init__(self) -> None:
        self.taken = 0
        self.outstanding, self.responses, self.is_open, self.has_answered = 1, 1, True, True
        self.progress = StreamProgress(ReplayStart.EARLIEST)
        self.at = 0

    def subscribe(self, channel: str, begun: ReplayStart, resume: ResumePoint) -> Listed:
        self.progress = StreamProgress(begun, resume)
        after = self.progress.resume().replay_id
        self.at = sum(event.replay_id <= after for event in EVENTS)
        return self

    def take(self, seconds: float) -> Received:
        self.taken += 1
        events = EVENTS[self.at : self.at + A_RESPONSE]
        self.at += len(events)
        if not events:
            self.progress.nothing_more(b"", 1_000)
        return Received(tuple(self.progress.admit_all(events)), not events, 1_000)

    @property
    def resume_point(self) -> ResumePoint:
        return self.progress.point

    def schema(self, schema_id: str) -> str:
        raise SchemaNotFound(schema_id)

    def top_up(self, *, sparingly: bool = False) -> None:
        pass

    def close(self) -> None:
        pass

    def open_for(self) -> float:
        return 0.0

    def quiet_for(self) -> float | None:
        return 0.0


class Org(OrgConnection):
    """An org of which only the stream is asked."""

    def delivery_allowance(self) -> Limit | None:
        return None


class Session:
    organization_id = "00D000000000001AAA"


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Listed:
    monkeypatch.setattr(land, "COMMIT_EVENTS", A_COMMIT)
    return Listed()


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path))


def reader(stream: Listed, warehouse: Warehouse) -> ChannelReader:
    nothing, of_stream = cast(Any, None), cast(Any, stream)
    limits = VanishLimits(1, 1)
    org = Org(cast(Any, Session()), of_stream, NOTHING_PRIVATE, nothing, limits, lambda: None, lambda: of_stream)
    return ChannelReader(warehouse, org, CHANNEL, 10.0)


def assert_landed_once(warehouse: Warehouse) -> None:
    rows = RawEvents.open(warehouse).table.scan(["position", "event_id"]).sort_by("position").to_pylist()
    assert rows == [{"position": n, "event_id": event.event_id} for n, event in enumerate(EVENTS, 1)]
    checkpoint = RawEvents.open(warehouse).checkpoint(CHANNEL)
    assert (checkpoint.position, checkpoint.complete_position) == (len(EVENTS), len(EVENTS))


def test_events_are_read_while_those_before_them_are_committed(
    stream: Listed, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, went_on = land.Landing.commit, threading.Event()
    take = stream.take

    def taking(seconds: float) -> Received:
        if stream.taken >= A_COMMIT // A_RESPONSE:
            went_on.set()
        return take(seconds)

    def waiting(self: land.Landing, *arguments: Any) -> StreamCheckpoint:
        assert went_on.wait(BOUND_SECONDS), "nothing was read while this was committed"
        return commit(self, *arguments)

    monkeypatch.setattr(stream, "take", taking)
    monkeypatch.setattr(land.Landing, "commit", waiting)
    report = reader(stream, warehouse).land(POLL)
    assert (report.count, report.position, report.complete_position) == (len(EVENTS),) * 3
    assert_landed_once(warehouse)


@pytest.mark.parametrize("failing", [1, 2, 3, 5])
@pytest.mark.parametrize("is_committed", [False, True])
def test_what_was_read_during_a_commit_that_failed_comes_again(
    stream: Listed, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, failing: int, is_committed: bool
) -> None:
    commit, calls = land.Landing.commit, []

    def failing_once(self: land.Landing, before: StreamCheckpoint, *rest: Any) -> StreamCheckpoint:
        calls.append(before.position)
        after = commit(self, before, *rest) if is_committed or len(calls) != failing else before
        if len(calls) == failing:
            raise OSError("the disk is full")
        return after

    monkeypatch.setattr(land.Landing, "commit", failing_once)
    landing = reader(stream, warehouse)
    with pytest.raises(OSError, match="the disk is full"):
        landing.land(POLL)
    durable = RawEvents.open(warehouse).given_out(CHANNEL)
    assert durable == A_COMMIT * (failing if is_committed else failing - 1)
    landing.land(POLL)
    assert_landed_once(warehouse)


def test_a_reader_that_is_dropped_leaves_no_commit_behind_it(
    stream: Listed, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, begun, over = land.Landing.commit, threading.Event(), threading.Event()

    def slow(self: land.Landing, before: StreamCheckpoint, events: Sequence[DeliveredEvent], *rest: Any) -> Any:
        begun.set()
        after = commit(self, before, events, *rest)
        over.set()
        return after

    def interrupted(seconds: float) -> Received:
        if stream.at >= A_COMMIT:
            assert begun.wait(BOUND_SECONDS)
            raise KeyboardInterrupt
        return Listed.take(stream, seconds)

    monkeypatch.setattr(land.Landing, "commit", slow)
    monkeypatch.setattr(stream, "take", interrupted)
    landing = reader(stream, warehouse)
    with pytest.raises(KeyboardInterrupt):
        landing.land(POLL)
    assert over.is_set()
    monkeypatch.undo()
    reader(stream, warehouse).land(POLL)
    assert_landed_once(warehouse)
