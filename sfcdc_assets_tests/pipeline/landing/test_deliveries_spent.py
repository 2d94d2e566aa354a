"""Every delivery is charged to the org: a failure of ours, however long it lasts, is not paid for by its allowance."""

from __future__ import annotations

import errno
import os
from collections import Counter, namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from socket import gethostname

import pyarrow as pa
import pytest

from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.lake.delta import commit_protocol
from sfcdc_assets.lake.errors import WarehouseNotWritable
from sfcdc_assets.lake.store import pending_events
from sfcdc_assets.lake.store.pending_events import PendingEvents
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing import land
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.pending import READINGS, ReadingsCutShort
from sfcdc_assets.landing.poll_timeouts import POLL, TICK
from sfcdc_assets.runtime.progress import EventsDelivered, Fact, observing
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.status.status import status_of
from sfcdc_assets_tests.pipeline.landing.test_event_landing import push
from sfcdc_assets_tests.pipeline.simulation.read_tables import landed_rows
from sfcdc_assets_tests.pipeline.stream import CHANNEL, SETTLE, Stream, stream

pytestmark = pytest.mark.slow

NOTE_BYTES = 3_500
LOAD = "/u/Load"
DAY, EVERY = 24 * 3_600, 2_400
"""Seconds that a failure lasts, and between two ticks."""
AN_EVENT = 3
"""Ticks between two events, which come every two hours."""
BUSY, QUIET = 120, 2
"""Events that wait when the failure begins; one more comes every two hours."""
MOST_KEPT, A_RESPONSE, WAITING = 40, 100, 300


@pytest.fixture(params=["pubsub", "cometd"])
def org(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream]:
    monkeypatch.setenv("SFCDC_TRANSPORT", request.param)
    with stream(tmp_path, settings=OrgSettings(daily_event_deliveries=1_000)) as opened:
        yield opened


@contextmanager
def full_disk() -> Iterator[None]:
    """No file has room, however small."""
    usage = namedtuple("usage", "total used free")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit_protocol.shutil, "disk_usage", lambda _: usage(10, 10, 0))
        yield


@contextmanager
def nearly_full_disk() -> Iterator[None]:
    """A small note has room; what is to be landed has not, nor has a copy of it."""

    def put(warehouse: Warehouse, path: str, content: pa.Buffer) -> None:
        if content.size > NOTE_BYTES:
            raise WarehouseNotWritable(warehouse.root, "no space left on device")
        write(warehouse, path, content)

    def no_room(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write = pending_events.put_note
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pending_events, "put_note", put)
        patch.setattr(commit_protocol.CommitProtocol, "_check_room", no_room)
        yield


@contextmanager
def defect() -> Iterator[None]:
    """An exception of ours, at each commit."""

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("a defect")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RawEvents, "commit", fails)
        yield


FAILURES = {"full disk": full_disk, "nearly full disk": nearly_full_disk, "defect": defect}


class Process:
    """One that reads the channel; it may end and be followed by another."""

    def __init__(self, org: Stream, channel: str = CHANNEL) -> None:
        self.org = org
        self.channel = channel
        self.reader = self._new()

    def _new(self) -> ChannelReader:
        return ChannelReader(self.org.warehouse, self.org.connected, self.channel, SETTLE)

    def tick(self) -> BaseException | None:
        try:
            self.reader.land(TICK)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            return error
        return None

    def end(self) -> None:
        """End, and wait until the org has heard of it: what happens before that is sent, and charged, once more."""
        self.reader.drop()
        self.org.wait_until_the_org_has_hung_up()

    def restart(self) -> None:
        self.end()
        self.reader = self._new()


def pass_time(org: Stream, seconds: float) -> None:
    org.clock.advance(round(seconds * 1000))


CASES = [
    (transport, failure, waiting, restarts)
    for failure in FAILURES
    for waiting in (BUSY, QUIET)
    for restarts in (False, True)
    for transport in ("pubsub", "cometd")
    # What is kept and what is read again is the same code for all transports: two ways in are enough for the second.
    if transport == "pubsub" or (waiting == BUSY) == restarts
]


