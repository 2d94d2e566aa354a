"""`raw_events`: events, position and replay id are one commit, and only one writer of a channel wins."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import polars as pl
import pyarrow as pa
import pytest

from sfcdc_assets.change_events.raw_event_rows import RAW_EVENTS
from sfcdc_assets.lake.errors import ConcurrentCommit, TableNameUnusable, WarehouseNotWritable, WarehousePathUnusable
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.resume import ResumePoint

CHANNEL = "/data/ChangeEvents"


def events(*positions, channel=CHANNEL, entity="Account", received=datetime(2026, 1, 1, tzinfo=UTC)):
    rows = [
        {
            "channel": channel,
            "position": position,
            "replay_id": bytes([position]),
            "event_id": f"event-{position}",
            "payload": b"payload of %d" % position,
            "entity_name": entity,
            "record_ids": [f"001{position}"],
            "received_at": received,
            "transaction_key": "t",
        }
        for position in positions
    ]
    return pa.Table.from_pylist(rows, schema=RAW_EVENTS)


@pytest.fixture
def warehouse(tmp_path):
    return Warehouse(str(tmp_path))


def landed_to(position, replay_id, channel=CHANNEL):
    return StreamCheckpoint(channel, position, position, ResumePoint(replay_id))


def last_commit(warehouse):
    log = sorted((warehouse.folder / "raw_events" / "_delta_log").glob("*.json"))
    return [json.loads(line) for line in log[-1].read_text().splitlines()]


@pytest.mark.parametrize("predicate", [None, "position > 1", "position > 9"])
@pytest.mark.parametrize("columns", [None, ["entity_name", "record_ids", "received_at", "payload"]])
def test_a_frame_is_what_a_scan_is(warehouse, columns, predicate):
    table = RawEvents.open(warehouse).table
    wanted = pl.DataFrame(table.scan(columns, predicate))
    assert wanted.is_empty()
    assert table.frame(columns, predicate).equals(wanted)
    RawEvents.open(warehouse).commit(events(1, 2), landed_to(2, b"\x02"))
    RawEvents.open(warehouse).commit(events(3, entity="Contact"), landed_to(3, b"\x03"))
    table = RawEvents.open(warehouse).table
    frame, wanted = table.frame(columns, predicate), pl.DataFrame(table.scan(columns, predicate))
    assert frame.schema == wanted.schema
    assert frame.sort("record_ids").equals(wanted.sort("record_ids"))
    assert frame.is_empty() == (predicate == "position > 9")


def test_events_position_and_replay_id_are_one_commit(warehouse):
    checkpoint = StreamCheckpoint(CHANNEL, 2, 1, ResumePoint(b"\x00\x02", 7), "t", "LATEST", 5)
    RawEvents.open(warehouse).commit(events(1, 2), checkpoint)
    actions = last_commit(warehouse)
    transactions = {a["txn"]["appId"]: a["txn"]["version"] for a in actions if "txn" in a}
    landed_at = transactions.pop(f"{CHANNEL}#landed_at")
    assert transactions == {
        CHANNEL: 2,
        f"{CHANNEL}#complete": 1,
        f"{CHANNEL}#begun": 2,
        f"{CHANNEL}#begun_at": 5,
        f"{CHANNEL}#known_at": 7,
        f"{CHANNEL}#open_from": 0,
        f"{CHANNEL}#transport": 0,
        f"{CHANNEL}#replay_id": 2,
        f"{CHANNEL}#replay_id/1": 2,
        f"{CHANNEL}#transaction_key": 1,
        f"{CHANNEL}#transaction_key/1": ord("t"),
    }
    assert sum(json.loads(a["add"]["stats"])["numRecords"] for a in actions if "add" in a) == 2
    assert RawEvents.open(warehouse).checkpoint(CHANNEL) == checkpoint
    assert RawEvents.open(warehouse).landed_at_ms(CHANNEL) == landed_at


def test_a_channel_never_read_has_no_checkpoint(warehouse):
    assert RawEvents.open(warehouse).checkpoint(CHANNEL) == StreamCheckpoint(CHANNEL)


def test_two_channels_keep_checkpoints_of_their_own(warehouse):
    other = "/data/LeadChangeEvent"
    RawEvents.open(warehouse).commit(events(1), StreamCheckpoint(CHANNEL, 1, 1, ResumePoint(b"a")))
    for position in range(1, 12):
        RawEvents.open(warehouse).commit(
            events(position, channel=other, entity="Lead"),
            landed_to(position, b"b%d" % position, other),
        )
    assert RawEvents.open(warehouse).checkpoint(CHANNEL).resume.replay_id == b"a"
    assert RawEvents.open(warehouse).checkpoint(other).resume.replay_id == b"b11"


def test_of_two_writers_from_one_snapshot_the_second_is_refused_and_leaves_nothing(warehouse):
    RawEvents.open(warehouse).commit(events(1), StreamCheckpoint(CHANNEL, 1, 1, ResumePoint(b"a")))
    first, second = RawEvents.open(warehouse), RawEvents.open(warehouse)
    first.commit(events(2), StreamCheckpoint(CHANNEL, 2, 2, ResumePoint(b"b")))
    with pytest.raises(ConcurrentCommit):
        second.commit(events(2, 3), StreamCheckpoint(CHANNEL, 3, 3, ResumePoint(b"c")))
    assert RawEvents.open(warehouse).checkpoint(CHANNEL).position == 2
    assert RawEvents.open(warehouse).table.count() == 2


def test_a_writer_of_another_channel_is_not_refused(warehouse):
    RawEvents.open(warehouse)
    first, second = RawEvents.open(warehouse), RawEvents.open(warehouse)
    first.commit(events(1), StreamCheckpoint(CHANNEL, 1, 1, ResumePoint(b"a")))
    second.commit(events(1, channel="/data/X"), StreamCheckpoint("/data/X", 1, 1, ResumePoint(b"x")))
    assert RawEvents.open(warehouse).checkpoint("/data/X").position == 1


def test_a_resume_point_that_moved_without_events_is_kept(warehouse):
    RawEvents.open(warehouse).commit(events(1), StreamCheckpoint(CHANNEL, 1, 1, ResumePoint(b"a"), "t"))
    RawEvents.open(warehouse).commit(
        RAW_EVENTS.empty_table(), StreamCheckpoint(CHANNEL, 1, 1, ResumePoint(b"later"), "t")
    )
    assert RawEvents.open(warehouse).checkpoint(CHANNEL) == StreamCheckpoint(CHANNEL, 1, 1, ResumePoint(b"later"), "t")


def test_only_files_that_may_hold_a_range_are_named(warehouse):
    for low in (1, 11, 21):
        RawEvents.open(warehouse).commit(events(*range(low, low + 10)), landed_to(low + 9, b"a"))
    table = RawEvents.open(warehouse)
    assert len(table.files("Account", CHANNEL, 10, 20)) == 1
    assert len(table.files("Account", CHANNEL, 9, 21)) == 3
    assert table.files("Contact", CHANNEL, 0, 30) == ()
    assert table.last_positions(CHANNEL) == {"Account": 30}


def test_the_first_position_received_after_a_time_is_found(warehouse):
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    RawEvents.open(warehouse).commit(events(1, 2, received=early), StreamCheckpoint(CHANNEL, 2, 2, ResumePoint(b"a")))
    RawEvents.open(warehouse).commit(events(3, 4, received=late), StreamCheckpoint(CHANNEL, 4, 4, ResumePoint(b"b")))
    table = RawEvents.open(warehouse)
    assert table.first_position_received_after(CHANNEL, int(early.timestamp() * 1000)) == 3
    assert table.first_position_received_after(CHANNEL, int(late.timestamp() * 1000)) is None


def test_payloads_are_given_up_in_one_commit_that_writes_only_their_files_and_keeps_all_else(warehouse):
    for low in (1, 11, 21):
        RawEvents.open(warehouse).commit(
            events(*range(low, low + 10), entity="O'Neil"),
            landed_to(low + 9, b"a%d" % low),
        )
        RawEvents.open(warehouse).commit(events(low), landed_to(low + 9, b"a%d" % low))
    before = RawEvents.open(warehouse)
    landed_at = before.landed_at_ms(CHANNEL)
    rows = {row["position"]: row for row in before.table.scan(predicate="entity_name = 'O''Neil'").to_pylist()}
    assert [file.statistics["min.position"] for file in before.kept_payloads()["O'Neil", CHANNEL]] == [1, 11, 21]

    assert before.drop_payloads("O'Neil", CHANNEL, 20) == 20

    after = RawEvents.open(warehouse)
    assert {action for line in last_commit(warehouse) for action in line} == {"commitInfo", "txn", "add", "remove"}
    paths = [{file.path for file in before_or_after.table.files()} for before_or_after in (before, after)]
    assert before.table.version == after.table.version, "the handle goes on with its own commit"
    assert paths[0] == paths[1]
    assert len(after.table.files()) <= 5
    (kept,) = after.kept_payloads()["O'Neil", CHANNEL]
    assert kept.statistics["min.position"] == 21
    assert (after.payloads_dropped("O'Neil", CHANNEL), after.payloads_dropped("Account", CHANNEL)) == (20, 0)
    for row in after.table.scan(predicate="entity_name = 'O''Neil'").to_pylist():
        position = row["position"]
        assert row == {**rows[position], "payload": None if position <= 20 else rows[position]["payload"]}
    assert after.checkpoint(CHANNEL) == StreamCheckpoint(CHANNEL, 30, 30, ResumePoint(b"a21"))
    assert len(after.files("O'Neil", CHANNEL, 20, 30)) == 1
    assert after.last_positions(CHANNEL) == {"O'Neil": 30, "Account": 21}
    assert after.landed_at_ms(CHANNEL) == landed_at


def test_whoever_opened_the_table_before_payloads_went_is_refused_and_nothing_of_it_is_lost(warehouse):
    RawEvents.open(warehouse).commit(events(1, 2), StreamCheckpoint(CHANNEL, 2, 2, ResumePoint(b"a")))
    first, second, landing = (RawEvents.open(warehouse) for _ in range(3))
    first.drop_payloads("Account", CHANNEL, 2)
    with pytest.raises(ConcurrentCommit):
        second.drop_payloads("Account", CHANNEL, 1)
    with pytest.raises(ConcurrentCommit):
        landing.commit(events(3), StreamCheckpoint(CHANNEL, 3, 3, ResumePoint(b"b")))
    later = RawEvents.open(warehouse)
    RawEvents.open(warehouse).commit(events(3), StreamCheckpoint(CHANNEL, 3, 3, ResumePoint(b"b")))
    assert later.drop_payloads("Account", CHANNEL, 3) == 0, "of the snapshot it was opened at"
    rows = RawEvents.open(warehouse).table.scan(["position", "payload"]).sort_by("position").to_pylist()
    assert [row["payload"] for row in rows] == [None, None, b"payload of 3"]


def test_a_root_that_cannot_be_written_is_reported_with_its_setting(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WarehouseNotWritable, match="SFCDC_WAREHOUSE"):
        Warehouse(str(tmp_path / "file" / "below")).check_writable()


def assert_refused(warehouse: Warehouse) -> None:
    for attempt in (
        warehouse.check_writable,
        lambda: RawEvents.open(warehouse),
        lambda: warehouse.entities("snapshot"),
    ):
        with pytest.raises(WarehousePathUnusable, match="SFCDC_WAREHOUSE"):
            attempt()


@pytest.mark.parametrize("name", ["a%20b", "[old]", "a^b", "a|b", "a\\b", "a\tb", "a%2Fb"])
def test_a_root_that_the_delta_library_cannot_open_is_refused_before_anything_is_written(tmp_path, name):
    assert_refused(Warehouse(str(tmp_path / name)))
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    "name", ["a%20b", "[old]", "a^b", "a|b", "a\\b", "a\tb", "a?b", "a#b", "a//b", "/a", "a/../b", "a/."]
)
def test_a_store_that_the_delta_library_cannot_open_is_refused_before_it_is_asked_anything(name):
    assert_refused(Warehouse(f"s3://bucket/{name}"))


@pytest.mark.parametrize(
    "root",
    ["s3://bucket", "s3://bucket/", "s3://bucket/a b/ünï/", "s3://bucket/100%/.hidden/a..b", "abfss://c@a.dfs.x.net/w"],
)
def test_a_store_of_other_characters_is_taken_as_it_is(root):
    assert Warehouse(root).uri("raw_events") == f"{root.rstrip('/')}/raw_events"


@pytest.mark.parametrize(
    "name", ["../Evil", "current_state/../../Evil", "/etc/x", "a//b", "current_state/Konto\u00e4", "a\nb", "."]
)
def test_a_table_lies_below_the_root_or_nowhere(tmp_path, name):
    for way in (Warehouse(str(tmp_path)).uri, Warehouse("s3://bucket/prefix").uri, Warehouse(str(tmp_path)).filesystem):
        with pytest.raises(TableNameUnusable):
            way(name)


@pytest.mark.parametrize("name", ["a b", "a'b", "100%", "a%zz", "a#b?c", "ünï 日本", "a+b*c"])
def test_a_root_of_other_characters_is_found_again(tmp_path, name):
    warehouse = Warehouse(str(tmp_path / name))
    RawEvents.open(warehouse).commit(events(1), StreamCheckpoint(CHANNEL, 1, 1, ResumePoint(b"a")))
    assert RawEvents.open(warehouse).table.scan(["position"]).num_rows == 1


def test_the_newest_commit_time_up_to_a_position_needs_no_file_that_ends_there(warehouse):
    def at(day, *positions, entity):
        rows = events(*positions, entity=entity)
        times = pa.array(
            [datetime(2026, 1, day, hour=p % 24, tzinfo=UTC) for p in positions], pa.timestamp("us", "UTC")
        )
        return rows.set_column(rows.schema.get_field_index("commit_timestamp"), "commit_timestamp", times)

    RawEvents.open(warehouse).commit(at(1, 1, 2, entity="Account"), StreamCheckpoint(CHANNEL, 2, 2))
    RawEvents.open(warehouse).commit(at(2, 3, 4, entity="Contact"), StreamCheckpoint(CHANNEL, 4, 4))
    table = RawEvents.open(warehouse)
    for position, day in ((1, 1), (2, 1), (3, 2), (4, 2)):
        assert table.last_commit_timestamp(CHANNEL, position) == datetime(2026, 1, day, hour=position, tzinfo=UTC)
    assert table.last_commit_timestamp(CHANNEL, 0) is None
    assert table.last_commit_timestamp("/data/Other", 4) is None
    for file in (warehouse.folder / "raw_events").rglob("*.parquet"):
        file.unlink()
    assert table.last_commit_timestamp(CHANNEL, 4) == datetime(2026, 1, 2, hour=4, tzinfo=UTC)
    assert table.last_commit_timestamp(CHANNEL, 3) == datetime(2026, 1, 1, hour=2, tzinfo=UTC)
