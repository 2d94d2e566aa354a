"""Maintenance of a whole warehouse: which files go and when, and which cuts can be opened afterwards."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from sfcdc_assets import open_cut
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import CutGone
from sfcdc_assets.lake.maintenance.maintain import maintain, thin_out
from sfcdc_assets.lake.maintenance.table_done import TableDone
from sfcdc_assets.lake.maintenance.table_upkeep import Retention
from sfcdc_assets.lake.tables.consistent_cuts import Cut, add_cut, cuts, latest_cut, prune_cuts
from sfcdc_assets.lake.tables.cut_retention import GRACE, CutRetention
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.rolling_audits import RollingAudits
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.lake.maintenance.test_pack import land

pytestmark = pytest.mark.slow

ALL, SALES = "/data/ChangeEvents", "/data/Sales__chn"
STATE = "current_state/Account"
NOW = datetime.now(UTC)
"""When the test begins (`_now`), half an hour on: a cut is reached after its tables were made."""
SCHEMA = pa.schema(
    [("Id", pa.string()), ("number", pa.int64()), ("_is_deleted", pa.bool_()), ("_in_doubt", pa.bool_())]
)


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and tables have the machine's time, and a suite may take an hour from its collection to this file."""
    monkeypatch.setitem(globals(), "NOW", datetime.now(UTC) + timedelta(minutes=30))


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path))


def opened(warehouse: Warehouse, name: str) -> Table:
    table = Table.open(warehouse, name)
    assert table is not None
    return table


def maintained(warehouse: Warehouse, days: int = 7, now: datetime | None = None) -> dict[str, TableDone]:
    return {done.table: done for done in maintain(warehouse, Retention(days), int((now or NOW).timestamp() * 1000))}


def aged(warehouse: Warehouse, days: float) -> None:
    """As if everything had been done so many days earlier."""
    ago_ms = int(days * 86_400_000)

    def older(action: dict[str, Any]) -> dict[str, Any]:
        for kind, name in (("remove", "deletionTimestamp"), ("metaData", "createdTime")):
            if action.get(kind):
                action[kind][name] -= ago_ms
        return action

    for log in warehouse.folder.rglob("_delta_log"):
        for commit in log.glob("*.json"):
            actions = [older(json.loads(line)) for line in commit.read_text().splitlines()]
            commit.write_text("\n".join(map(json.dumps, actions)))
        for checkpoint in log.glob("*.checkpoint.parquet"):
            table = pq.read_table(checkpoint)
            pq.write_table(pa.Table.from_pylist([*map(older, table.to_pylist())], table.schema), checkpoint)
    for path in warehouse.folder.rglob("*"):
        if path.is_file():
            os.utime(path, (path.stat().st_mtime - ago_ms / 1000,) * 2)


def one_row(record_id: str, number: int) -> pa.Table:
    row = {"Id": [record_id], "number": [number], "_is_deleted": [False], "_in_doubt": [False]}
    return pa.table(row, SCHEMA)


def swap(warehouse: Warehouse, number: int, reached: datetime | None, channel: str = ALL) -> None:
    """A batch that replaces the table's one file, and the cut at it."""
    table = Table.open_or_create(warehouse, STATE, SCHEMA)
    before = table.files()
    table.append(one_row("001", number), {}, {})
    added = [file for file in opened(warehouse, STATE).files() if file not in before]
    assert len(added) == 1
    table = opened(warehouse, STATE)
    table.swap_files([], before, {}, {})
    if reached is not None:
        add_cut(warehouse, Cut(channel, number, reached, {STATE: opened(warehouse, STATE).version}), reached)


def numbers(warehouse: Warehouse, channel: str = ALL, at: datetime | None = None) -> list[int]:
    table = open_cut(warehouse.root, channel=channel, at=at)[STATE]
    return pa.table(table.scan(columns=["number"]))["number"].to_pylist()


def test_cuts_past_their_retention_are_forgotten_but_for_the_newest_of_each_channel(warehouse: Warehouse) -> None:
    for position in range(1, 6):
        reached = NOW - timedelta(days=10 - position)
        add_cut(warehouse, Cut(ALL, position, reached, {"a": position}), reached)
    add_cut(warehouse, Cut(SALES, 3, NOW, {"a": 3}), NOW - timedelta(days=90))
    assert prune_cuts(warehouse, CutRetention(7), NOW) == 2
    assert [(cut.channel, cut.position) for cut in cuts(warehouse)] == [(ALL, 5), (ALL, 4), (ALL, 3), (SALES, 3)]
    assert prune_cuts(warehouse, CutRetention(7), NOW) == 0
    assert prune_cuts(warehouse, CutRetention(7), NOW + timedelta(days=9)) == 2
    assert [(cut.channel, cut.position) for cut in cuts(warehouse)] == [(ALL, 5), (SALES, 3)]
    assert add_cut(warehouse, Cut(ALL, 6, NOW, {"a": 6}), NOW)
    assert latest_cut(warehouse, ALL) == Cut(ALL, 6, NOW, {"a": 6})


