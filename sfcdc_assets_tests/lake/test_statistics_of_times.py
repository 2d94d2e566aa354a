"""Conditions on times are compared with the statistics of files: what cannot hold a row is not read.

Such files are spoiled here, so that whoever reads one says so.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import sfcdc_assets
from sfcdc_assets.change_events.raw_event_rows import land as landed
from sfcdc_assets.event_channels.event_rows import event_rows
from sfcdc_assets.event_channels.typed_event import TypedEvent
from sfcdc_assets.lake.delta.conditions import literal_time
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.landed_table import WINDOW_MS, LandedKeys
from sfcdc_assets.lake.tables.lost_checkpoints import note_lost_checkpoint
from sfcdc_assets.lake.tables.raw_event_reads import FEW_FILES
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.redelivered_events import LandedBefore
from sfcdc_assets.runtime.times import utc
from sfcdc_assets.streams.checkpoint import EARLIEST, StreamCheckpoint
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.resume import ResumePoint
from sfcdc_assets_tests.change_events.written_event import event_schema, header, payload

CHANNEL, TOPIC = "/data/ChangeEvents", "/u/Orders"
OLD_MS, NEW_MS = 1_600_000_000_000, 1_700_000_000_000


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path))


def delivered(number: int, committed_ms: int) -> DeliveredEvent:
    head = header(sequenceNumber=number, commitTimestamp=committed_ms)
    return DeliveredEvent(f"uuid {number}", "", payload(event_schema(), head), bytes([number]), committed_ms)


def no_schema(_: str) -> None:
    """No schema is known."""


def land(warehouse: Warehouse, *times_ms: int) -> StreamCheckpoint:
    """Land an event of each time, in a file of its own."""
    checkpoint = StreamCheckpoint(CHANNEL, begun=EARLIEST)
    for number, time_ms in enumerate(times_ms, 1):
        event = delivered(number, time_ms)
        found = landed(checkpoint, [event], no_schema, resume=ResumePoint(event.replay_id), complete=True)
        RawEvents.open(warehouse).commit(found.rows, found.checkpoint)
        checkpoint = found.checkpoint
    return checkpoint


def spoil(warehouse: Warehouse, table: Table, of_before: str) -> None:
    """Spoil the files whose rows are all of before the new time."""
    old = table.files(pl.col(f"max.{of_before}") < utc(NEW_MS))
    assert old
    for file in old:
        (warehouse.folder / table.name / file.path).write_bytes(b"PAR1")


def test_events_that_may_come_again_are_looked_for_among_those_of_their_time_alone(warehouse: Warehouse) -> None:
    checkpoint = land(warehouse, OLD_MS, NEW_MS, NEW_MS + 1)
    note_lost_checkpoint(warehouse, CHANNEL, checkpoint.position + 1, "it was refused", NEW_MS, None)
    broken = RawEvents.open(warehouse).lose_checkpoint(RawEvents.open(warehouse).checkpoint(CHANNEL))
    spoil(warehouse, RawEvents.open(warehouse).table, "commit_timestamp")
    again, new = delivered(2, NEW_MS), delivered(9, NEW_MS)
    found = LandedBefore(warehouse, CHANNEL).without(RawEvents.open(warehouse), broken, [again, new], no_schema)
    assert list(found) == [new]


def test_headers_of_a_time_are_read_from_files_of_that_time_alone(warehouse: Warehouse) -> None:
    """By a scan, which reads what `files_with` leaves and more are there of than are read one by one."""
    many = FEW_FILES + 1
    land(warehouse, OLD_MS, *(NEW_MS + number for number in range(many)))
    table = RawEvents.open(warehouse).table
    spoil(warehouse, table, "commit_timestamp")
    entity = str(table.file_statistics()["partition.entity_name"][0])
    committed = utc(NEW_MS), utc(NEW_MS + many)
    found = RawEvents.open(warehouse).headers(
        entity, CHANNEL, ["position"], after=0, up_to=many + 1, committed=committed
    )
    assert found.num_rows == many


def test_keys_that_no_event_can_have_any_more_are_not_read(warehouse: Warehouse) -> None:
    events = EventTable.open_or_create(warehouse, TOPIC)
    times = (NEW_MS - WINDOW_MS - 1_000, NEW_MS)
    for position, time_ms in enumerate(times, 1):
        event = DeliveredEvent(f"{position}", "", b"{}", bytes([position]), time_ms)
        rows = event_rows(TOPIC, position, [event], [TypedEvent()], events.table.schema)
        EventTable.open_or_create(warehouse, TOPIC).commit(rows, StreamCheckpoint(TOPIC, position, position))
    table = EventTable.open_or_create(warehouse, TOPIC).table
    spoil(warehouse, table, "received_at")
    assert LandedKeys().unseen(table, 2, ["00" * 16], NEW_MS) == [True]


def test_an_event_of_a_time_beyond_nanoseconds_is_looked_for_as_any_other(warehouse: Warehouse) -> None:
    """A damaged header may name any."""
    distant_ms = 32_503_680_000_000  # the year 3000
    checkpoint = land(warehouse, NEW_MS, distant_ms)
    note_lost_checkpoint(warehouse, CHANNEL, checkpoint.position + 1, "it was refused", NEW_MS, None)
    broken = RawEvents.open(warehouse).lose_checkpoint(RawEvents.open(warehouse).checkpoint(CHANNEL))
    again, new = [delivered(1, NEW_MS), delivered(2, distant_ms)], delivered(9, distant_ms)
    found = LandedBefore(warehouse, CHANNEL).without(RawEvents.open(warehouse), broken, [*again, new], no_schema)
    assert list(found) == [new]


def test_a_time_is_found_to_the_microsecond(warehouse: Warehouse) -> None:
    times = [datetime(1, 1, 1, tzinfo=UTC), utc(NEW_MS), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)]
    rows = pa.table({"at": pa.array(times, pa.timestamp("us", "UTC"))})
    table = Table.open_or_create(warehouse, "times", rows.schema)
    table.append(rows, {}, {})
    opened = Table.open(warehouse, "times")
    assert opened is not None
    for time in times:
        assert opened.scan(["at"], f"at = {literal_time(time)}")["at"].to_pylist() == [time]


def test_no_condition_of_the_package_has_a_time_as_sql_writes_it() -> None:
    package = Path(sfcdc_assets.__file__).parent
    of_other_engines = {"emulator", "sql"}
    sources = [path for path in package.rglob("*.py") if of_other_engines.isdisjoint(path.parts)]
    by_hand = re.compile(r"\btimestamp(tz)? '", re.IGNORECASE)
    assert [str(path) for path in sources if by_hand.search(path.read_text())] == []
