"""The table of a page, the query behind it, and the progress beside it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.salesforce.errors import UnexpectedAnswer
from sfcdc_assets.snapshot.pages import (
    FEWEST_ROWS_PER_PAGE,
    MOST_ROWS_PER_PAGE,
    csv_schema,
    page_schema,
    page_table,
    rows_per_page,
)
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.snapshot.soql import selected_fields, snapshot_query

COLUMNS = (
    Column("Id", ColumnType.STRING, False, "id"),
    Column("Name", ColumnType.STRING, False, "string"),
    Column("Opens__c", ColumnType.STRING, False, "time"),
    Column("Score__c", ColumnType.DOUBLE, False, "double"),
)
FIELDS = ("Id", "IsDeleted", "SystemModstamp", "Name", "Opens__c", "Score__c", "MasterRecordId")
AT = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)


def rows(**columns: list[object]) -> pa.Table:
    types = csv_schema(COLUMNS)
    return pa.table({name: pa.array(values, types.field(name).type) for name, values in columns.items()})


def two_rows() -> pa.Table:
    return rows(
        Id=["b", "a"],
        IsDeleted=[True, False],
        SystemModstamp=[AT, AT],
        Name=["B", None],
        Opens__c=["10:15:30.000Z", None],
        Score__c=[1.5, None],
        MasterRecordId=["a", None],
    )


def test_a_page_is_sorted_by_id_and_ends_with_what_the_stream_does_not_carry():
    table = page_table(two_rows(), FIELDS, COLUMNS, source="a job")
    assert table.schema == page_schema(COLUMNS)
    assert table.schema.names == [
        *(column.name for column in COLUMNS),
        "_is_deleted",
        "_system_modstamp",
        "_master_record_id",
    ]
    assert table["Id"].to_pylist() == ["a", "b"]
    assert table.slice(1).to_pylist() == [
        {
            "Id": "b",
            "Name": "B",
            "Opens__c": "10:15:30.000",
            "Score__c": 1.5,
            "_is_deleted": True,
            "_system_modstamp": AT,
            "_master_record_id": "a",
        }
    ]


def test_a_column_that_was_not_asked_for_is_null_with_its_type():
    fields = tuple(name for name in FIELDS if name not in ("Score__c", "MasterRecordId"))
    table = page_table(two_rows(), fields, COLUMNS, source="a job")
    assert table.schema == page_schema(COLUMNS)
    assert table["Score__c"].null_count == table["_master_record_id"].null_count == 2


def test_records_of_an_entity_that_cannot_be_deleted_are_not_deleted():
    fields = tuple(name for name in FIELDS if name != "IsDeleted")
    table = page_table(two_rows().drop_columns(["IsDeleted"]), fields, COLUMNS, source="a job")
    assert table["_is_deleted"].to_pylist() == [False, False]


def test_a_field_that_was_asked_for_and_is_not_in_the_page_is_reported():
    with pytest.raises(UnexpectedAnswer, match=r"a job.*a page lacks Name"):
        page_table(two_rows().drop_columns(["Name"]), FIELDS, COLUMNS, source="a job")


def test_an_empty_page_has_the_whole_schema_even_without_a_header():
    assert page_table(csv_schema(COLUMNS[:1]).empty_table(), FIELDS, COLUMNS, source="a job").schema == page_schema(
        COLUMNS
    )


def test_hidden_fields_are_left_out_of_the_query_and_the_three_come_first():
    described = {"Id", "IsDeleted", "SystemModstamp", "Name", "MasterRecordId"}
    fields = selected_fields(["Id", "Name", "Hidden__c"], described)
    assert snapshot_query("Account", fields) == (
        "SELECT Id, IsDeleted, SystemModstamp, Name, MasterRecordId FROM Account"
    )


def test_an_entity_without_master_records_or_recycle_bin_is_asked_for_neither():
    assert selected_fields(["Id", "Name"], {"Id", "SystemModstamp", "Name"}) == ("Id", "SystemModstamp", "Name")


@given(st.sets(st.sampled_from(FIELDS)), st.lists(st.sampled_from(FIELDS), unique=True))
def test_no_field_is_asked_for_twice_or_without_being_described(described, names):
    fields = selected_fields(names, described)
    assert len(set(fields)) == len(fields)
    assert set(fields) <= described


def test_progress_survives_json():
    progress = SnapshotProgress(3, "Account", "/data/ChangeEvents", 2**40, "750", "MTAw", 2, 50, False, 1, FIELDS, 70)
    assert SnapshotProgress.from_json(json.loads(json.dumps(progress.to_json()))) == progress


@given(st.integers(1, 900), st.integers(0, 200))
def test_wide_entities_have_smaller_pages_within_bounds(narrow, large):
    columns = [Column(f"C{n}", ColumnType.STRING, n < large, "string") for n in range(narrow + large)]
    assert FEWEST_ROWS_PER_PAGE <= rows_per_page(columns) <= MOST_ROWS_PER_PAGE
    assert rows_per_page(columns) <= rows_per_page(columns[:1])