def test_a_cut_by_time_is_the_newest_that_is_early_enough(warehouse: Warehouse) -> None:
    for position in range(1, 9):
        add_cut(warehouse, Cut(ALL, position, NOW + timedelta(hours=position), {"a": position}), NOW)
    maintained(warehouse)
    for position in range(1, 9):
        found = latest_cut(warehouse, ALL, NOW + timedelta(hours=position, minutes=59))
        assert found is not None
        assert found.position == position
    assert latest_cut(warehouse, ALL, NOW) is None


def test_files_of_killed_tasks_go_after_a_week_and_not_before(warehouse: Warehouse) -> None:
    swap(warehouse, 1, NOW)
    orphan = warehouse.folder / STATE / "part-orphan.parquet"
    pq.write_table(pa.table({"Id": ["x"]}), orphan)
    assert maintained(warehouse)[STATE].vacuumed == 0
    os.utime(orphan, (time.time() - 9 * 86_400,) * 2)
    assert maintained(warehouse)[STATE].vacuumed == 1
    assert not orphan.exists()
    assert numbers(warehouse) == [1]


@pytest.mark.parametrize("days", [3, 21])
def test_a_cut_that_is_kept_can_be_opened_and_files_that_no_cut_needs_are_gone(warehouse: Warehouse, days: int) -> None:
    """A batch, a cut and a night every third day."""
    for number in range(1, 13):
        today = NOW - timedelta(days=3 * (12 - number))
        aged(warehouse, 3)
        swap(warehouse, number, today)
        maintained(warehouse, days, now=today)
    kept = cuts(warehouse)
    assert [cut.position for cut in kept] == list(range(12, 12 - days // 3 - 1, -1))
    for cut in kept:
        assert numbers(warehouse, at=cut.commit_timestamp) == [cut.position]
    assert len(list((warehouse.folder / STATE).glob("*.parquet"))) <= max(8, days + 1) // 3 + 2


def test_a_file_that_was_written_long_ago_stays_for_as_long_as_a_cut_needs_it(warehouse: Warehouse) -> None:
    """A checkpoint forgets after a week that a file was replaced; then its own age is all that vacuum knows of it."""
    swap(warehouse, 1, None)
    aged(warehouse, 15)
    reached = NOW - timedelta(days=20)
    add_cut(warehouse, Cut(ALL, 1, reached, {STATE: opened(warehouse, STATE).version}), reached)
    for number, days in ((2, 10), (3, 10)):
        swap(warehouse, number, reached + timedelta(days=number))
        maintained(warehouse, 21, now=NOW - timedelta(days=30 - 10 * number))
        aged(warehouse, days)
    maintained(warehouse, 21)
    assert numbers(warehouse, at=reached) == [1]


def test_the_only_cut_of_a_channel_stays_open_however_old_it_is(warehouse: Warehouse) -> None:
    swap(warehouse, 1, NOW - timedelta(days=18))
    swap(warehouse, 2, None)
    aged(warehouse, 19)
    assert maintained(warehouse)[STATE].vacuumed == 0
    assert numbers(warehouse) == [1]
    add_cut(warehouse, Cut(ALL, 2, NOW, {STATE: opened(warehouse, STATE).version}), NOW)
    done = maintained(warehouse)
    assert (done["consistent_cuts"].pruned, done[STATE].vacuumed) == (1, 0), "somebody may have it open"
    assert maintained(warehouse, now=NOW + GRACE / 2)[STATE].vacuumed == 0
    assert maintained(warehouse, now=NOW + GRACE)[STATE].vacuumed == 1
    assert numbers(warehouse) == [2]


def test_a_damaged_table_is_named_and_the_others_are_maintained(warehouse: Warehouse) -> None:
    for number in range(4):
        Table.open_or_create(warehouse, "audits", SCHEMA).append(one_row("x", number), {}, {})
        swap(warehouse, number, NOW)
    path = warehouse.folder / "consistent_cuts" / opened(warehouse, "consistent_cuts").files()[0].path
    path.write_bytes(b"nothing")
    done = maintained(warehouse)
    assert path.name in (done["consistent_cuts"].problem or "")
    assert (done["audits"].packed, done["audits"].packed_into) == (4, 1)
    assert path.name in (done[STATE].problem or ""), "which versions cuts need is not known, so none goes"


def test_nothing_is_left_to_do_the_second_time(warehouse: Warehouse) -> None:
    for number in range(1, 6):
        swap(warehouse, number, NOW)
    first = maintained(warehouse)
    assert str(first["consistent_cuts"]).startswith("consistent_cuts: 5 files packed into 1, ")
    versions = {name: opened(warehouse, name).version for name in first}
    second = maintained(warehouse)
    assert not any(done.is_changed or done.left or done.problem for done in second.values())
    assert {name: opened(warehouse, name).version for name in second} == versions
    assert str(second[STATE]).startswith(f"{STATE}: nothing to do, ")


def test_a_rebuilt_table_makes_its_cuts_gone_all_the_same(warehouse: Warehouse) -> None:
    swap(warehouse, 1, NOW - timedelta(hours=2))
    maintained(warehouse)
    with pytest.raises(CutGone):
        numbers(warehouse)


def test_opening_reads_the_checkpoint(warehouse: Warehouse) -> None:
    for number in range(1, 4):
        swap(warehouse, number, NOW)
    maintained(warehouse)
    log = warehouse.folder / STATE / "_delta_log"
    version = DeltaTable(warehouse.uri(STATE)).version()
    assert json.loads((log / "_last_checkpoint").read_text())["version"] == version


def test_a_short_log_forgets_nothing_that_is_needed(warehouse: Warehouse) -> None:
    """Commits of two channels; the table is packed already when the log is cleaned."""
    for position in range(1, 4):
        land(warehouse, ALL, [position])
        land(warehouse, SALES, [position])
    before = RawEvents.open(warehouse)
    checkpoints = [before.checkpoint(of) for of in (ALL, SALES)]
    maintained(warehouse)
    land(warehouse, ALL, [4])
    aged(warehouse, 3)
    retention = Retention(7, log_hours=48)
    (done,) = maintain(warehouse, retention, int(NOW.timestamp() * 1000))
    assert done.problem is None
    log = warehouse.folder / "raw_events" / "_delta_log"
    assert len(list(log.glob("*.json"))) <= 4
    after = RawEvents.open(warehouse)
    assert after.checkpoint(SALES) == checkpoints[1]
    assert after.checkpoint(ALL).position == 4
    assert after.checkpoint(ALL).begun == "EARLIEST"
    version = after.table.version
    list(maintain(warehouse, retention, int(NOW.timestamp() * 1000)))
    assert opened(warehouse, "raw_events").version == version


def test_the_log_of_a_cut_table_is_kept_for_as_long_as_the_cut(warehouse: Warehouse) -> None:
    for number in range(1, 9):
        swap(warehouse, number, NOW - timedelta(days=8 - number))
        list(
            maintain(warehouse, Retention(3, log_hours=24), int((NOW - timedelta(days=8 - number)).timestamp() * 1000))
        )
        aged(warehouse, 1)
    for cut in cuts(warehouse):
        assert numbers(warehouse, at=cut.commit_timestamp) == [cut.position]


def older(warehouse: Warehouse, days: float) -> None:
    """As `aged`, and each file of the logs is so much older than it was, too."""
    written = {path: path.stat().st_mtime for path in warehouse.folder.rglob("*") if path.is_file()}
    aged(warehouse, days)
    for path, mtime in written.items():
        os.utime(path, (mtime - days * 86_400,) * 2)


def test_the_newest_cut_opens_however_long_the_tables_go_on_without_another_one(warehouse: Warehouse) -> None:
    """A batch a day; since the third day no cut can be noted."""
    days = 25
    for number in range(1, days + 1):
        today = NOW - timedelta(days=days - number)
        older(warehouse, 1)
        swap(warehouse, number, today if number <= 3 else None)
        done = maintained(warehouse, 7, now=today)
        assert not [each.failure for each in done.values() if each.failure]
    assert numbers(warehouse) == [3]
    assert [cut.position for cut in cuts(warehouse)] == [3]
    log = [path.name for path in (warehouse.folder / STATE / "_delta_log").glob("0*")]
    assert len(log) <= 8, "of all days in between nothing is left"
    assert len(list((warehouse.folder / STATE).glob("*.parquet"))) <= 3


def test_another_clients_cleanup_of_the_log_is_reported_and_the_newest_version_is_sound(warehouse: Warehouse) -> None:
    for number in range(1, 4):
        swap(warehouse, number, NOW - timedelta(hours=4 - number))
    maintained(warehouse)
    older(warehouse, 2)
    swap(warehouse, 4, None)
    log = warehouse.folder / STATE / "_delta_log"
    newest = DeltaTable(warehouse.uri(STATE)).version()
    DeltaTable(warehouse.uri(STATE)).create_checkpoint()
    for path in log.glob("0*"):
        if int(path.name[:20]) < newest:
            path.unlink()
    done = maintained(warehouse, now=NOW + timedelta(days=2))[STATE]
    assert done.lost == 3
    assert done.problem is None
    assert "another client cleaned up the log, with 3 versions of kept cuts" in str(done)
    with pytest.raises(CutGone):
        numbers(warehouse)
    assert opened(warehouse, STATE).count() == 1


def test_cuts_thin_out_and_what_they_do_not_need_goes_with_the_next_hour(warehouse: Warehouse) -> None:
    """A batch every ten seconds of two minutes, three hours ago."""
    began = NOW - timedelta(hours=3)
    for number in range(12):
        swap(warehouse, number, began.replace(second=0) + timedelta(seconds=10 * number))
    older(warehouse, 3 / 24)
    retention = Retention(7, minute_cut_hours=24)

    def hourly(hours: int) -> dict[str, TableDone]:
        now_ms = int((NOW + timedelta(hours=hours)).timestamp() * 1000)
        return {done.table: done for done in thin_out(warehouse, retention, now_ms)}

    first = hourly(0)
    assert first["consistent_cuts"].pruned == 10
    assert [cut.position for cut in cuts(warehouse)] == [11, 5]
    assert first[STATE].vacuumed == 0
    assert len(list((warehouse.folder / STATE).glob("*.parquet"))) == 12
    second = hourly(1)
    assert second[STATE].vacuumed == 10
    for cut in cuts(warehouse):
        assert numbers(warehouse, at=cut.commit_timestamp) == [cut.position]
    log = list((warehouse.folder / STATE / "_delta_log").glob("0*.checkpoint.parquet"))
    assert len(log) == 3, "those of the cuts, and the newest"


def test_what_packing_replaced_where_streams_land_goes_after_an_hour(warehouse: Warehouse) -> None:
    """Beside a busy entity: `raw_events` gets a file with each tick, and none of them stays for a week."""
    for number in range(1, 9):
        land(warehouse, ALL, [number])
        swap(warehouse, number, NOW - timedelta(minutes=9 - number))

    def often(minutes: int) -> TableDone:
        now_ms = int((NOW + timedelta(minutes=minutes)).timestamp() * 1000)
        return {done.table: done for done in thin_out(warehouse, Retention(7), now_ms)}["raw_events"]

    first = often(0)
    assert (first.packed, first.packed_into, first.vacuumed) == (8, 1, 0)
    assert often(10).vacuumed == 0, "somebody may read them"
    older(warehouse, 2 / 24)
    assert often(120).vacuumed == 8
    assert len(RawEvents.open(warehouse).table.files()) == 1
    assert len(list((warehouse.folder / "raw_events").glob("entity_name=*/*.parquet"))) == 1


def test_a_quiet_table_is_not_looked_at_every_hour(warehouse: Warehouse) -> None:
    swap(warehouse, 1, NOW)
    add_cut(warehouse, Cut(ALL, 2, NOW, {STATE: opened(warehouse, STATE).version}), NOW)
    assert [done.table for done in thin_out(warehouse, Retention(7), int(NOW.timestamp() * 1000))] == [
        "consistent_cuts"
    ]


def test_the_table_that_each_run_reads_whole_and_appends_to_is_packed_by_night_and_every_ten_minutes(
    warehouse: Warehouse,
) -> None:
    """By the evening of a day with a run a minute each of them opened three thousand files."""
    swap(warehouse, 1, NOW)
    now_ms = int(NOW.timestamp() * 1000)
    for frequent in (True, False):
        for second in range(8):
            RollingAudits(warehouse).count_requests(1, now_ms + 1000 * second)
        done = thin_out(warehouse, Retention(7), now_ms) if frequent else maintain(warehouse, Retention(7), now_ms)
        assert {each.table: each.packed_into for each in done}["rolling_audits"] == 1
        assert len(opened(warehouse, "rolling_audits").files()) == 1
    assert RollingAudits(warehouse).requests_since(now_ms - 1) == 16
