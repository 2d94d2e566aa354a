"""Vacuum by versions: every kept version opens with all of its files, and nothing that none needs is left."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from hypothesis import given, settings
from hypothesis import strategies as st

from sfcdc_assets.lake.delta import commit_protocol
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.maintenance.version_vacuum import (
    ORPHAN_SECONDS,
    YOUNG_SECONDS,
    clean_log_but_for,
    vacuum_but_for,
    version_at,
)
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.lake.object_store import BUCKET, object_store

pytestmark = pytest.mark.slow

NAME = "current_state/Account"
SCHEMA = pa.schema([("Id", pa.string()), ("number", pa.int64())])
NOW = time.time()


class Kept:
    """A table whose every version is remembered as it was."""

    def __init__(self, folder: Path) -> None:
        self.warehouse = Warehouse(str(folder))
        self.folder = folder / NAME
        self.log = self.folder / "_delta_log"
        Table.open_or_create(self.warehouse, NAME, SCHEMA)
        self.files: dict[int, frozenset[str]] = {0: frozenset()}

    def open(self) -> Table:
        table = Table.open(self.warehouse, NAME)
        assert table is not None
        return table

    def commit(self, replaced: int = 1, *, added: bool = True) -> None:
        """A batch: some files, of which none is left, are replaced by one."""
        table = self.open()
        before = table.files()
        if added:
            table.append(pa.table({"Id": ["001"], "number": [table.version]}, SCHEMA), {}, {})
        for file in before[:replaced]:
            table = self.open()
            table.swap_files([], [file], {}, {})
        self.note()

    def note(self) -> None:
        for version in range(max(self.files) + 1, self.open().version + 1):
            self.files[version] = self.live(version)

    def live(self, version: int) -> frozenset[str]:
        uris = DeltaTable(str(self.folder), version=version).file_uris()
        return frozenset(Path(unquote(each)).name for each in uris)

    @property
    def newest(self) -> int:
        return max(self.files)

    def age(self, of: Iterable[int], seconds: float) -> None:
        """The commits of these versions were made so long ago."""
        for version in of:
            path = self.log / f"{version:020}.json"
            if path.exists():
                os.utime(path, (NOW - seconds,) * 2)

    def vacuum(self, kept: Iterable[int], *, orphans: bool = False) -> tuple[int, int]:
        done = vacuum_but_for(self.warehouse, NAME, set(kept), NOW, orphans=orphans)
        assert done.lost == ()
        return done.files, clean_log_but_for(self.warehouse, NAME, set(kept), NOW)

    def check(self, versions: Iterable[int]) -> None:
        present = {path.name for path in self.folder.glob("*.parquet")}
        for version in versions:
            assert self.live(version) == self.files[version], version
            assert self.files[version] <= present, version
            if self.files[version]:
                assert pa.table(DeltaTable(str(self.folder), version=version).scan()).num_rows

    def names(self) -> set[str]:
        return {path.name for path in self.folder.glob("*.parquet")}


@pytest.fixture
def table(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_after_any_passes_the_kept_versions_open_and_no_file_is_there_that_none_needs(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = Kept(Path(folder))
        there = {0}
        for _ in range(data.draw(st.integers(1, 3))):
            before = table.newest
            for replaced, added, with_checkpoint in data.draw(
                st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=1, max_size=4)
            ):
                table.commit(replaced, added=added)
                if with_checkpoint:
                    table.open().checkpoint()
            there |= set(range(before + 1, table.newest + 1))
            kept = data.draw(st.sets(st.sampled_from(sorted(there))))
            current_an_hour_ago = data.draw(st.integers(before, table.newest))
            table.age(range(current_an_hour_ago + 1), 2 * YOUNG_SECONDS)
            table.vacuum(kept)
            there = {*kept, *range(current_an_hour_ago, table.newest + 1)}
            table.check(there)
            assert table.names() == {name for version in there for name in table.files[version]}
            assert table.vacuum(kept) == (0, 0)


def test_the_log_of_versions_that_are_kept_here_and_there_is_a_checkpoint_each_without_tombstones(table: Kept) -> None:
    for _ in range(30):
        table.commit()
    table.age(range(table.newest + 1), 2 * YOUNG_SECONDS)
    kept = range(5, table.newest, 12)
    files, log_files = table.vacuum(kept)
    assert files > 0
    assert log_files > 0
    table.check([*kept, table.newest])
    names = {path.name for path in table.log.iterdir() if path.name[0] == "0"}
    newest = f"{table.newest:020}"
    assert names == {f"{each:020}.checkpoint.parquet" for each in kept} | {
        f"{newest}.json",
        f"{newest}.checkpoint.parquet",
    }
    for each in kept:
        assert pq.read_table(table.log / f"{each:020}.checkpoint.parquet")["remove"].null_count


def test_versions_that_were_replaced_within_half_an_hour_stay(table: Kept) -> None:
    for _ in range(5):
        table.commit()
    table.age(range(4), 2 * YOUNG_SECONDS)
    table.age(range(4, table.newest + 1), YOUNG_SECONDS - 60)
    table.vacuum([])
    table.check(range(3, table.newest + 1))
    assert table.vacuum([]) == (0, 0)


def test_a_table_that_goes_on_is_written_and_read_after_its_log_was_cleaned(table: Kept) -> None:
    for number in range(4):
        table.commit()
        table.age(range(table.newest + 1), 2 * YOUNG_SECONDS)
        table.vacuum([1, 3])
        table.check([1, 3] if number > 1 else [1])
    assert DeltaTable(str(table.folder)).version() == table.newest


def test_a_writer_whose_place_in_the_log_is_free_again_is_refused(table: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its batch took longer than the log is kept, and another writer was faster."""
    table.commit()
    slow = table.open()
    for _ in range(3):
        table.commit()
    table.age(range(table.newest + 1), 2 * YOUNG_SECONDS)
    table.vacuum([slow.version])
    assert not (table.log / f"{slow.version + 1:020}.json").exists()
    monkeypatch.setattr(commit_protocol, "LONG_OPEN_SECONDS", 0.0)
    rows = pa.table({"Id": ["002"], "number": [9]}, SCHEMA)
    with pytest.raises(ConcurrentCommit):
        slow.append(rows, {}, {})
    with pytest.raises(ConcurrentCommit):
        slow.swap_files([], slow.files(), {}, {})
    table.check([table.newest])
    table.open().append(rows, {}, {})


