"""What is remembered of a channel: all of it, in the commit that lands, and whatever becomes of the log."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from sfcdc_assets.change_events.raw_event_rows import QUARANTINE, RAW_EVENTS, land
from sfcdc_assets.lake.tables.lost_checkpoints import note_lost_checkpoint
from sfcdc_assets.lake.tables.quarantine import quarantine
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.stream_checkpoint import StoredCheckpoint
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.redelivered_events import LandedBefore
from sfcdc_assets.streams.checkpoint import COMETD, EARLIEST, LATEST, PUBSUB, StreamCheckpoint
from sfcdc_assets.streams.delivered_event import DeliveredEvent, ReplayStart
from sfcdc_assets.streams.resume import ResumePoint, StreamProgress
from sfcdc_assets_tests.change_events.json_form import as_json
from sfcdc_assets_tests.change_events.written_event import event_schema, header, payload
from sfcdc_assets_tests.lake.test_raw_events import CHANNEL, events
from sfcdc_assets_tests.pipeline.reconciliation.outside_client import clean_up_logs


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path))


KEY = "0000001a-8c2f-3d4e-0000-0000deadbeef"


def unreadable(replay_id: bytes, number: int) -> DeliveredEvent:
    """An event that goes to quarantine."""
    return DeliveredEvent(f"event {number}", "schema", b"no header %d" % number, replay_id, 1_000 + number)


def test_it_outlives_the_log(warehouse: Warehouse) -> None:
    checkpoint = StreamCheckpoint(
        CHANNEL, 2, 1, ResumePoint(b"\x00\x00\x07 an id of more than two numbers", 7), "t", LATEST, 5
    )
    RawEvents.open(warehouse).commit(events(1, 2), checkpoint)
    landed_at = RawEvents.open(warehouse).landed_at_ms(CHANNEL)
    for _ in range(3):
        RawEvents.open(warehouse).commit(RAW_EVENTS.empty_table(), StreamCheckpoint("/data/Other", 1, 1))
    clean_up_logs(warehouse.folder, time.time())
    found = RawEvents.open(warehouse)
    assert found.checkpoint(CHANNEL) == checkpoint
    assert (found.landed_at_ms(CHANNEL), landed_at is not None) == (landed_at, True)


@pytest.mark.parametrize("replay_id", [None, b"a", b"\x00", b"\x00" * 7, b"\xff" * 7, b"\xff" * 8, bytes(range(40))])
def test_a_replay_id_of_any_length_is_kept_and_a_shorter_one_after_it(
    warehouse: Warehouse, replay_id: bytes | None
) -> None:
    for each in (b"\xff" * 50, replay_id):
        checkpoint = StreamCheckpoint(CHANNEL, 1, 1, ResumePoint(each), begun=EARLIEST)
        RawEvents.open(warehouse).commit(RAW_EVENTS.empty_table(), checkpoint)
        assert RawEvents.open(warehouse).checkpoint(CHANNEL) == checkpoint


def test_events_of_a_replay_id_that_may_be_unfinished_are_known_by_their_rows(warehouse: Warehouse) -> None:
    delivered = [DeliveredEvent(f"event-{n}", "", b"payload of %d" % n, bytes([n]), 9) for n in (1, 2)]
    taken = StreamProgress(ReplayStart.EARLIEST)
    assert [taken.admit(event) for event in delivered] == [True, True]
    checkpoint = StreamCheckpoint(CHANNEL, 2, 0, taken.point, KEY, EARLIEST, 5, open_from=2)
    RawEvents.open(warehouse).commit(events(1, 2), checkpoint)
    clean_up_logs(warehouse.folder, time.time())
    assert RawEvents.open(warehouse).checkpoint(CHANNEL) == checkpoint
    again = StreamProgress(ReplayStart.EARLIEST, RawEvents.open(warehouse).checkpoint(CHANNEL).resume)
    assert again.resume() == ReplayStart.after(b"\x01")
    assert not again.admit(delivered[1])


def test_events_in_quarantine_are_among_them_and_a_skipped_position_is_none(warehouse: Warehouse) -> None:
    taken, checkpoint = StreamProgress(ReplayStart.EARLIEST), StreamCheckpoint(CHANNEL, begun=EARLIEST, begun_at_ms=1)
    first, *siblings = [unreadable(b"1", 1), *(unreadable(b"2", number) for number in range(2, 6))]
    for batch in ([first, siblings[0]], [siblings[1]], siblings[2:]):
        for event in batch:
            assert taken.admit(event)
        landed = land(checkpoint, batch, lambda _: None, resume=taken.point, complete=False)
        quarantine(warehouse, landed.quarantined, CHANNEL)
        RawEvents.open(warehouse).commit(landed.rows, landed.checkpoint)
        found = RawEvents.open(warehouse).checkpoint(CHANNEL)
        assert found == landed.checkpoint
        assert (found.resume, found.open_from) == (taken.point, 2)
        RawEvents.open(warehouse).skip_to(CHANNEL, found.position + 10)
        checkpoint = RawEvents.open(warehouse).checkpoint(CHANNEL)
        assert checkpoint.resume == taken.point
    taken.nothing_more(b"later", 9)
    landed = land(checkpoint, [], lambda _: None, resume=taken.point, complete=True)
    RawEvents.open(warehouse).commit(landed.rows, landed.checkpoint)
    assert RawEvents.open(warehouse).checkpoint(CHANNEL).resume == ResumePoint(b"later", 9)


def test_an_event_in_quarantine_that_did_not_get_its_position_is_not_among_them(warehouse: Warehouse) -> None:
    taken = StreamProgress(ReplayStart.EARLIEST)
    event = unreadable(b"1", 1)
    taken.admit(event)
    landed = land(StreamCheckpoint(CHANNEL), [event], lambda _: None, resume=taken.point, complete=False)
    quarantine(warehouse, landed.quarantined, CHANNEL)  # and the commit of its position did not come about
    quarantine(warehouse, QUARANTINE.empty_table(), CHANNEL)
    checkpoint = StreamCheckpoint(CHANNEL, 1, 0, ResumePoint(b"0", None, b"\x01"), "t", open_from=1)
    RawEvents.open(warehouse).commit(events(1), checkpoint)
    mark = DeliveredEvent("event-1", "", b"payload of 1", b"\x01", 0).mark
    assert RawEvents.open(warehouse).checkpoint(CHANNEL).resume.open_marks == (mark,)


def test_where_rows_cannot_be_read_their_events_come_again_and_the_stream_goes_on(warehouse: Warehouse) -> None:
    checkpoint = StreamCheckpoint(
        CHANNEL, 2, 0, ResumePoint(b"\x01", 7, b"\x02", ("its mark",)), KEY, EARLIEST, 5, open_from=2
    )
    RawEvents.open(warehouse).commit(events(1, 2), checkpoint)
    for file in (warehouse.folder / "raw_events").rglob("*.parquet"):
        file.write_bytes(b"PAR1")
    found = RawEvents.open(warehouse).checkpoint(CHANNEL)
    assert found == replace(checkpoint, resume=ResumePoint(b"\x01", 7), open_from=0)


def test_whose_replay_id_it_is_is_kept_and_that_of_an_older_warehouse_is_pubsubs(warehouse: Warehouse) -> None:
    numbers = StoredCheckpoint.after(StreamCheckpoint(CHANNEL, 2, 2, ResumePoint(b"\x07")), 9).versions(CHANNEL)
    older = {name: number for name, number in numbers.items() if name != f"{CHANNEL}#transport"}
    RawEvents.open(warehouse).table.append(RAW_EVENTS.empty_table(), older, {})
    assert RawEvents.open(warehouse).checkpoint(CHANNEL).transport == PUBSUB
    for transport in (COMETD, PUBSUB):
        checkpoint = StreamCheckpoint(CHANNEL, 2, 2, ResumePoint(b"55", 1), "t", EARLIEST, 5, transport=transport)
        RawEvents.open(warehouse).commit(RAW_EVENTS.empty_table(), checkpoint)
        assert RawEvents.open(warehouse).checkpoint(CHANNEL) == checkpoint


def test_what_a_break_brings_again_is_known_by_its_header_whatever_its_form(warehouse: Warehouse) -> None:
    """In Avro and in JSON, with other ids and another replay id; an event beside it is new."""
    heads = [header(sequenceNumber=number) for number in (1, 2)]
    avro = [DeliveredEvent(f"uuid {n}", "s", payload(event_schema(), head), b"\x01", 5) for n, head in enumerate(heads)]
    in_json = [
        DeliveredEvent(f"other {n}", "s", as_json(payload(event_schema(), head), event_schema()), b"77", 6)
        for n, head in enumerate(heads)
    ]
    before = StreamCheckpoint(CHANNEL, begun=EARLIEST)

    def unknown(_: str) -> None:
        """No schema is known."""

    landed = land(before, avro[:1], unknown, resume=ResumePoint(b"\x01"), complete=True)
    RawEvents.open(warehouse).commit(landed.rows, landed.checkpoint)
    raw_events = RawEvents.open(warehouse)
    landed_before = LandedBefore(warehouse, CHANNEL)
    assert landed_before.without(raw_events, landed.checkpoint, in_json, unknown) == in_json, "nothing was broken"
    landed_before.landed(landed.checkpoint)
    note_lost_checkpoint(warehouse, CHANNEL, landed.checkpoint.position + 1, "by another process", 1, None)
    broken = raw_events.lose_checkpoint(raw_events.checkpoint(CHANNEL))
    unreadable_one = unreadable(b"1", 1)
    for again in (avro, in_json):
        found = landed_before.without(RawEvents.open(warehouse), broken, [*again, unreadable_one], unknown)
        assert list(found) == [again[1], unreadable_one]
    assert landed_before.without(RawEvents.open(warehouse), broken, [unreadable_one], unknown) == [unreadable_one]


def test_what_a_break_brings_again_without_a_readable_header_is_known_by_its_id_and_its_bytes(
    warehouse: Warehouse,
) -> None:
    """Also alone, with another replay id, and after the stream has come past what was landed with a header."""

    def unknown(_: str) -> None:
        """No schema is known."""

    before = StreamCheckpoint(CHANNEL, begun=EARLIEST)
    first = [unreadable(b"1", 1), unreadable(b"2", 2)]
    landed = land(before, first, unknown, resume=ResumePoint(b"2"), complete=True)
    quarantine(warehouse, landed.quarantined, CHANNEL)
    RawEvents.open(warehouse).commit(landed.rows, landed.checkpoint)
    landed_before = LandedBefore(warehouse, CHANNEL)
    note_lost_checkpoint(warehouse, CHANNEL, landed.checkpoint.position + 1, "by another process", 1, None)
    broken = RawEvents.open(warehouse).lose_checkpoint(RawEvents.open(warehouse).checkpoint(CHANNEL))
    other, again = unreadable(b"3", 3), [unreadable(b"7", 1), unreadable(b"8", 2)]
    new = DeliveredEvent("uuid", "s", payload(event_schema(), header()), b"9", 5)
    nameless = DeliveredEvent("", "s", first[0].payload, b"1", 5)
    for delivered in ([*again, other], [again[0], new, other, again[1]], [nameless, *again]):
        found = landed_before.without(RawEvents.open(warehouse), broken, delivered, unknown)
        assert list(found) == [event for event in delivered if event not in again]
