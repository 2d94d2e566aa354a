"""What an attempt wrote and did not commit is deleted, by itself or by the next one; a full disk gets no fuller."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sfcdc_assets.apply import key_range_task
from sfcdc_assets.key_ranges.data_file import WrittenKeyRange, write_table
from sfcdc_assets.lake.delta.attempt_files import MARKER, AttemptFiles
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.delta.table_commits import TableCommits
from sfcdc_assets.lake.maintenance.maintain import maintain
from sfcdc_assets.lake.maintenance.table_done import summary_of
from sfcdc_assets.lake.maintenance.table_upkeep import Retention
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import ENTITY, STATE, QuietPipeline, quiet
from sfcdc_assets_tests.process_death import Died

pytestmark = pytest.mark.slow

LAYERS = ("current_state", "history", "text_fields")
DAY_MS = 86_400_000


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietPipeline]:
    with quiet(tmp_path, monkeypatch, records=20) as pipeline:
        pipeline.sync()
        for record_id in pipeline.ids():
            pipeline.update(record_id, Name="changed", Description="a long text " * 200)
        yield pipeline


def unnamed(warehouse: Warehouse) -> set[str]:
    """Files of the layers that no commit names."""
    found = set()
    for layer in LAYERS:
        table = Table.open(warehouse, f"{layer}/{ENTITY}")
        assert table is not None
        found |= {f"{layer}/{ENTITY}/{path}" for path in table.unnamed()}
    return found


def on_disk(warehouse: Warehouse) -> set[Path]:
    return {path for layer in LAYERS for path in (warehouse.folder / layer).rglob("*.parquet")}


def test_a_task_that_cannot_write_its_last_file_leaves_none(
    pipeline: QuietPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = on_disk(pipeline.warehouse)
    write_files = key_range_task.write_files

    def no_room_for_texts(rows: pa.Table, *others: Any) -> list[WrittenKeyRange]:
        if "sha256" in rows.schema.names:
            raise OSError(28, "No space left on device")
        return write_files(rows, *others)

    with monkeypatch.context() as patch:
        patch.setattr(key_range_task, "write_files", no_room_for_texts)
        for _ in range(3):
            with pytest.raises(Exception, match="no space left on device"):
                pipeline.catch_up()
            assert on_disk(pipeline.warehouse) == before
    pipeline.catch_up()
    pipeline.assert_equal()
    assert unnamed(pipeline.warehouse) == set()


@pytest.mark.parametrize("layer", LAYERS)
def test_a_batch_that_is_refused_at_any_of_its_commits_leaves_no_file_that_no_commit_names(
    pipeline: QuietPipeline, monkeypatch: pytest.MonkeyPatch, layer: str
) -> None:
    swap = TableCommits.swap_files

    def refused(table: TableCommits, *arguments: object, **options: object) -> None:
        if table.name == f"{layer}/{ENTITY}":
            raise OSError(28, "No space left on device")
        swap(table, *arguments, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(TableCommits, "swap_files", refused)
        with pytest.raises(Exception, match="No space left on device"):
            pipeline.catch_up()
    assert unnamed(pipeline.warehouse) == set()
    pipeline.catch_up()
    pipeline.assert_equal()


def test_what_a_killed_attempt_left_is_deleted_by_the_next_one(
    pipeline: QuietPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object, **__: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(CurrentState, "commit", die)
        with pytest.raises(Died):
            pipeline.catch_up()
    assert unnamed(pipeline.warehouse)
    pipeline.catch_up()
    pipeline.assert_equal()
    assert unnamed(pipeline.warehouse) == set()


def test_files_of_an_attempt_at_work_and_of_others_are_nobodys_leftovers(pipeline: QuietPipeline) -> None:
    state = CurrentState.open(pipeline.warehouse, ENTITY)
    assert state is not None
    store, rows = pipeline.warehouse.filesystem(STATE), state.table.scan()
    first = AttemptFiles.begin(pipeline.warehouse, ENTITY)
    at_work = write_table(rows, store, first.token)
    of_another = write_table(rows, store)
    second = AttemptFiles.begin(pipeline.warehouse, ENTITY)
    given_up = write_table(rows, store, second.token)
    second.failed(RuntimeError(), is_written=True)
    assert unnamed(pipeline.warehouse) == {f"{STATE}/{each.path}" for each in (at_work, of_another)}
    assert given_up.path not in os.listdir(pipeline.warehouse.folder / STATE)
    del first  # its process is gone, and said nothing
    AttemptFiles.begin(pipeline.warehouse, ENTITY).ended()
    assert unnamed(pipeline.warehouse) == {f"{STATE}/{of_another.path}"}


def test_other_clients_see_nothing_of_the_marker(pipeline: QuietPipeline) -> None:
    pipeline.catch_up()
    assert (pipeline.warehouse.folder / STATE / MARKER).exists()
    delta = DeltaTable(pipeline.warehouse.uri(STATE))
    assert delta.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=True, full=True) == [
        *delta.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=True)
    ]


# -- a disk that is full


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietPipeline]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(folder)]
    if sys.platform != "linux" or os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("a file system cannot be mounted here")
    try:
        with quiet(tmp_path, monkeypatch, records=60, warehouse=str(folder / "warehouse")) as pipeline:
            pipeline.sync()
            yield pipeline
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def fill(pipeline: QuietPipeline, but: int) -> Path:
    filler = pipeline.warehouse.folder.parent / "filler"
    filler.write_bytes(bytes(max(0, shutil.disk_usage(filler.parent).free - but)))
    return filler


def test_retries_on_a_full_disk_take_no_more_of_it(small_disk: QuietPipeline) -> None:
    dice = Random(5)
    with small_disk.org.transaction() as work:
        for record_id in small_disk.ids():
            work.update(ENTITY, record_id, {"Description": dice.randbytes(15_000).hex()})
    small_disk.poll()
    filler = fill(small_disk, but=700_000)
    left = []
    for _ in range(3):
        with pytest.raises(Exception, match="no space left on device"):
            small_disk.catch_up()
        left.append(shutil.disk_usage(filler.parent).free)
    assert min(left) > 500_000
    assert max(left) - min(left) < 50_000
    filler.unlink()
    small_disk.catch_up()
    small_disk.assert_equal()


def test_maintenance_on_a_full_disk_makes_room_first_and_calls_nothing_damaged(small_disk: QuietPipeline) -> None:
    pipeline, dice = small_disk, Random(6)
    for _ in range(6):
        pipeline.update(pipeline.ids()[0], Description=dice.randbytes(15_000).hex())
        pipeline.catch_up()
    orphan = pipeline.warehouse.folder / STATE / "of-a-killed-task.parquet"
    orphan.write_bytes(dice.randbytes(2_000_000))
    os.utime(orphan, (0, 0))
    filler = fill(pipeline, but=0)
    assert shutil.disk_usage(filler.parent).free < 4_096
    done = list(maintain(pipeline.warehouse, Retention(7), pipeline.clock.now_ms()))
    assert not orphan.exists(), "what makes room needs none"
    assert [str(each) for each in done if each.problem] == []
    assert "0 damaged" in summary_of(done)
    assert sum(each.packed for each in done) > 0, "and there is room to pack then"
    filler.unlink()
    pipeline.update(pipeline.ids()[0], Name="afterwards")
    pipeline.catch_up()
    pipeline.assert_equal()
