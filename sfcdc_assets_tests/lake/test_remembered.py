"""What was worked out from tables is worked out again when one of them has changed, and not before."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.delta.table_changes import Remembered, seen
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.eventually import BOUND_SECONDS

SCHEMA = pa.schema([("Id", pa.string())])


class Question:
    """The Ids in a table and in another one that there may be, and how often they were read."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._remembered = Remembered[tuple[str, ...], list[str]](most=2)
        self.asked = 0

    def ids(self, *tables: str) -> list[str]:
        """Those of these tables."""
        return self._remembered.of(self._warehouse, [tables], self._read)[tables]

    def _read(self, tables: tuple[str, ...]) -> list[str]:
        self.asked += 1
        opened = [table for name in tables if (table := Table.open(self._warehouse, name)) is not None]
        return sorted(each for table in opened for each in table.scan()["Id"].to_pylist())


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    warehouse = Warehouse(str(tmp_path))
    append(warehouse, "t", "a")
    return warehouse


@pytest.fixture
def question(warehouse: Warehouse) -> Question:
    return Question(warehouse)


def append(warehouse: Warehouse, name: str, text: str) -> None:
    Table.open_or_create(warehouse, name, SCHEMA).append(pa.table({"Id": [text]}), {}, {})


def test_an_answer_is_worked_out_once_while_nothing_changes(question: Question) -> None:
    assert [question.ids("t"), question.ids("t"), question.ids("t")] == [["a"]] * 3
    assert question.asked == 1


def test_after_a_commit_of_whoever_it_is_worked_out_again(warehouse: Warehouse, question: Question) -> None:
    question.ids("t")
    append(warehouse, "t", "b")
    assert question.ids("t") == ["a", "b"]
    write_deltalake(warehouse.uri("t"), pa.table({"Id": ["c"]}), mode="append")
    assert question.ids("t") == ["a", "b", "c"]
    assert (question.ids("t"), question.asked) == (["a", "b", "c"], 3)


def test_a_table_that_was_missing_is_seen_when_it_is_made(warehouse: Warehouse, question: Question) -> None:
    assert question.ids("t", "u") == question.ids("t", "u") == ["a"]
    assert question.asked == 1
    append(warehouse, "u", "x")
    assert question.ids("t", "u") == ["a", "x"]


def test_a_table_that_was_removed_is_missed_and_one_made_in_its_place_is_read(
    warehouse: Warehouse, question: Question
) -> None:
    question.ids("t")
    shutil.rmtree(warehouse.folder / "t")
    assert question.ids("t") == []
    append(warehouse, "t", "another")
    assert question.ids("t") == ["another"]
    shutil.rmtree(warehouse.folder / "t")
    append(warehouse, "t", "a third")  # it stands at the same version
    assert question.ids("t") == ["a third"]


def test_a_log_that_was_cleaned_up_changes_no_answer(warehouse: Warehouse, question: Question) -> None:
    append(warehouse, "t", "b")
    question.ids("t")
    DeltaTable(warehouse.uri("t")).create_checkpoint()
    for commit in sorted((warehouse.folder / "t" / "_delta_log").glob("*.json"))[:-1]:
        commit.unlink()
    assert (question.ids("t"), question.asked) == (["a", "b"], 1)


def test_what_changes_while_it_is_looked_at_is_looked_at_again(warehouse: Warehouse) -> None:
    remembered = Remembered[str, int](most=2)
    versions = []

    def read_and_be_overtaken(name: str) -> int:
        table = Table.open(warehouse, name)
        assert table is not None
        versions.append(table.version)
        append(warehouse, name, "by another")
        return table.version

    first, second = (remembered.of(warehouse, ["t"], read_and_be_overtaken)["t"] for _ in range(2))
    assert versions == [first, second]
    assert second == first + 1


def test_who_watches_sees_also_the_tables_of_what_is_remembered(warehouse: Warehouse, question: Question) -> None:
    question.ids("t")
    with seen(warehouse) as tables:
        question.ids("t")
    assert (question.asked, tables.tables, tables.is_unchanged()) == (1, ("t",), True)
    append(warehouse, "t", "b")
    assert not tables.is_unchanged()


def test_what_fails_is_not_remembered(warehouse: Warehouse) -> None:
    remembered = Remembered[str, int](most=2)

    def fail(_: str) -> int:
        raise LookupError

    for _ in range(2):
        with pytest.raises(LookupError):
            remembered.of(warehouse, ["t"], fail)


def test_only_so_many_answers_are_kept(warehouse: Warehouse, question: Question) -> None:
    for name in ("u", "v"):
        append(warehouse, name, name)
    for name in ("t", "u", "v"):
        question.ids(name)
    question.ids("v"), question.ids("u")
    assert question.asked == 3
    question.ids("t")
    assert question.asked == 4


def test_of_a_store_that_answers_late_many_questions_are_asked_beside_each_other(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for the others to be asked too; whoever watches is given the tables of all."""
    monkeypatch.setattr(Warehouse, "is_local", False)
    monkeypatch.setattr(Warehouse, "uri", lambda of, name: str(Path(of.root) / name))
    monkeypatch.setattr(Warehouse, "filesystem", lambda of, name: SubTreeFileSystem(of.uri(name), LocalFileSystem()))
    names = [f"t{number}" for number in range(4)]
    for name in names:
        append(warehouse, name, name)
    together = Barrier(len(names))

    def ask(name: str) -> str:
        together.wait(BOUND_SECONDS)
        table = Table.open(warehouse, name)
        assert table is not None
        return str(table.scan()["Id"][0])

    with seen(warehouse) as watched:
        found = Remembered[str, str](most=9).of(warehouse, names, ask)
    assert found == {name: name for name in names}
    assert sorted(watched.tables) == names
    with pytest.raises(ZeroDivisionError):
        Remembered[str, float](most=9).of(warehouse, names, lambda _: 1 / 0)