@pytest.mark.parametrize(("org", "failure", "waiting", "restarts"), CASES, indirect=["org"])
def test_a_failure_of_ours_that_lasts_a_day_costs_at_most_three_deliveries_an_event(
    org: Stream, failure: str, waiting: int, restarts: bool
) -> None:
    process = begun(org)
    before = org.delivered
    for number in range(waiting):
        org.update(number % 40)
    made = waiting
    with FAILURES[failure]():
        errors = []
        for step in range(DAY // EVERY):
            pass_time(org, EVERY)
            errors.append(process.tick())
            if restarts and step % 2:
                process.restart()
            if step % AN_EVENT == AN_EVENT - 1:
                org.update(step % 40)
                made += 1
    assert any(errors)
    spent = org.delivered - before
    assert spent <= 3 * made
    for _ in range(20):
        pass_time(org, 400)
        process.tick()
    process.reader.drop()
    assert len(org.landed()) == made + 1
    assert [row["position"] for row in org.landed()] == list(range(1, made + 2))
    assert org.delivered - before <= 3 * made


def test_what_is_kept_is_bounded_however_many_events_wait(org: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of events is 10,000, in bytes 16 MB; here it is less. One more response is on its way at most."""
    monkeypatch.setattr(land, "COMMIT_EVENTS", MOST_KEPT)
    process = begun(org)
    before = org.delivered
    for number in range(WAITING):
        org.update(number % 40)
    kept = []
    with defect():
        for _ in range(10):
            pass_time(org, 400)
            assert isinstance(process.tick(), RuntimeError)
            note = pending_events.read_pending(org.warehouse, CHANNEL)
            kept.append(len(note.events) if note else 0)
    assert MOST_KEPT <= max(kept) < MOST_KEPT + A_RESPONSE
    assert kept == [kept[0]] * len(kept), "while they cannot be landed nothing more is taken"
    if org.connected.transport.name == "pubsub":
        assert org.delivered - before <= MOST_KEPT + 2 * A_RESPONSE, "over CometD the org sends without being asked"
    for _ in range(20):
        pass_time(org, 15)
        process.tick()
    process.reader.drop()
    assert [row["position"] for row in org.landed()] == list(range(1, WAITING + 2))


def test_a_commit_that_fails_for_hours_is_tried_after_pauses_that_grow_to_five_minutes(org: Stream) -> None:
    process = begun(org)
    org.update(1)
    tries, hours, began = Counter[int](), 3, org.clock()
    with pytest.MonkeyPatch.context() as patch:

        def fails(*_: object, **__: object) -> None:
            tries[(org.clock() - began) // 3_600_000] += 1
            raise RuntimeError("a defect")

        patch.setattr(RawEvents, "commit", fails)
        while org.clock() < began + hours * 3_600_000:
            pass_time(org, 5)
            assert isinstance(process.tick(), RuntimeError)
    assert [tries[hour] for hour in range(1, hours)] == [12] * (hours - 1)
    assert 12 < tries[0] <= 18, "5 s doubling to 300"
    pass_time(org, 300)
    assert process.tick() is None
    process.reader.drop()
    assert len(org.landed()) == 2


def begun(org: Stream) -> Process:
    """A reader whose channel has one event, of a transaction that is complete."""
    process = Process(org)
    org.update(0)
    process.tick()
    pass_time(org, 15)
    assert process.tick() is None
    return process


@pytest.mark.parametrize("others", [2, 5])
def test_what_another_process_has_landed_meanwhile_is_left_out_and_nothing_is_sent_again(
    org: Stream, others: int
) -> None:
    process = begun(org)
    for number in range(2):
        org.update(number)
    with defect():
        pass_time(org, 5)
        assert isinstance(process.tick(), RuntimeError)
    pending = org.delivered
    for number in range(2, others):
        org.update(number)
    note = org.warehouse.folder / pending_events.path_of(CHANNEL)
    note.unlink()  # so that the other one is sent the events itself
    second = Process(org)
    assert second.tick() is None
    pass_time(org, 15)
    assert second.tick() is None
    second.reader.drop()
    spent = org.delivered
    pass_time(org, 60)
    for _ in range(3):
        assert process.tick() is None
        pass_time(org, 15)
    process.reader.drop()
    assert [row["position"] for row in org.landed()] == list(range(1, others + 2))
    assert len({row["event_id"] for row in org.landed()}) == others + 1
    assert org.delivered - spent <= 1, "the replay id that was open when the other one began"
    assert pending < spent


def test_processes_that_are_killed_while_they_land_are_not_sent_the_same_events_for_ever(
    org: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        """As by SIGKILL: nothing is written any more."""

    def killed(*_: object, **__: object) -> None:
        raise KilledError

    process = begun(org)
    process.end()
    before = org.delivered
    org.update(1)
    with monkeypatch.context() as patch:
        patch.setattr(RawEvents, "commit", killed)
        for _ in range(40):
            pass_time(org, 600)
            process = Process(org)
            try:
                refused = process.tick()
            except KilledError:
                continue
            assert isinstance(refused, ReadingsCutShort)
    assert org.delivered - before <= 2 * 3, "an event, and the one before it whose replay id was open"
    note = str(refused).partition("then remove ")[2].partition(" to try")[0]
    Path(note).unlink()
    process = Process(org)
    assert process.tick() is None
    process.reader.drop()
    assert len(org.landed()) == 2
    assert not Path(note).exists()


def test_processes_that_read_a_quiet_channel_side_by_side_do_not_count_as_ended(org: Stream) -> None:
    """As syncs of every minute do, each of which waits some minutes for the first answer."""
    process = begun(org)
    process.end()
    position = org.checkpoint().position
    beside = PendingEvents(
        org.checkpoint(), readings=READINGS, noted_at_ms=org.clock(), process=f"{gethostname()}:{os.getppid()}"
    )
    pending_events.note_pending(org.warehouse, CHANNEL, beside)
    org.update(1)
    process = Process(org)
    assert process.tick() is None
    process.reader.drop()
    assert org.checkpoint().position == position + 1
    ended = replace(beside, before=org.checkpoint(), process=f"{gethostname()}:{2**22 + 1}")
    pending_events.note_pending(org.warehouse, CHANNEL, ended)
    process = Process(org)
    assert isinstance(process.tick(), ReadingsCutShort)


def test_deliveries_of_events_that_had_come_before_are_counted_and_what_waits_is_shown(org: Stream) -> None:
    process = begun(org)
    for number in range(3):
        org.update(number)
    with defect():
        pass_time(org, 5)
        process.tick()
        (channel,) = status_of(org.warehouse, load_settings()).channels
        assert (channel.pending, channel.pending_reason) == (3, "a defect")
    pass_time(org, 60)
    assert process.tick() is None
    process.end()
    repeats = 0
    for number in range(4):
        org.update(number)
        reader = ChannelReader(org.warehouse, org.connected, CHANNEL, SETTLE)
        report = reader.land(POLL)
        repeats += report.repeats
        reader.drop()
        org.wait_until_the_org_has_hung_up()
        assert report.deliveries - report.repeats == report.count == 1
    (channel,) = status_of(org.warehouse, load_settings()).channels
    assert channel.pending == 0
    assert 0 < channel.repeated_deliveries <= repeats
    assert org.delivered == len(org.landed()) + repeats


@pytest.mark.parametrize("restarts", [False, True])
def test_events_of_a_channel_with_a_table_of_its_own_are_kept_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    spent = Counter[str]()

    def note(fact: Fact) -> None:
        if isinstance(fact, EventsDelivered):
            spent["deliveries"] += fact.events

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("a defect")

    with stream(tmp_path, records=1) as opened, observing(note):
        opened.server.cometd.topics.channels.create({"Name": LOAD})
        process = Process(opened, LOAD)
        push(opened, "0", channel=LOAD)
        process.tick()
        pass_time(opened, 15)
        assert process.tick() is None
        assert process.tick() is None
        spent.clear()
        push(opened, *map(str, range(1, 31)), channel=LOAD)
        with monkeypatch.context() as patch:
            patch.setattr(EventTable, "commit", fails)
            for step in range(DAY // EVERY):
                pass_time(opened, EVERY)
                process.tick()
                if restarts and step % 2:
                    process.restart()
        for _ in range(5):
            pass_time(opened, 300)
            process.tick()
        process.reader.drop()
        assert [row["payload"] for row in landed_rows(opened.warehouse, LOAD)] == list(map(str, range(31)))
        assert 30 <= spent["deliveries"] <= 3 * 30
