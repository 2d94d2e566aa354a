"""Packing changes files and nothing else: the rows, what the log says of them, what the channel remembers."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sfcdc_assets.change_events.raw_event_rows import RAW_EVENTS
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.maintenance import pack as packing_module
from sfcdc_assets.lake.maintenance.maintained_tables import LAYERS, maintained_tables
from sfcdc_assets.lake.maintenance.pack import Packed, Packing, RowsMissing, pack
from sfcdc_assets.lake.tables.raw_events import NAME, RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.payload_retention import drop_payloads
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.resume import ResumePoint
from sfcdc_assets.timeline.changes import RAW_COLUMNS
from sfcdc_assets.timeline.text_values import TEXT_FIELDS
from sfcdc_assets_tests.examples import examples

SALES, ALL = "/data/Sales__chn", "/data/ChangeEvents"
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
TEXTS = LAYERS["text_fields"]


def land(warehouse: Warehouse, channel: str, positions: list[int], entity: str = "Account", hours: int = 1) -> None:
    """One commit."""
    rows = [
        {
            "channel": channel,
            "position": position,
            "replay_id": bytes([position % 256]),
            "event_id": f"{channel} {position}",
            "payload": b"payload of %d" % position,
            "entity_name": entity,
            "record_ids": [f"001{position}", "002"],
            "commit_timestamp": BEGUN + timedelta(hours=hours * position, microseconds=position),
            "received_at": BEGUN + timedelta(hours=hours * position, microseconds=7 * position),
            "transaction_key": "t",
        }
        for position in positions
    ]
    resume = ResumePoint(b"before", 5, bytes([positions[-1] % 256]), ("its mark",))
    checkpoint = StreamCheckpoint(channel, positions[-1], positions[-1] - 1, resume, "t", "EARLIEST", 3, positions[-1])
    RawEvents.open(warehouse).commit(pa.Table.from_pylist(rows, schema=RAW_EVENTS), checkpoint)


def of_raw_events(warehouse: Warehouse, payload_days: int | None = None) -> Packing:
    found = next(maintained_tables(warehouse, payload_days))
    assert found.name == NAME
    assert found.packing is not None
    return found.packing


def pack_raw_events(warehouse: Warehouse, payload_days: int | None = None) -> Packed:
    return pack(warehouse, NAME, of_raw_events(warehouse, payload_days))


def rows_of(warehouse: Warehouse, name: str = NAME) -> list[dict[str, Any]]:
    table = Table.open(warehouse, name)
    assert table is not None
    return sorted(table.scan().to_pylist(), key=lambda row: sorted((key, repr(value)) for key, value in row.items()))


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path))


def assert_statistics_are_true(warehouse: Warehouse, name: str) -> None:
    """Of each file the log says what is in it."""
    delta = DeltaTable(warehouse.uri(name))
    table = Table(name, delta)
    for file in table.files():
        within = table.scan(
            predicate=" and ".join(f"{key} = '{value}'" for key, value in file.partition.items()) or None
        )
        path = Path(warehouse.uri(name)) / file.path
        rows = pa.parquet.read_table(path, schema=None, partitioning=None)
        assert rows.num_rows == file.rows
        assert path.stat().st_size == file.size
        assert within.num_rows >= file.rows
        for column in rows.column_names:
            if file.statistics.get(f"min.{column}") is not None:
                values = [value for value in rows[column].to_pylist() if value is not None]
                assert file.statistics[f"min.{column}"] == min(values), column
                assert file.statistics[f"max.{column}"] == max(values), column
                assert file.statistics[f"null_count.{column}"] == rows.num_rows - len(values)


def test_files_of_an_entity_and_a_channel_become_one_in_the_order_of_positions(warehouse: Warehouse) -> None:
    for position in range(1, 7):
        land(warehouse, ALL, [position], ["Account", "Contact"][position % 2])
        land(warehouse, SALES, [position])
    before = rows_of(warehouse)
    assert pack_raw_events(warehouse) == Packed(12, 3)
    assert rows_of(warehouse) == before
    files = RawEvents.open(warehouse).table.files()
    assert sorted((each.partition["entity_name"], each.statistics["min.channel"], each.rows) for each in files) == [
        ("Account", ALL, 3),
        ("Account", SALES, 6),
        ("Contact", ALL, 3),
    ]
    assert all(each.statistics["min.channel"] == each.statistics["max.channel"] for each in files)
    assert_statistics_are_true(warehouse, NAME)
    assert pack_raw_events(warehouse) == Packed()


def test_what_is_remembered_of_a_channel_is_the_same_after_packing_even_if_older_commits_are_gone(
    warehouse: Warehouse,
) -> None:
    for position in range(1, 5):
        land(warehouse, ALL, [position])
    land(warehouse, SALES, [9])
    before = RawEvents.open(warehouse)
    checkpoints, landed = (
        [before.checkpoint(of) for of in (ALL, SALES)],
        [before.landed_at_ms(of) for of in (ALL, SALES)],
    )
    pack_raw_events(warehouse)
    RawEvents.open(warehouse).table.checkpoint()
    log = warehouse.folder / NAME / "_delta_log"
    for commit in sorted(log.glob("*.json"))[:-1]:
        commit.unlink()
    after = RawEvents.open(warehouse)
    assert [after.checkpoint(of) for of in (ALL, SALES)] == checkpoints
    assert [after.landed_at_ms(of) for of in (ALL, SALES)] == landed
    assert after.last_positions(ALL) == {"Account": 4}
    assert after.channels() == tuple(sorted((ALL, SALES)))
    assert [file.rows for file in after.files("Account", ALL, 1, 3)] == [4]
    assert after.files("Account", ALL, 4, 9) == ()
    assert after.last_commit_timestamp(ALL, 2) == BEGUN + timedelta(hours=2, microseconds=2)
    assert after.first_position_received_after(ALL, int((BEGUN + timedelta(hours=2.5)).timestamp() * 1000)) == 3


def test_what_outside_clients_wrote_with_view_types_is_packed_with_the_rest(warehouse: Warehouse) -> None:
    for position in range(1, 5):
        land(warehouse, ALL, [position])
    DeltaTable(warehouse.uri(NAME)).optimize.compact()
    land(warehouse, ALL, [5, 6, 7, 8, 9])
    before = rows_of(warehouse)
    assert pack_raw_events(warehouse) == Packed(2, 1)
    assert rows_of(warehouse) == before
    (file,) = RawEvents.open(warehouse).table.files()
    schema = pa.parquet.read_schema(Path(warehouse.uri(NAME)) / file.path)
    assert schema.field("channel").type == pa.string()
    assert set(RAW_COLUMNS) <= set(schema.names)


def test_days_stay_apart_while_their_payloads_are_held_if_payloads_are_given_up_at_all(warehouse: Warehouse) -> None:
    for position in range(1, 73):
        land(warehouse, ALL, [position])
    assert pack_raw_events(warehouse, payload_days=30).into == 3
    for up_to, events in ((23, 23), (47, 24)):
        assert RawEvents.open(warehouse).drop_payloads("Account", ALL, up_to) == events
    assert pack_raw_events(warehouse, payload_days=30) == Packed(2, 1)
    assert RawEvents.open(warehouse).drop_payloads("Account", ALL, 71) == 24


def test_a_group_is_given_up_where_a_file_was_replaced_meanwhile(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for position in range(1, 5):
        land(warehouse, ALL, [position], ["Account", "Contact"][position % 2])
    write = packing_module.write_packed

    def write_while_others_work(*arguments: Any) -> Any:
        written = write(*arguments)
        RawEvents.open(warehouse).drop_payloads("Account", ALL, 3)
        land(warehouse, ALL, [RawEvents.open(warehouse).checkpoint(ALL).position + 1], "Contact")
        return written

    monkeypatch.setattr(packing_module, "write_packed", write_while_others_work)
    done = pack_raw_events(warehouse)
    assert (done.files, done.into, done.given_up) == (2, 1, 1)
    rows = rows_of(warehouse)
    assert sorted(row["position"] for row in rows) == [1, 2, 3, 4, 5, 6]
    assert [row["position"] for row in rows if row["payload"] is None] == [2]
    named = {file.path for file in RawEvents.open(warehouse).table.files()}
    on_disk = {
        str(path.relative_to(warehouse.folder / NAME)) for path in (warehouse.folder / NAME).rglob("packed-*.parquet")
    }
    assert on_disk <= named, "what was written for nothing is gone"


def test_a_writer_that_opened_the_table_before_it_was_packed_lands_all_the_same(warehouse: Warehouse) -> None:
    for position in range(1, 5):
        land(warehouse, ALL, [position])
    stale = RawEvents.open(warehouse)
    pack_raw_events(warehouse)
    rows = pa.Table.from_pylist([{"channel": ALL, "position": 5, "entity_name": "Account"}], schema=RAW_EVENTS)
    stale.commit(rows, StreamCheckpoint(ALL, 5, 5, ResumePoint(b"\x05")))
    after = RawEvents.open(warehouse)
    assert after.checkpoint(ALL).resume == ResumePoint(b"\x05")
    assert sorted(row["position"] for row in rows_of(warehouse)) == [1, 2, 3, 4, 5]


def test_a_file_that_cannot_be_read_is_named_and_nothing_is_changed(warehouse: Warehouse) -> None:
    for position in range(1, 4):
        land(warehouse, ALL, [position])
    broken = Path(warehouse.uri(NAME)) / RawEvents.open(warehouse).table.files()[0].path
    kept = broken.read_bytes()
    broken.write_bytes(b"PAR1 this is none")
    with pytest.raises(TableDamaged, match=broken.name):
        pack_raw_events(warehouse)
    broken.write_bytes(kept)
    assert len(rows_of(warehouse)) == 3


def test_a_file_with_fewer_rows_than_the_log_says_is_not_packed(warehouse: Warehouse) -> None:
    for position in range(1, 4):
        land(warehouse, ALL, [position])
    path = Path(warehouse.uri(NAME)) / RawEvents.open(warehouse).table.files()[0].path
    pa.parquet.write_table(pa.parquet.read_table(path, partitioning=None).slice(0, 0), path)
    with pytest.raises(RowsMissing, match="have 2 rows, their log says 3"):
        pack_raw_events(warehouse)


ROW = st.tuples(st.sampled_from("ABCDEFGH"), st.integers(0, 99), st.text(max_size=3) | st.none())


@settings(max_examples=examples(0.4), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.one_of(st.lists(ROW, min_size=1, max_size=9), st.just("pack")), max_size=12),
    st.integers(100_000, 400_000),
)
def test_packing_texts_at_any_time_keeps_every_row_and_true_statistics(
    events: list[list[tuple[str, int, str | None]] | str], full: int
) -> None:
    assert TEXTS is not None
    with tempfile.TemporaryDirectory() as folder:
        warehouse, name, appended = Warehouse(folder), "text_fields/Account", []
        Table.open_or_create(warehouse, name, TEXT_FIELDS, statistics_on=["record_id", "position"])
        for event in events:
            if isinstance(event, str):
                pack(warehouse, name, TEXTS, full)
                continue
            rows = [{"record_id": key, "field": "F", "position": at, "value": text} for key, at, text in event]
            appended += rows
            table = Table.open(warehouse, name)
            assert table is not None
            table.append(pa.Table.from_pylist(rows, schema=TEXT_FIELDS), {}, {})
        pack(warehouse, name, TEXTS, full)
        found = [(row["record_id"], row["position"], row["value"]) for row in rows_of(warehouse, name)]
        assert sorted(found, key=repr) == sorted(
            ((row["record_id"], row["position"], row["value"]) for row in appended), key=repr
        )
        assert_statistics_are_true(warehouse, name)


def test_a_packed_file_is_parted_when_its_oldest_payload_is_a_day_past_its_time(warehouse: Warehouse) -> None:
    """An entity that was never copied; its events of three days were packed before payloads were to be given up."""
    for position in range(1, 73):
        land(warehouse, ALL, [position])
    assert pack_raw_events(warehouse).into == 1
    for hours, events, up_to in ((120, 47, 47), (132, 0, 0), (145, 25, 72)):
        now = BEGUN + timedelta(hours=hours)
        done = drop_payloads(warehouse, 3, int(now.timestamp() * 1000))
        assert [(each.events, each.up_to) for each in done] == ([(events, up_to)] if up_to else [])
    assert all(row["payload"] is None for row in rows_of(warehouse))
