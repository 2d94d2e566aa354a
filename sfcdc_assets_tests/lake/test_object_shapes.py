"""Tables of what objects look like: current and versioned, and no commit where a describe says the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.maintenance.maintained_tables import SINGLE
from sfcdc_assets.lake.maintenance.pack import pack
from sfcdc_assets.lake.tables.object_shapes import ShapeKeeper, keep_shapes
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.salesforce.object_shape import SHAPE_TABLES, ObjectShape

T0 = 1_800_000_000_000
HOUR = 3_600_000


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path / "warehouse"))


def shape(entity: str = "Account", **labels: str) -> ObjectShape:
    """An object with a picklist of these values, and a field for each of them."""
    values = [{"value": value, "label": label, "active": True} for value, label in labels.items()]
    fields = [{"name": f"{value}__c", "type": "string"} for value in labels]
    picklist = {"name": "Stage", "type": "picklist", "picklistValues": values}
    return ObjectShape.from_describe({"name": entity, "label": entity, "fields": [picklist, *fields]})


def versions(warehouse: Warehouse) -> Mapping[str, int]:
    found = {each.name: Table.open(warehouse, each.name) for each in SHAPE_TABLES}
    return {name: table.version for name, table in found.items() if table is not None}


def labels(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    """Value, label, and the hours from and to which they were valid."""
    table = Table.open(warehouse, "picklist_values")
    assert table is not None
    rows = sorted(table.rows(), key=lambda row: (row["entity_name"], row["value"], row["_valid_from"]))
    return [
        (f"{row['entity_name']}.{row['value']}", row["label"], hours(row["_valid_from"]), hours(row["_valid_to"]))
        for row in rows
    ]


def hours(at: datetime | None) -> float | None:
    return None if at is None else (at - datetime.fromtimestamp(T0 / 1000, UTC)).total_seconds() / 3600


def test_a_describe_that_says_the_same_writes_nothing(warehouse: Warehouse) -> None:
    keep_shapes(warehouse, [shape(a="A"), shape("Contact", a="A")], T0)
    before = versions(warehouse)
    assert set(before) == {each.name for each in SHAPE_TABLES}
    keep_shapes(warehouse, [shape(a="A")], T0 + HOUR)
    keep_shapes(warehouse, [], T0 + HOUR)
    assert versions(warehouse) == before


def test_what_changes_ends_one_row_and_begins_another_and_all_else_stays(warehouse: Warehouse) -> None:
    keep_shapes(warehouse, [shape(a="A", b="B"), shape("Contact", a="A")], T0)
    before = versions(warehouse)
    keep_shapes(warehouse, [shape(a="Alpha", b="B")], T0 + HOUR)
    assert labels(warehouse) == [
        ("Account.a", "A", 0, 1),
        ("Account.a", "Alpha", 1, None),
        ("Account.b", "B", 0, None),
        ("Contact.a", "A", 0, None),
    ]
    changed = {name for name, version in versions(warehouse).items() if version != before[name]}
    assert changed == {"picklist_values"}, "only the table that says something new has a commit"


def test_what_is_gone_ends_and_what_comes_back_is_a_version_of_its_own(warehouse: Warehouse) -> None:
    for hour, of in enumerate([shape(a="A", b="B"), shape(a="A"), shape(a="A", b="B")]):
        keep_shapes(warehouse, [of], T0 + hour * HOUR)
    assert labels(warehouse) == [("Account.a", "A", 0, None), ("Account.b", "B", 0, 1), ("Account.b", "B", 2, None)]


def test_a_clock_that_stands_or_is_set_back_lets_no_two_versions_overlap(warehouse: Warehouse) -> None:
    for at_ms, label in ((T0, "A"), (T0, "B"), (T0 - HOUR, "C")):
        keep_shapes(warehouse, [shape(a=label)], at_ms)
    found = labels(warehouse)
    assert [label for _, label, _, _ in found] == ["A", "B", "C"]
    assert [to for *_, to in found] == [*(begins for *_, begins, _ in found[1:]), None]
    assert all(begins < to for *_, begins, to in found if to is not None)


def test_of_many_that_write_at_once_each_has_its_rows(warehouse: Warehouse) -> None:
    names = [f"X{number}__c" for number in range(6)]
    for at_ms, label in ((T0, "A"), (T0 + HOUR, "B")):
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda name: keep_shapes(warehouse, [shape(name, a=label)], at_ms), names))  # noqa: B023
    assert labels(warehouse) == [
        row for name in names for row in ((f"{name}.a", "A", 0, 1), (f"{name}.a", "B", 1, None))
    ]


def test_a_table_that_cannot_be_read_stops_none_of_the_others(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    keep_shapes(warehouse, [shape(a="A")], T0)
    for file in (warehouse.folder / "fields" / "_delta_log").iterdir():
        file.write_text("{")
    keep_shapes(warehouse, [shape(a="B")], T0 + HOUR)
    assert labels(warehouse)[-1] == ("Account.a", "B", 1, None)


def test_packed_tables_have_the_same_rows_and_know_what_was_described(warehouse: Warehouse) -> None:
    names = [f"X{number}__c" for number in range(12)]
    for name in names:
        keep_shapes(warehouse, [shape(name, a="A")], T0)
    keep_shapes(warehouse, [shape(names[0], a="B")], T0 + HOUR)
    known = labels(warehouse)
    for table in SHAPE_TABLES:
        if table.name in ("objects", "fields", "picklist_values"):  # the others have no row
            assert pack(warehouse, table.name, SINGLE[table.name]).into == 1
    assert labels(warehouse) == known
    before = versions(warehouse)
    keep_shapes(warehouse, [shape(name, a="B" if name == names[0] else "A") for name in names], T0 + 2 * HOUR)
    assert versions(warehouse) == before
    keep_shapes(warehouse, [shape(names[1], a="B")], T0 + 2 * HOUR)
    assert len(labels(warehouse)) == len(known) + 1


def test_a_table_that_was_removed_is_written_again(warehouse: Warehouse) -> None:
    keep_shapes(warehouse, [shape(a="A")], T0)
    for file in sorted((warehouse.folder / "fields").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    keep_shapes(warehouse, [shape(a="A")], T0 + HOUR)
    table = Table.open(warehouse, "fields")
    assert table is not None
    assert {row["name"] for row in table.rows()} == {"Stage", "a__c"}


def test_objects_that_are_described_one_after_another_are_kept_in_one_commit(warehouse: Warehouse) -> None:
    """A first copy of 500 objects, each of which committed to five tables, made 2,500 commits."""
    with closing(ShapeKeeper(warehouse, HOUR)) as keeper:
        for entity in ("Account", "Contact", "Case", "Account"):
            keeper.add(shape(entity, a=f"{entity}, described last"))
    created, one = 0, 1
    assert set(versions(warehouse).values()) == {created + one}
    assert {row[0] for row in labels(warehouse)} == {"Account.a", "Contact.a", "Case.a"}


def test_what_was_described_is_kept_soon_while_the_copies_go_on(warehouse: Warehouse) -> None:
    with closing(ShapeKeeper(warehouse, 0.01)) as keeper:
        keeper.add(shape(a="A"))
        ends_at = time.monotonic() + 30
        while not versions(warehouse) and time.monotonic() < ends_at:
            threading.Event().wait(0.02)
        keeper.add(shape(a="B"))
    assert [row[1] for row in labels(warehouse)] == ["A", "B"]