def test_a_file_that_no_version_names_goes_after_a_week_and_not_before(table: Kept) -> None:
    table.commit()
    orphan, built = table.folder / "part-orphan.parquet", table.folder / "rebuilt-1" / "part-new.parquet"
    (built.parent / "_delta_log").mkdir(parents=True)
    (built.parent / "_delta_log" / f"{0:020}.json").write_text("{}")
    for path in (orphan, built):
        path.write_bytes(b"rows")
    assert table.vacuum([], orphans=True) == (0, 0)
    for path in (orphan, built, *table.folder.glob("*.parquet")):
        os.utime(path, (NOW - ORPHAN_SECONDS - 60,) * 2)
    assert table.vacuum([], orphans=True) == (1, 0)
    assert not orphan.exists()
    assert built.exists(), "somebody builds a table there"
    table.check([table.newest])


def test_a_kept_version_whose_log_another_client_cleaned_up_is_named_and_the_others_stay(table: Kept) -> None:
    for _ in range(6):
        table.commit()
    table.age(range(table.newest + 1), 2 * YOUNG_SECONDS)
    table.vacuum([2, 4])
    (table.log / f"{2:020}.checkpoint.parquet").unlink()
    done = vacuum_but_for(table.warehouse, NAME, {2, 4}, NOW)
    assert done.lost == (2,)
    table.check([4, table.newest])


def test_a_pass_that_was_killed_between_files_and_log_is_made_up_for(table: Kept) -> None:
    for _ in range(6):
        table.commit()
    table.age(range(table.newest + 1), 2 * YOUNG_SECONDS)
    assert vacuum_but_for(table.warehouse, NAME, {3}, NOW).files > 0
    files, log_files = table.vacuum([3])
    assert (files, log_files > 0) == (0, True)
    table.check([3, table.newest])


def test_a_version_of_a_time_is_found_among_those_that_are_left(table: Kept) -> None:
    for _ in range(6):
        table.commit()
    day = 86_400
    for version in range(table.newest + 1):
        table.age([version], (table.newest - version) * day)
    kept = [2, 5]
    table.vacuum(kept)
    for version in kept:  # its checkpoint was written when the others were forgotten
        os.utime(table.log / f"{version:020}.checkpoint.parquet", (NOW - (table.newest - version) * day,) * 2)
    there = [version for version in range(table.newest + 1) if opens(table, version)]
    assert {*kept, table.newest} <= set(there) < set(range(table.newest + 1))
    for days in range(table.newest + 3):
        old = [version for version in there if table.newest - version >= days]
        assert version_at(table.warehouse, NAME, NOW - days * day) == max(old, default=min(there))


def opens(table: Kept, version: int) -> bool:
    try:
        table.live(version)
    except (DeltaError, TableNotFoundError):
        return False
    return True


def test_in_an_object_store_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with object_store() as store:
        for setting, value in store.environment.items():
            monkeypatch.setenv(setting, value)
        warehouse = Warehouse(f"s3://{BUCKET}/warehouse")
        Table.open_or_create(warehouse, NAME, SCHEMA)
        for number in range(5):
            table = Table.open(warehouse, NAME)
            assert table is not None
            before = table.files()
            table.append(pa.table({"Id": ["001"], "number": [number]}, SCHEMA), {}, {})
            table = Table.open(warehouse, NAME)
            assert table is not None
            table.swap_files([], before, {}, {})
        written = datetime(2026, 1, 1, tzinfo=UTC).timestamp()  # what this store says of every object
        later, kept = written + 2 * YOUNG_SECONDS, {4}
        assert vacuum_but_for(warehouse, NAME, kept, written + 60, orphans=True).files == 0
        assert vacuum_but_for(warehouse, NAME, kept, later, orphans=True).files == 3
        assert clean_log_but_for(warehouse, NAME, kept, later) > 0
        for version, number in ((4, 1), (None, 4)):
            table = Table.open(warehouse, NAME, version)
            assert table is not None
            assert table.scan(["number"])["number"].to_pylist() == [number]
        assert vacuum_but_for(warehouse, NAME, set(), later).files == 1
