"""What lies beside a record's own tables goes with it and stays away: its history in the org, formulas of its values,
what polls bring of either; in a folder as in an object store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import ID_COLUMN, Column
from sfcdc_assets.change_events.raw_event_rows import RAW_EVENTS
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.erasure.erase import erase
from sfcdc_assets.lake.tables.companions import columns_of_parent, companions_of
from sfcdc_assets.lake.tables.erasure_receipts import OnNewEvent, erased_records, without_erased
from sfcdc_assets.lake.tables.poll_mark import PollMark
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.snapshot.pages import page_schema
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.timeline.read_rows import read_schema
from sfcdc_assets.timeline.version_columns import current_state_schema
from sfcdc_assets_tests.leaks import files_with
from sfcdc_assets_tests.pipeline.stores.s3_server import BUCKET, s3_server
from sfcdc_assets_tests.store_login import log_in

CHANNEL = "/data/ChangeEvents"
PERSON, OTHER = "003Dp0000000001IAA", "003Dp0000000002IAA"
VALUES = {"a name": "Zambrowitzka", "an old name": "Brzeczykowa", "a formula": "Madam Zambrowitzka"}
VALUES |= {"a later name": "Grzegrzolkowa"}
OF_CONTACT = [ID_COLUMN, Column("LastName", ColumnType.STRING)]
OF_HISTORY = [ID_COLUMN, Column("ContactId", ColumnType.STRING), Column("OldValue", ColumnType.STRING)]


@pytest.fixture(params=["a folder", pytest.param("an object store", marks=pytest.mark.slow)])
def warehouse(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Warehouse]:
    if request.param == "a folder":
        yield Warehouse(str(tmp_path / "warehouse"))
        return
    with s3_server() as server:
        log_in(server.environment, monkeypatch)
        yield Warehouse(f"s3://{BUCKET}/warehouse")


def copy(warehouse: Warehouse, entity: str, columns: list[Column], *rows: dict[str, str]) -> None:
    """A complete snapshot."""
    taken = Snapshots.open_or_create(warehouse, entity, columns)
    names = tuple(column.name for column in columns)
    progress = SnapshotProgress(1, entity, CHANNEL, 5, "750", None, 1, len(rows), True, 1_000, names)
    taken.begin(progress)
    found = [{**row, "_is_deleted": False} for row in rows]
    taken.add_page(pa.Table.from_pylist(found, schema=page_schema(columns)), progress, 2_000)


def history_of(record: str, number: int, value: str) -> dict[str, str]:
    return {"Id": f"017Dp000000000{number}AAA", "ContactId": record, "OldValue": value}


def found_in(warehouse: Warehouse, folder: Path) -> list[str]:
    shutil.rmtree(folder, ignore_errors=True)
    source = warehouse.filesystem("")
    fs.copy_files("", str(folder), source_filesystem=source, destination_filesystem=fs.LocalFileSystem())
    return files_with(VALUES, folder)


def test_history_and_formulas_go_with_the_record_and_no_poll_brings_them_back(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    contacts = ({"Id": PERSON, "LastName": VALUES["a name"]}, {"Id": OTHER, "LastName": "Neighbour"})
    copy(warehouse, "Contact", OF_CONTACT, *contacts)
    changes = (history_of(PERSON, 1, VALUES["an old name"]), history_of(OTHER, 2, "Neighbour's"))
    copy(warehouse, "ContactHistory", OF_HISTORY, *changes)
    schema = pa.schema([("Id", pa.string()), ("Salutation__c", pa.string())])
    formulas = [{"Id": PERSON, "Salutation__c": VALUES["a formula"]}, {"Id": OTHER, "Salutation__c": "Sir"}]
    Table.open_or_create(warehouse, "formula_values/Contact", schema).append(
        pa.Table.from_pylist(formulas, schema=schema), {}, {}
    )
    lookup = Column("ContactId", ColumnType.STRING, salesforce_type="reference")
    cases = pa.Table.from_pylist(
        [{"Id": "500Dp0000000001IAA", "ContactId": PERSON}, {"Id": "500Dp0000000002IAA", "ContactId": OTHER}],
        schema=current_state_schema([ID_COLUMN, lookup]),
    )
    Table.open_or_create(warehouse, "current_state/Case", cases.schema).append(cases, {}, {})
    of_cases = [
        {"Id": "500Dp0000000001IAA", "Salutation__c": f"Case of {VALUES['a formula']}"},
        {"Id": "500Dp0000000002IAA", "Salutation__c": "Case of Sir"},
    ]
    Table.open_or_create(warehouse, "formula_values/Case", schema).append(
        pa.Table.from_pylist(of_cases, schema=schema), {}, {}
    )
    before = found_in(warehouse, tmp_path / "copy")
    assert {each.split(" in ")[0] for each in before} == {*VALUES} - {"a later name"}

    _, done = erase(warehouse, {"Contact": frozenset([PERSON])}, on_new_event=OnNewEvent.REFUSE, by="a test")

    assert {*done.erased} >= {"snapshot/Contact", "snapshot/ContactHistory", "formula_values/Contact"}
    assert done.erased["formula_values/Case"] == 1, "of another record, which refers to it"
    assert found_in(warehouse, tmp_path / "copy") == []
    polled = Snapshots.open(warehouse, "ContactHistory")
    assert polled is not None
    rows = [
        {**each, "_is_deleted": False, "_position": 9}
        for each in (history_of(PERSON, 3, VALUES["a later name"]), history_of(OTHER, 4, "Neighbour's next"))
    ]
    now = datetime(2026, 1, 1, tzinfo=UTC)
    polled.add_poll(pa.Table.from_pylist(rows, schema=read_schema(OF_HISTORY)), 3_000, PollMark(), now)
    assert found_in(warehouse, tmp_path / "copy") == []
    table = Table.open(warehouse, "snapshot/ContactHistory")
    assert table is not None
    assert {row["OldValue"] for row in table.rows(["OldValue"])} - {None} == {"Neighbour's", "Neighbour's next"}
    assert erased_records(warehouse).keeps_out(history_of(PERSON, 3, "")["Id"]), "no audit misses it"


@pytest.mark.parametrize("policy", list(OnNewEvent))
def test_a_polled_record_that_changes_after_it_was_erased_is_handled_as_the_receipt_says(
    tmp_path: Path, policy: OnNewEvent
) -> None:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    copy(warehouse, "Contact", OF_CONTACT, {"Id": PERSON, "LastName": VALUES["a name"]})
    erase(warehouse, {"Contact": frozenset([PERSON])}, on_new_event=policy, by="a test")
    before, after = datetime(2020, 1, 1, tzinfo=UTC), datetime.now(UTC) + timedelta(days=1)

    def poll(stamp: datetime, *, is_deleted: bool) -> set[str]:
        polled = Snapshots.open(warehouse, "Contact")
        assert polled is not None
        row = {"Id": PERSON, "LastName": VALUES["a later name"], "_is_deleted": is_deleted, "_position": 9}
        rows = pa.Table.from_pylist([{**row, "_system_modstamp": stamp}], schema=read_schema(OF_CONTACT))
        polled.add_poll(rows, 3_000, PollMark(), stamp)
        table = Table.open(warehouse, "snapshot/Contact")
        assert table is not None
        return {row["LastName"] for row in table.rows(["LastName"])} - {None}

    assert poll(before, is_deleted=False) == set(), "it is what was erased"
    assert poll(after, is_deleted=True) == set(), "who was deleted in the org is in its recycle bin with all values"
    begins = policy is OnNewEvent.NEW_LIFE
    assert poll(after, is_deleted=False) == ({VALUES["a later name"]} if begins else set())
    assert erased_records(warehouse).keeps_out(PERSON) is not begins


def test_a_delete_begins_no_erased_record_anew_unless_something_else_did_before(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    copy(warehouse, "Contact", OF_CONTACT, {"Id": PERSON, "LastName": VALUES["a name"]})
    erase(warehouse, {"Contact": frozenset([PERSON])}, on_new_event=OnNewEvent.NEW_LIFE, by="a test")
    after = datetime.now(UTC) + timedelta(days=1)

    def named_by(*change_types: str) -> list[list[str]]:
        row = {"entity_name": "Contact", "record_ids": [PERSON], "commit_timestamp": after}
        rows = [{**row, "change_type": each} for each in change_types]
        return without_erased(warehouse, pa.Table.from_pylist(rows, schema=RAW_EVENTS))["record_ids"].to_pylist()

    assert named_by("DELETE", "GAP_DELETE") == [[], []]
    assert erased_records(warehouse).keeps_out(PERSON)
    assert named_by("DELETE", "UNDELETE", "DELETE") == [[], [PERSON], [PERSON]]
    assert not erased_records(warehouse).keeps_out(PERSON)
    assert named_by("DELETE") == [[PERSON]]


def test_companions_are_recognised_by_their_names() -> None:
    assert companions_of("Contact") == ("ContactHistory", "ContactFeed", "ContactShare", "ContactTag")
    assert companions_of("Visit__c")[0] == "Visit__History"
    assert columns_of_parent("ContactShare") == ("ContactId", "ParentId")
    assert columns_of_parent("Visit__History") == ("ParentId",)
    assert columns_of_parent("Contact") == ()
