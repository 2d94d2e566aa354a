"""What is remembered of an entity's snapshots: with the page it belongs to, and whatever becomes of the log."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sfcdc_assets.change_events.columns import ID_COLUMN
from sfcdc_assets.entities.membership import note_suspect_entity
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.maintenance.maintain import maintain
from sfcdc_assets.lake.maintenance.table_upkeep import Retention
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.snapshots import Snapshots, name_of
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.snapshot.pages import page_schema
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.snapshot.soql import IdWindow
from sfcdc_assets.timeline.read_rows import read_schema
from sfcdc_assets.timeline.suspect import Reason
from sfcdc_assets_tests.pipeline.reconciliation.outside_client import clean_up_logs, compact

CHANNEL = "/data/ChangeEvents"
BEGUN = SnapshotProgress(1, "Account", CHANNEL, 5, "750", None, 0, 0, False, 1_000, ("Id",))


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path))


def opened(warehouse: Warehouse) -> Snapshots:
    return Snapshots.open_or_create(warehouse, "Account", [ID_COLUMN])


def page(*ids: str) -> pa.Table:
    return pa.Table.from_pylist([{"Id": each, "_is_deleted": False} for each in ids], schema=page_schema([ID_COLUMN]))


def read_back(*ids: str, position: int) -> pa.Table:
    rows = [{"Id": each, "_is_deleted": False, "_position": position} for each in ids]
    return pa.Table.from_pylist(rows, schema=read_schema([ID_COLUMN]))


def after_page(progress: SnapshotProgress, locator: str | None) -> SnapshotProgress:
    done = progress.pages_done + 1
    return replace(progress, pages_done=done, next_locator=locator, rows_done=2 * done, complete=locator is None)


def take(warehouse: Warehouse, number: int, position: int, *, believed: bool = True, channel: str = CHANNEL) -> None:
    """A snapshot of two records, each on a page."""
    progress = replace(BEGUN, snapshot_number=number, position=position, channel=channel)
    opened(warehouse).begin(progress)
    progress = after_page(progress, "more")
    opened(warehouse).add_page(page("001"), progress, 2_000)
    opened(warehouse).add_page(page("002"), after_page(progress, None), 3_000, believed=believed)


def test_a_snapshot_goes_on_after_its_log_was_cleaned_up_with_the_page_it_was_at(warehouse: Warehouse) -> None:
    opened(warehouse).begin(BEGUN)
    clean_up_logs(warehouse.folder, time.time())
    assert opened(warehouse).progress() == BEGUN
    first = after_page(BEGUN, "more")
    opened(warehouse).add_page(page("001", "002"), first, 2_000)
    opened(warehouse).add_read_back(read_back("009", position=6), 2_500)
    clean_up_logs(warehouse.folder, time.time())
    found = opened(warehouse)
    assert (found.progress(), found.begun_on(CHANNEL), found.complete()) == (first, True, None)
    found.add_page(page("003"), after_page(first, None), 3_000)
    complete = opened(warehouse).complete()
    assert complete is not None
    assert (complete.number, complete.position, complete.rows, complete.after_read_back) == (1, 5, 3, 1)
    assert opened(warehouse).has_watermark_on(CHANNEL)
    assert not opened(warehouse).begun_on(CHANNEL)


def test_whether_a_channel_copies_an_entity_that_was_copied_whole_is_known_from_the_log_alone(
    warehouse: Warehouse,
) -> None:
    """It is asked of every entity by every channel whenever events land: a read of the table for each would be the cost
    of entities that nothing has changed in."""
    take(warehouse, 1, 5)
    for file in (warehouse.folder / name_of("Account")).glob("_snapshot=*/*.parquet"):
        file.unlink()
    assert not opened(warehouse).begun_on(CHANNEL)
    assert not opened(warehouse).begun_on("/poll/objects")


def test_a_number_that_another_process_has_begun_meanwhile_is_not_begun_again(warehouse: Warehouse) -> None:
    """Two processes found no table; whoever opens it after the other has read everything must not add a second copy of
    each record to what counts already."""
    take(warehouse, 1, 5)
    with pytest.raises(ConcurrentCommit):
        opened(warehouse).begin(replace(BEGUN, job_id="751"))
    found = opened(warehouse).complete()
    assert found is not None
    assert (found.number, found.rows) == (1, 2)
    opened(warehouse).begin(replace(BEGUN, snapshot_number=2))


def test_a_page_and_how_far_the_reading_has_come_are_one_commit(warehouse: Warehouse) -> None:
    opened(warehouse).begin(BEGUN)
    version = opened(warehouse).table.version
    opened(warehouse).add_page(page("001", "002"), after_page(BEGUN, "more"), 2_000)
    assert opened(warehouse).table.version == version + 1
    assert opened(warehouse).ids_of(1, IdWindow())["Id"].to_pylist() == ["001", "002"]


def test_a_read_back_while_a_page_is_read_does_not_keep_the_page_out_nor_lose_its_number(warehouse: Warehouse) -> None:
    opened(warehouse).begin(BEGUN)
    reading = opened(warehouse)
    opened(warehouse).add_read_back(read_back("009", position=6), 2_500)
    reading.add_page(page("001", "002"), after_page(BEGUN, "more"), 2_000)
    assert (opened(warehouse).last_read_back(), opened(warehouse).read_at()) == (1, 2_500)
    second = opened(warehouse)
    reading.add_page(page("003"), after_page(after_page(BEGUN, "more"), "and more"), 3_000)
    with pytest.raises(ConcurrentCommit):
        second.add_page(page("003"), after_page(after_page(BEGUN, "more"), "and more"), 3_000)


def test_entries_are_no_rows_of_a_snapshot_or_a_read_back(warehouse: Warehouse) -> None:
    take(warehouse, 1, 5)
    found = opened(warehouse)
    complete = found.complete()
    assert complete is not None
    assert (complete.rows, found.sample(9).num_rows, found.read_backs(0), found.read_back_files()) == (2, 2, (), ())
    assert found.highest_position() == 5


def test_a_reading_is_found_in_its_own_file_however_many_there_are_and_in_the_one_that_they_were_packed_into(
    warehouse: Warehouse,
) -> None:
    take(warehouse, 1, 5)
    for number in range(1, 8):
        opened(warehouse).add_read_back(read_back(f"00{number}", position=5 + number), 2_500)
    files = opened(warehouse).read_back_files([6, 7])
    assert len(files) == 2
    assert len(opened(warehouse).read_back_files()) == 7
    assert opened(warehouse).read_back_files([]) == ()
    found = opened(warehouse).table.read_files([file.path for file in files], ["Id", "_refetch"])
    assert sorted(pl.DataFrame(found).rows()) == [("006", 6), ("007", 7)]
    DeltaTable(warehouse.uri(opened(warehouse).table.name)).optimize.compact()
    assert len(opened(warehouse).read_back_files([6])) == 1


def test_each_complete_snapshot_is_known_and_none_that_was_given_up(warehouse: Warehouse) -> None:
    take(warehouse, 1, 5)
    opened(warehouse).add_read_back(read_back("001", position=6), 2_500)
    opened(warehouse).begin(replace(BEGUN, snapshot_number=2, position=7))
    take(warehouse, 3, 9)
    compact(DeltaTable(warehouse.uri(name_of("Account"))))
    for _ in maintain(warehouse, Retention(7), int(time.time() * 1000)):
        pass
    clean_up_logs(warehouse.folder, time.time())
    found = [(each.number, each.position, each.after_read_back) for each in opened(warehouse).all_complete()]
    assert found == [(1, 5, 0), (3, 9, 1)]
    take(warehouse, 4, 40, channel="/data/Other")
    assert [each.number for each in opened(warehouse).all_complete()] == [4]
    assert opened(warehouse).has_watermark_on("/data/Other")
    assert not opened(warehouse).has_watermark_on(CHANNEL)


def test_one_that_was_not_believed_can_be_accepted_after_a_cleanup(warehouse: Warehouse) -> None:
    take(warehouse, 1, 5)
    take(warehouse, 2, 9, believed=False)
    opened(warehouse).add_read_back(read_back("001", position=12), 2_500)
    clean_up_logs(warehouse.folder, time.time())
    assert opened(warehouse).refused() == 2
    assert [each.number for each in opened(warehouse).all_complete()] == [1]
    accepted = opened(warehouse).accept(CHANNEL, 4_000)
    assert accepted is not None
    assert (accepted.number, accepted.position, accepted.after_read_back) == (2, 9, 0)
    assert opened(warehouse).refused() is None
    assert [each.number for each in opened(warehouse).all_complete()] == [1, 2]


@pytest.mark.parametrize("reads", [(), (10,), (10, 8)], ids=["a snapshot", "a read-back after it", "two"])
def test_an_entity_becomes_suspect_after_all_that_was_read_of_it(warehouse: Warehouse, reads: tuple[int, ...]) -> None:
    """A read at or after the entry answers it: to a rebuild, one from before it would look like one."""
    take(warehouse, 1, 5)
    for position in reads:
        opened(warehouse).add_read_back(read_back("001", position=position), 4_000)
    note_suspect_entity(warehouse, "Account", CHANNEL, Reason.OFF_CHANNEL, "it is off", 5_000)
    assert Ledger.open_or_create(warehouse, "Account").holding_positions(CHANNEL) == [max([5, *reads]) + 1]
