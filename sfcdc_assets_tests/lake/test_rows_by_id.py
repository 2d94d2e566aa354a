"""Rows of a table with one row a record: replaced, added and removed by Id, in files that do not overlap."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfcdc_assets.key_ranges import key_ranges
from sfcdc_assets.key_ranges.key_ranges import overlapping
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.maintenance import separate as separate_module
from sfcdc_assets.lake.maintenance.separate import separate
from sfcdc_assets.lake.tables.current_state import id_ranges
from sfcdc_assets.lake.tables.rows_by_id import put_rows
from sfcdc_assets.lake.warehouse import Warehouse

SCHEMA = pa.schema([("Id", pa.string()), ("value", pa.int64())])
NAME = "numbers"
IDS = st.integers(0, 40).map(lambda number: f"{number:03d}")
STEPS = st.lists(
    st.tuples(st.dictionaries(IDS, st.none() | st.integers(0, 9), max_size=12), st.lists(IDS, max_size=4)), max_size=6
)


def opened(warehouse: Warehouse) -> Table:
    return Table.open_or_create(warehouse, NAME, SCHEMA, statistics_on=["Id"])


def rows(values: dict[str, int | None]) -> pa.Table:
    return pa.table({"Id": list(values), "value": list(values.values())}, schema=SCHEMA)


def put(warehouse: Warehouse, values: dict[str, int | None], gone: list[str], version: int) -> None:
    put_rows(opened(warehouse), warehouse.filesystem(NAME), rows(values), gone, {"step": version}, rows_per_file=5)


def found(warehouse: Warehouse) -> dict[str, int | None]:
    return {row["Id"]: row["value"] for row in opened(warehouse).rows()}


@settings(deadline=None, max_examples=25)
@given(STEPS)
def test_the_table_is_a_dictionary_in_files_that_do_not_overlap(tmp_path_factory, steps):
    warehouse = Warehouse(str(tmp_path_factory.mktemp("rows")))
    expected: dict[str, int | None] = {}
    for number, (values, some) in enumerate(steps, 1):
        gone = [each for each in some if each not in values]
        put(warehouse, values, gone, number)
        expected = {name: value for name, value in {**expected, **values}.items() if name not in gone}
        table = opened(warehouse)
        assert table.count() == len(expected)
        assert found(warehouse) == expected
        assert table.transaction_version("step") == number
        ranges = sorted(id_ranges(table.files()), key=lambda each: each.first)
        assert all(one.last < other.first for one, other in pairwise(ranges))
        assert all(each.rows <= 5 for each in ranges)


def test_only_files_of_the_ranges_that_are_touched_are_written_again(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    put(warehouse, {f"{number:03d}": 1 for number in range(20)}, [], 1)
    before = {file.path for file in opened(warehouse).files()}
    assert len(before) == 4
    put(warehouse, {"006": 2}, [], 2)
    after = {file.path for file in opened(warehouse).files()}
    assert (len(before & after), len(after)) == (3, 4)
    put(warehouse, {"900": 2}, ["019"], 3)
    assert len(after & {file.path for file in opened(warehouse).files()}) == 3


def test_files_that_another_client_left_overlapping_are_separated(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    for values in ({"001": 1, "009": 1}, {"004": 1, "012": 1}):
        opened(warehouse).append(rows(values), {}, {})
    put(warehouse, {"004": 2, "005": 2, "006": 2}, ["012"], 1)
    assert found(warehouse) == {"001": 1, "009": 1, "004": 2, "005": 2, "006": 2}
    assert len(opened(warehouse).files()) == 1


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than five rows are too many to hold."""
    for module, name in ((key_ranges, "MAX_ROWS"), (key_ranges, "TARGET_ROWS"), (separate_module, "TARGET_ROWS")):
        monkeypatch.setattr(module, name, 5)


@pytest.mark.usefixtures("few_at_once")
def test_of_files_that_overlap_and_are_too_many_to_hold_only_those_with_the_records_are_written_again(
    tmp_path: Path,
) -> None:
    warehouse = Warehouse(str(tmp_path))
    expected: dict[str, int | None] = {}
    for first in range(4):
        values = {f"{number:03d}": 1 for number in range(first, 20, 4)}
        opened(warehouse).append(rows(values), {}, {})
        expected |= values
    before = {file.path for file in opened(warehouse).files()}
    put(warehouse, {"005": 2, "0055": 2}, ["009"], 1)
    assert len(before & {file.path for file in opened(warehouse).files()}) == 3
    put(warehouse, {"0077": 3}, [], 2)
    assert len(before & {file.path for file in opened(warehouse).files()}) == 3, "a new record is in none of them"
    expected |= {"005": 2, "0055": 2, "0077": 3}
    expected.pop("009")
    assert found(warehouse) == expected


@pytest.mark.usefixtures("few_at_once")
def test_maintenance_separates_them_in_pieces_and_the_log_keeps_what_it_kept_of_each(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    for first in range(4):
        opened(warehouse).append(rows({f"{number:03d}": number for number in range(first, 20, 4)}), {}, {})
    before = found(warehouse)
    assert separate(warehouse, NAME).files >= 4
    assert found(warehouse) == before
    files = opened(warehouse).files()
    assert all(len(group) == 1 for group in overlapping(id_ranges(files)))
    assert all(file.rows <= 5 and file.statistics.get("max.Id") for file in files)


def test_a_writer_that_was_overtaken_leaves_neither_rows_nor_files(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    put(warehouse, {"001": 1}, [], 1)
    late = opened(warehouse)
    put(warehouse, {"001": 2}, [], 2)
    files = set((tmp_path / NAME).glob("*.parquet"))
    with pytest.raises(ConcurrentCommit):
        put_rows(late, warehouse.filesystem(NAME), rows({"001": 3}), [], {})
    assert found(warehouse) == {"001": 2}
    assert set((tmp_path / NAME).glob("*.parquet")) == files


def test_of_two_writers_of_an_empty_table_one_is_refused(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    one, other = opened(warehouse), opened(warehouse)
    put_rows(one, warehouse.filesystem(NAME), rows({"001": 1}), [], {})
    with pytest.raises(ConcurrentCommit):
        put_rows(other, warehouse.filesystem(NAME), rows({"001": 2}), [], {})
    assert found(warehouse) == {"001": 1}


def test_nothing_is_a_commit_that_remembers(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    put(warehouse, {}, [], 7)
    assert opened(warehouse).transaction_version("step") == 7
