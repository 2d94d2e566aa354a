"""A table that is opened again in one process: as new, but without reading its log again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sfcdc_assets.lake.delta import handles
from sfcdc_assets.lake.delta import table as table_module
from sfcdc_assets.lake.delta.handles import Handles
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.warehouse import Warehouse

SCHEMA = pa.schema([("Id", pa.string())])


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    warehouse = Warehouse(str(tmp_path))
    Table.open_or_create(warehouse, "t", SCHEMA).append(pa.table({"Id": ["a"]}), {"app": 1}, {})
    return warehouse


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Handles:
    """What is kept from now on."""
    kept = Handles()
    monkeypatch.setattr(handles, "HANDLES", kept)
    monkeypatch.setattr(table_module, "HANDLES", kept)
    return kept


@pytest.fixture
def opens(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The tables that were opened again."""
    made: list[str] = []

    def new(uri: str) -> DeltaTable:
        made.append(uri)
        return DeltaTable(uri)

    monkeypatch.setattr(handles, "DeltaTable", new)
    return made


def opened(warehouse: Warehouse) -> Table:
    table = Table.open(warehouse, "t")
    assert table is not None
    return table


def ids(table: Table) -> list[str]:
    return sorted(table.scan()["Id"].to_pylist())


def test_a_handle_that_nobody_holds_is_used_again_and_catches_up(warehouse: Warehouse, opens: list[str]) -> None:
    opened(warehouse)
    before = len(opens)
    assert ids(opened(warehouse)) == ["a"]
    write_deltalake(warehouse.uri("t"), pa.table({"Id": ["b"]}), mode="append")
    assert ids(opened(warehouse)) == ["a", "b"]
    opened(warehouse).append(pa.table({"Id": ["c"]}), {"app": 2}, {})
    assert (ids(opened(warehouse)), opened(warehouse).transaction_version("app")) == (["a", "b", "c"], 2)
    assert len(opens) == before


def test_two_who_hold_a_table_have_a_handle_each_and_one_is_refused(warehouse: Warehouse) -> None:
    first, second = opened(warehouse), opened(warehouse)
    first.append(pa.table({"Id": ["b"]}), {"app": 2}, {})
    assert second.transaction_version("app") == 1
    with pytest.raises(ConcurrentCommit):
        second.append(pa.table({"Id": ["c"]}), {"app": 2}, {})
    assert ids(opened(warehouse)) == ["a", "b"]


def test_a_handle_through_which_a_commit_failed_is_not_used_again(warehouse: Warehouse, kept: Handles) -> None:
    first, second = opened(warehouse), opened(warehouse)
    first.append(pa.table({"Id": ["b"]}), {"app": 2}, {})
    with pytest.raises(ConcurrentCommit):
        second.append(pa.table({"Id": ["c"]}), {"app": 2}, {})
    del first, second
    assert kept.idle(warehouse.uri("t")) == 1


def test_a_table_that_was_removed_and_made_again_is_seen_as_it_is(warehouse: Warehouse) -> None:
    assert ids(opened(warehouse)) == ["a"]
    shutil.rmtree(warehouse.folder / "t")
    assert Table.open(warehouse, "t") is None
    for text in ("x", "y"):
        Table.open_or_create(warehouse, "t", SCHEMA).append(pa.table({"Id": [text]}), {}, {})
    shutil.rmtree(warehouse.folder / "t")
    Table.open_or_create(warehouse, "t", SCHEMA)
    for text in ("p", "q"):
        write_deltalake(warehouse.uri("t"), pa.table({"Id": [text]}), mode="append")
    assert ids(opened(warehouse)) == ["p", "q"]


def test_with_a_newer_checkpoint_a_table_is_opened_again_as_older_commits_may_go(warehouse: Warehouse) -> None:
    assert opened(warehouse).transaction_version("app") == 1
    write_deltalake(warehouse.uri("t"), pa.table({"Id": ["b"]}), mode="append")
    DeltaTable(warehouse.uri("t")).create_checkpoint()
    for commit in sorted((warehouse.folder / "t" / "_delta_log").glob("*.json"))[:-1]:
        commit.unlink()
    again = opened(warehouse)
    assert (again.transaction_version("app"), ids(again)) == (1, ["a", "b"])


def test_a_forked_process_opens_its_own(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, opens: list[str]
) -> None:
    opened(warehouse)
    before = len(opens)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    opened(warehouse)
    assert len(opens) == before + 1


def test_only_so_many_are_kept(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, kept: Handles) -> None:
    monkeypatch.setattr(handles, "KEPT_TABLES", 2)
    for name in ("a", "b", "c"):
        Table.open_or_create(warehouse, name, SCHEMA)
        Table.open(warehouse, name)
    assert [Path(uri).name for uri in kept.tables()] == ["b", "c"]
    several = [opened(warehouse) for _ in range(5)]
    del several
    assert kept.idle(warehouse.uri("t")) == handles.KEPT_OF_A_TABLE
