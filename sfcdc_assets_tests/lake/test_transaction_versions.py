"""A question about a transaction is asked of the log once, and answered again when the table has moved on."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse

SCHEMA = pa.schema([("Id", pa.string())])


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    warehouse = Warehouse(str(tmp_path))
    Table.open_or_create(warehouse, "t", SCHEMA)
    return warehouse


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the library was asked for."""
    original, found = DeltaTable.transaction_version, list[str]()

    def ask(table: DeltaTable, application: str) -> int | None:
        found.append(application)
        return original(table, application)

    monkeypatch.setattr(DeltaTable, "transaction_version", ask)
    return found


def opened(warehouse: Warehouse) -> Table:
    table = Table.open(warehouse, "t")
    assert table is not None
    return table


def commit(table: Table, version: int) -> None:
    table.append(SCHEMA.empty_table(), {"batch": version}, {})


def test_each_is_asked_for_once_of_a_version_of_the_table(warehouse: Warehouse, asked: list[str]) -> None:
    table = opened(warehouse)
    assert [table.transaction_version(name) for name in ("batch", "batch", "other")] == [None, None, None]
    del table
    assert opened(warehouse).transaction_version("batch") is None
    assert asked == ["batch", "other"]


def test_a_commit_by_anybody_is_seen(warehouse: Warehouse, asked: list[str]) -> None:
    table = opened(warehouse)
    assert table.transaction_version("batch") is None
    commit(table, 1)
    assert table.transaction_version("batch") == 1
    commit(opened(warehouse), 2)
    assert table.transaction_version("batch") == 1, "a handle stays at its version"
    assert opened(warehouse).transaction_version("batch") == 2
    del table
    assert opened(warehouse).transaction_version("batch") == 2
