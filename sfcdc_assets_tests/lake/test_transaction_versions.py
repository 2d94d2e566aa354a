"""A question about a transaction is asked of the log once, and answered again when the table has moved on."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.examples import examples

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


def test_all_are_known_by_one_look_at_the_log(warehouse: Warehouse, asked: list[str]) -> None:
    table = opened(warehouse)
    assert [table.transaction_version(name) for name in ("batch", "batch", "other")] == [None, None, None]
    assert asked == []


def test_where_the_log_has_another_form_the_library_is_asked_once_of_a_version(
    warehouse: Warehouse, asked: list[str]
) -> None:
    commit(opened(warehouse), 1)
    DeltaTable(warehouse.uri("t")).create_checkpoint()
    note = warehouse.folder / "t" / "_delta_log" / "_last_checkpoint"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"parts": 2}))
    table = opened(warehouse)
    assert [table.transaction_version(name) for name in ("batch", "batch", "other")] == [1, 1, None]
    del table
    assert opened(warehouse).transaction_version("batch") == 1
    assert asked == ["batch", "other"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.sampled_from("ab"), st.integers(0, 9)),
        st.tuples(st.sampled_from(["add a row", "add a column", "checkpoint", "forget commits", "open again"])),
    ),
    max_size=12,
)


@given(STEPS)
@settings(max_examples=examples(0.4), deadline=None)
def test_whatever_became_of_the_log_the_answers_are_those_of_the_library(steps: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory() as folder:
        warehouse = Warehouse(folder)
        Table.open_or_create(warehouse, "t", SCHEMA)
        table, held = opened(warehouse), list[int | None]([None, None])
        for number, (what, *of) in enumerate(steps):
            match what:
                case "commit":
                    opened(warehouse).append(SCHEMA.empty_table(), {of[0]: of[1]}, {})
                case "add a row":
                    write_deltalake(
                        warehouse.uri("t"), pa.table({"Id": [str(number)]}), mode="append", schema_mode="merge"
                    )
                case "add a column":
                    opened(warehouse).add_columns([pa.field(f"column{number}", pa.string())])
                case "checkpoint":
                    opened(warehouse).checkpoint()
                case "forget commits":
                    noted = warehouse.folder / "t" / "_delta_log" / "_last_checkpoint"
                    last = json.loads(noted.read_text())["version"] if noted.exists() else 0
                    for commit_file in sorted(noted.parent.glob("*.json"))[:-1]:
                        if int(commit_file.stem) < last:
                            commit_file.unlink()
                case "open again":
                    del table
                    table = opened(warehouse)
                    held = [table.transaction_version(name) for name in "ab"]
            now, fresh = opened(warehouse), DeltaTable(warehouse.uri("t"))
            assert [now.transaction_version(name) for name in "abc"] == [fresh.transaction_version(n) for n in "abc"]
            assert now.schema.equals(pa.schema(fresh.schema().to_arrow()), check_metadata=True)
            del now
            assert [table.transaction_version(name) for name in "ab"] == held, "a handle stays at its version"


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
