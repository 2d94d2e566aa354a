"""An OPTIMIZE by any client, between the opening of a table and the commit through that handle, doubles no row."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from sfcdc_assets.lake.delta.data_files import DataFile, NewFile, PackedFiles
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.warehouse import Warehouse

SCHEMA = pa.schema([("Id", pa.string())])
IDS = ["a", "b", "c"]


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """With a table of a file for each id."""
    warehouse = Warehouse(str(tmp_path))
    table = Table.open_or_create(warehouse, "t", SCHEMA)
    for each in IDS:
        table.append(pa.table({"Id": [each]}, SCHEMA), {}, {})
    return warehouse


def opened(warehouse: Warehouse) -> Table:
    table = Table.open(warehouse, "t")
    assert table is not None
    return table


def ids(warehouse: Warehouse) -> list[str]:
    return sorted(opened(warehouse).scan()["Id"].to_pylist())


def written(warehouse: Warehouse, name: str, values: list[str]) -> NewFile:
    path = Path(warehouse.uri("t")) / name
    pq.write_table(pa.table({"Id": values}, SCHEMA), path)
    return NewFile(name, path.stat().st_size, json.dumps({"numRecords": len(values)}))


def one_for_all(warehouse: Warehouse, table: Table, name: str) -> tuple[NewFile, tuple[DataFile, ...]]:
    """A file with all rows of the table, and the files that it replaces."""
    return written(warehouse, name, IDS), table.files()


def test_a_swap_of_files_that_an_optimize_has_removed_is_refused(warehouse: Warehouse) -> None:
    stale = opened(warehouse)
    added, removed = one_for_all(warehouse, stale, "mine.parquet")
    DeltaTable(warehouse.uri("t")).optimize.compact()
    with pytest.raises(ConcurrentCommit):
        stale.swap_files([added], removed, {}, {})
    assert ids(warehouse) == IDS


def test_a_new_form_of_a_table_does_not_join_what_an_optimize_has_made(warehouse: Warehouse) -> None:
    stale = opened(warehouse)
    added, _ = one_for_all(warehouse, stale, "mine.parquet")
    DeltaTable(warehouse.uri("t")).optimize.compact()
    with pytest.raises(ConcurrentCommit):
        stale.rewrite([added], SCHEMA)
    assert ids(warehouse) == IDS


def test_of_two_that_pack_the_same_files_one_is_refused(warehouse: Warehouse) -> None:
    first, second = opened(warehouse), opened(warehouse)
    for table, name in ((first, "first.parquet"), (second, "second.parquet")):
        added, removed = one_for_all(warehouse, table, name)
        if table is first:
            table.pack_files([PackedFiles([added], removed)])
        else:
            with pytest.raises(ConcurrentCommit):
                table.pack_files([PackedFiles([added], removed)])
    assert ids(warehouse) == IDS


def test_an_append_does_not_notice_that_files_were_packed(warehouse: Warehouse) -> None:
    appending, swapping, packing = (opened(warehouse) for _ in range(3))
    added, removed = one_for_all(warehouse, packing, "packed.parquet")
    packing.pack_files([PackedFiles([added], removed)])
    appending.append(pa.table({"Id": ["d"]}, SCHEMA), {"a": 1}, {})
    swapping.swap_files([written(warehouse, "e.parquet", ["e"])], [], {"b": 1}, {})
    assert ids(warehouse) == [*IDS, "d", "e"]


def test_what_replaces_rows_is_reported_to_open_the_table_again(warehouse: Warehouse) -> None:
    updating, deleting, packing = (opened(warehouse) for _ in range(3))
    added, removed = one_for_all(warehouse, packing, "packed.parquet")
    packing.pack_files([PackedFiles([added], removed)])
    with pytest.raises(ConcurrentCommit):
        updating.set_null("Id", "Id = 'a'", {})
    with pytest.raises(ConcurrentCommit):
        deleting.delete_rows("Id = 'a'", {})
    assert ids(warehouse) == IDS


def test_packing_is_refused_when_rows_were_deleted_meanwhile(warehouse: Warehouse) -> None:
    packing = opened(warehouse)
    added, removed = one_for_all(warehouse, packing, "packed.parquet")
    opened(warehouse).delete_rows("Id = 'b'", {})
    with pytest.raises(ConcurrentCommit):
        packing.pack_files([PackedFiles([added], removed)])
    assert ids(warehouse) == ["a", "c"]
