"""Statistics of texts are cut off by whoever writes a file, or left out: no decision takes them for the texts."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from sfcdc_assets.lake.maintenance.maintain import maintain
from sfcdc_assets.lake.maintenance.table_upkeep import Retention
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.payload_retention import drop_payloads, droppable
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.resume import ResumePoint
from sfcdc_assets_tests.lake.test_raw_events import events

OLD, NEW = datetime(2020, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
BEFORE = datetime(2024, 1, 1, tzinfo=UTC)
NOW_MS = int(BEFORE.timestamp() * 1000)
STEM = "/data/" + "Everything_that_the_billing_department_asked_for_in_2025" + "_"
CHANNELS = (STEM + "A__chn", STEM + "B__chn", STEM + "B__chn2", "/data/Short__chn", "/data/" + "ä" * 40 + "__chn")
"""Most are alike in their first 64 bytes; one is of letters of two bytes."""


def land(
    warehouse: Warehouse, channel: str, *positions: int, received: datetime = OLD, entity: str = "Account"
) -> None:
    checkpoint = StreamCheckpoint(channel, positions[-1], positions[-1], ResumePoint(b"r"))
    RawEvents.open(warehouse).commit(events(*positions, channel=channel, received=received, entity=entity), checkpoint)


def as_another_writer_has_it(warehouse: Warehouse) -> None:
    """The same events in files that delta-rs writes with its own defaults."""
    delta = DeltaTable(warehouse.uri("raw_events"))
    write_deltalake(delta, pa.RecordBatchReader.from_stream(delta.scan()).read_all(), mode="overwrite")


def left_as_landed(warehouse: Warehouse) -> None:
    """Nobody else wrote."""


def compacted(warehouse: Warehouse) -> None:
    DeltaTable(warehouse.uri("raw_events")).optimize.compact()


@pytest.fixture
def warehouse(tmp_path) -> Warehouse:
    return Warehouse(str(tmp_path))


@pytest.mark.parametrize("written", [left_as_landed, compacted, as_another_writer_has_it])
def test_channels_are_named_in_full_however_long_and_alike_their_names_are(warehouse, written) -> None:
    for number, channel in enumerate(CHANNELS, 1):
        land(warehouse, channel, 10 * number, 10 * number + 1, received=OLD if number % 2 else NEW)
    written(warehouse)
    table = RawEvents.open(warehouse)
    assert table.channels() == tuple(sorted(CHANNELS))
    for number, channel in enumerate(CHANNELS, 1):
        assert table.last_positions(channel) == {"Account": 10 * number + 1}
        assert sum(file.rows for file in table.files("Account", channel, 0, 1_000)) == 2
        assert table.files("Account", channel, 10 * number + 1, 1_000) == ()
        assert table.first_position_received_after(channel, NOW_MS) == (None if number % 2 else 10 * number)
        assert table.headers("Account", channel, ["position"], after=0, up_to=99).num_rows == 2
    assert table.received_before(BEFORE) == {
        channel: 10 * number + 1 for number, channel in enumerate(CHANNELS, 1) if number % 2
    }
    assert {key: len(files) for key, files in table.kept_payloads().items()} == {
        ("Account", channel): 1 for channel in CHANNELS
    }


@pytest.mark.parametrize("written", [left_as_landed, compacted, as_another_writer_has_it])
def test_payloads_of_channels_with_long_names_end_by_their_age(warehouse, written) -> None:
    for channel in CHANNELS:
        land(warehouse, channel, 1, 2)
    written(warehouse)
    assert droppable(warehouse, 30, NOW_MS) == [("Account", channel) for channel in sorted(CHANNELS)]
    done = drop_payloads(warehouse, 30, NOW_MS)
    assert {each.channel: each.events for each in done} == dict.fromkeys(CHANNELS, 2)
    assert RawEvents.open(warehouse).table.scan(["payload"])["payload"].null_count == 2 * len(CHANNELS)
    assert droppable(warehouse, 30, NOW_MS) == []


def test_packing_keeps_channels_apart_whose_names_begin_alike(warehouse) -> None:
    for position in range(1, 7):
        for channel in CHANNELS:
            land(warehouse, channel, position)
    list(maintain(warehouse, Retention(7, None), NOW_MS))
    table = RawEvents.open(warehouse)
    assert [len(table.files("Account", channel, 0, 10)) for channel in CHANNELS] == [1] * len(CHANNELS)
    assert len(table.table.files()) == len(CHANNELS)


def test_a_damaged_file_of_unknown_channels_keeps_the_others_from_nothing(warehouse) -> None:
    land(warehouse, CHANNELS[0], 1, 2)
    land(warehouse, CHANNELS[1], 3, 4, entity="Contact")
    as_another_writer_has_it(warehouse)
    (damaged,) = [file for file in RawEvents.open(warehouse).table.files() if "Contact" in file.path]
    (warehouse.folder / "raw_events" / damaged.path).write_bytes(b"none")
    land(warehouse, "/data/Short__chn", 1)
    table = RawEvents.open(warehouse)
    assert {CHANNELS[0], "/data/Short__chn"} <= set(table.channels())
    assert table.last_positions(CHANNELS[0])["Account"] == 2


names = st.text(st.sampled_from("aä😀~\x7f"), min_size=0, max_size=70).map(lambda end: "/data/" + "x" * 50 + end)


@settings(max_examples=15, deadline=None)
@given(channels=st.lists(names, min_size=1, max_size=4, unique=True))
def test_of_any_names_each_channel_has_its_events_and_no_others(tmp_path_factory, channels) -> None:
    warehouse = Warehouse(str(tmp_path_factory.mktemp("names")))
    for position, channel in zip(itertools.count(1), channels, strict=False):
        land(warehouse, channel, position)
    compacted(warehouse)
    as_another_writer_has_it(warehouse)
    table = RawEvents.open(warehouse)
    assert table.channels() == tuple(sorted(channels))
    assert [table.last_positions(channel) for channel in channels] == [
        {"Account": position} for position in range(1, len(channels) + 1)
    ]
