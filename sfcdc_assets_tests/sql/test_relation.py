"""A table's version as DuckDB reads it: its own files and no others, whatever their age and names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest
from deltalake import DeltaTable, Field, write_deltalake

from sfcdc_assets.lake.delta.readable_table import readable, readable_now
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.sql.text import literally, relation
from sfcdc_assets.sql.warehouse_files import WarehouseFiles, location
from sfcdc_assets_tests.lake.object_store import BUCKET, object_store
from sfcdc_assets_tests.store_login import log_in

TIME = pa.timestamp("us", "UTC")
NAME = "current_state/Account"


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path / "it's 100 % a (ware)house"))


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def write(warehouse: Warehouse, rows: pa.Table, **options: Any) -> None:
    write_deltalake(warehouse.uri(NAME), rows, mode="append", **options)


def asked(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, version: int | None = None) -> list[Any]:
    table = Table.open(warehouse, NAME, version)
    assert table is not None
    query = relation(readable(table), partial(location, warehouse))
    return connection.sql(f"SELECT * FROM ({query}) ORDER BY ALL").to_arrow_table().to_pylist()


def expected(warehouse: Warehouse, version: int | None = None) -> list[Any]:
    rows = pa.table(DeltaTable(warehouse.uri(NAME), version=version).scan()).to_pylist()
    return sorted(rows, key=lambda row: str(list(row.values())))


def test_files_of_other_versions_and_of_no_version_are_left_out(
    warehouse: Warehouse, connection: duckdb.DuckDBPyConnection
) -> None:
    write(warehouse, pa.table({"Id": ["a"]}))
    write(warehouse, pa.table({"Id": ["b"]}))
    pa.parquet.write_table(pa.table({"Id": ["never committed"]}), f"{warehouse.uri(NAME)}/part-0.parquet")
    assert asked(connection, warehouse, version=0) == [{"Id": "a"}]
    DeltaTable(warehouse.uri(NAME)).delete("Id = 'a'")
    assert asked(connection, warehouse) == [{"Id": "b"}]
    assert asked(connection, warehouse, version=1) == [{"Id": "a"}, {"Id": "b"}]


def test_a_column_that_some_files_or_all_files_lack_is_null_there(
    warehouse: Warehouse, connection: duckdb.DuckDBPyConnection
) -> None:
    write(warehouse, pa.table({"Id": ["a"]}))
    write(warehouse, pa.table({"Id": ["b"], "Amount": [1.5]}), schema_mode="merge")
    DeltaTable(warehouse.uri(NAME)).alter.add_columns(Field("Later__c", "timestamp"))
    rows = asked(connection, warehouse)
    assert rows == expected(warehouse)
    assert rows == [
        {"Id": "a", "Amount": None, "Later__c": None},
        {"Id": "b", "Amount": 1.5, "Later__c": None},
    ]


def test_partition_columns_have_the_values_that_the_log_tells(
    warehouse: Warehouse, connection: duckdb.DuckDBPyConnection
) -> None:
    entities = pa.array(["Account", "It's", None, "001"], pa.string())
    write(warehouse, pa.table({"position": [1, 2, 3, 4], "entity_name": entities}), partition_by=["entity_name"])
    assert sorted(asked(connection, warehouse), key=lambda row: row["position"]) == [
        {"position": number, "entity_name": entity} for number, entity in enumerate(entities.to_pylist(), 1)
    ]


def test_a_table_without_files_has_its_columns(warehouse: Warehouse, connection: duckdb.DuckDBPyConnection) -> None:
    DeltaTable.create(warehouse.uri(NAME), pa.schema([("Id", pa.string()), ("At__c", TIME)]))
    assert asked(connection, warehouse) == []
    table = readable_now(warehouse, NAME)
    assert table is not None
    connection.execute(relation(table, partial(location, warehouse)))
    assert [(each[0], str(each[1])) for each in connection.description or ()] == [
        ("Id", "VARCHAR"),
        ("At__c", "TIMESTAMP WITH TIME ZONE"),
    ]


def test_every_type_of_the_tables_comes_through(warehouse: Warehouse, connection: duckdb.DuckDBPyConnection) -> None:
    row: dict[str, Any] = {
        "flag": pa.array([True]),
        "small": pa.array([-1], pa.int32()),
        "large": pa.array([2**62], pa.int64()),
        "number": pa.array([0.1]),
        "day": pa.array([19_000], pa.date32()),
        "time": pa.array([1_700_000_000_123_456], TIME),
        "text": pa.array(["a 'quoted' \u2603"]),
        "bytes": pa.array([b"\x00\xff"]),
        "names": pa.array([["a", None]], pa.list_(pa.string())),
        "versions": pa.array([[("x", 1)]], pa.map_(pa.string(), pa.int64())),
    }
    write(warehouse, pa.table(row))
    assert asked(connection, warehouse) == expected(warehouse)


def test_characters_of_a_pattern_in_a_path_mean_themselves(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection
) -> None:
    folder = tmp_path / "old [2024]*?"
    folder.mkdir()
    pa.parquet.write_table(pa.table({"Id": ["a"]}), folder / "a.parquet")
    path = literally(str(folder / "a.parquet"))
    assert connection.execute("SELECT * FROM read_parquet(?)", [[path]]).fetchall() == [("a",)]


def test_an_object_store_is_read_with_the_credentials_that_write_it(
    monkeypatch: pytest.MonkeyPatch, connection: duckdb.DuckDBPyConnection
) -> None:
    warehouse = Warehouse(f"s3://{BUCKET}/warehouse")
    with object_store() as store:
        log_in(store.environment, monkeypatch)
        write(warehouse, pa.table({"Id": ["a"], "n": [1]}))
        write(warehouse, pa.table({"Id": ["b"], "m": [2]}), schema_mode="merge")
        connection.register_filesystem(WarehouseFiles(warehouse))
        assert asked(connection, warehouse) == [{"Id": "a", "n": 1, "m": None}, {"Id": "b", "n": None, "m": 2}]
