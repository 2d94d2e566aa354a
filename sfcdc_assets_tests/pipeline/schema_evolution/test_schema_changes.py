"""What changed between two schemas is reported column by column."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sfcdc_assets.schema_evolution.schema_changes import schema_changes


def column(name: str, type_: pa.DataType, salesforce: str, *, retired: bool = False) -> pa.Field:
    mark = {"salesforce.retired": "true"} if retired else {}
    return pa.field(name, type_, metadata={"salesforce.type": salesforce, **mark})


ID = column("Id", pa.string(), "id")
SIZE = column("Size__c", pa.int32(), "int")
ZONE = column("Zone__c", pa.string(), "picklist")


def description(before: list[pa.Field], after: list[pa.Field]) -> list[str]:
    return [str(change) for change in schema_changes(pa.schema(before), pa.schema(after))]


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ([ID, SIZE], [ID, SIZE], []),
        ([ID], [ID, SIZE, ZONE], ["Size__c added (int, int32)", "Zone__c added (picklist, string)"]),
        ([ID, SIZE], [ID, column("Size__c", pa.int32(), "int", retired=True)], ["Size__c retired (int, int32)"]),
        ([ID, column("Size__c", pa.int32(), "int", retired=True)], [ID, SIZE], ["Size__c returned (int, int32)"]),
        (
            [ID, SIZE],
            [ID, column("Size__c", pa.float64(), "double"), column("Size__c__before_1", pa.int32(), "int")],
            [
                "Size__c retyped (int, int32 -> double)",
                "Size__c__before_1 kept before (int, int32)",
            ],
        ),
        (
            [ZONE],
            [column("Zone__c", pa.string(), "url")],
            ["Zone__c retyped (picklist, string -> url, string)"],
        ),
        ([ID], [ID, column("Size__c", pa.int32(), "int", retired=True)], ["Size__c retired (int, int32)"]),
        ([ID, SIZE], [ID], ["Size__c removed (int, int32)"]),
        ([ID, SIZE], [SIZE, ID], []),
    ],
)
def test_each_change_of_a_column_is_reported(before: list[pa.Field], after: list[pa.Field], changes: list[str]) -> None:
    assert description(before, after) == changes


def test_a_new_table_is_no_change() -> None:
    assert schema_changes(None, pa.schema([ID, SIZE])) == ()
