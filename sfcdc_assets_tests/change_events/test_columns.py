"""The columns of an entity's tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sfcdc_assets.change_events import Column, ColumnType, arrow_schema, columns, columns_of_arrow_schema
from sfcdc_assets_tests.change_events.written_event import described_object, event_schema, optional, record, texts

SCHEMA = event_schema(
    optional("Name", "string", record("Switchable_PersonName", *texts("FirstName", "LastName"))),
    optional("BillingAddress", record("Address", *texts("City", "Xyz"), optional("Latitude", "double"))),
    optional("ParentId", "string", doc="ForeignKey:EntityId"),
    optional("AnnualRevenue", "double", doc="Data:Currency"),
    optional("NumberOfEmployees", "int", doc="Data:Integer"),
    optional("Active", "boolean", doc="Data:Boolean"),
    optional("CreatedDate", "long", doc="CreatedDate:DateTime"),
    optional("Due__c", "long", doc="Data:DateOnly:00NDp000009Rr9I"),
    optional("At__c", "long", doc="Data:TimeOnly:00NDp000009RrA1"),
    optional("Description", "string", doc="Data:StringPlusClob"),
    optional("Notes__c", "string", doc="Data:HtmlStringPlusClob:00NDp000009Rr9w"),
    optional("Level__c", "string", doc="Data:MultiEnum:00NDp000009Rr9m"),
)


def described(name: str, salesforce_type: str, length: int = 0) -> dict[str, Any]:
    return {"name": name, "type": salesforce_type, "length": length}


def test_without_describe_types_come_from_the_schemas_docs() -> None:
    assert columns(SCHEMA) == (
        Column("Id", ColumnType.STRING, False, "id"),
        Column("Name", ColumnType.STRING, False, "string"),
        Column("FirstName", ColumnType.STRING, False, "string"),
        Column("LastName", ColumnType.STRING, False, "string"),
        Column("BillingCity", ColumnType.STRING, False, "string"),
        Column("BillingLatitude", ColumnType.DOUBLE, False, "double"),
        Column("ParentId", ColumnType.STRING, False, "reference"),
        Column("AnnualRevenue", ColumnType.DOUBLE, False, "currency"),
        Column("NumberOfEmployees", ColumnType.INT, False, "int"),
        Column("Active", ColumnType.BOOLEAN, False, "boolean"),
        Column("CreatedDate", ColumnType.TIMESTAMP, False, "datetime"),
        Column("Due__c", ColumnType.DATE, False, "date"),
        Column("At__c", ColumnType.STRING, False, "time"),
        Column("Description", ColumnType.STRING, True, "textarea"),
        Column("Notes__c", ColumnType.STRING, True, "textarea"),
        Column("Level__c", ColumnType.STRING, False, "multipicklist"),
    )


def test_describe_says_which_columns_are_formulas_and_the_tables_remember_it() -> None:
    rollup = described("NumberOfEmployees", "int") | {"calculated": True}
    formula = described("AnnualRevenue", "currency") | {"calculated": True, "calculatedFormula": "1 + 1"}
    found = columns(SCHEMA, described_object([described("Id", "id", 18), rollup, formula]))
    assert {column.name: column.is_formula for column in found} == {
        "Id": False,
        "NumberOfEmployees": False,
        "AnnualRevenue": True,
    }
    again = columns_of_arrow_schema(arrow_schema(found))
    assert [column.is_formula for column in again] == [column.is_formula for column in found]


def test_describe_gives_order_and_types_and_hides_what_it_lacks() -> None:
    describe = described_object(
        [
            described("Id", "id", 18),
            described("IsDeleted", "boolean"),
            described("Description", "textarea", 32_000),
            described("Name", "string", 255),
            described("BillingCity", "string", 40),
            described("BillingAddress", "address"),
            described("AnnualRevenue", "currency"),
            described("SystemModstamp", "datetime"),
            described("ParentId", "reference", 18),
        ]
    )
    assert [column.name for column in columns(SCHEMA, describe)] == [
        "Id",
        "Description",
        "Name",
        "BillingCity",
        "AnnualRevenue",
        "ParentId",
    ]
    assert columns(SCHEMA, describe)[1].large_text


@pytest.mark.parametrize(
    ("salesforce_type", "column_type"),
    [
        ("boolean", ColumnType.BOOLEAN),
        ("int", ColumnType.INT),
        ("double", ColumnType.DOUBLE),
        ("currency", ColumnType.DOUBLE),
        ("percent", ColumnType.DOUBLE),
        ("date", ColumnType.DATE),
        ("datetime", ColumnType.TIMESTAMP),
        ("time", ColumnType.STRING),
        ("picklist", ColumnType.STRING),
        ("multipicklist", ColumnType.STRING),
        ("reference", ColumnType.STRING),
        ("encryptedstring", ColumnType.STRING),
        ("textarea", ColumnType.STRING),
    ],
)
def test_describe_decides_the_type(salesforce_type: str, column_type: ColumnType) -> None:
    schema = event_schema(optional("Field__c", "double", doc="Data:Double:00NDp000009Rr9S"))
    (_, column) = columns(schema, described_object([described("Field__c", salesforce_type)]))
    assert column == Column("Field__c", column_type, False, salesforce_type)


@pytest.mark.parametrize(("length", "large"), [(999, False), (1000, True)])
def test_a_long_text_area_may_come_as_a_diff(length: int, large: bool) -> None:
    schema = event_schema(optional("Field__c", "string"))
    (_, column) = columns(schema, described_object([described("Field__c", "textarea", length)]))
    assert column.large_text is large


def test_the_arrow_schema_is_nullable_in_utc_and_leads_back_to_the_columns() -> None:
    made = arrow_schema(columns(SCHEMA))
    assert all(field.nullable for field in made)
    assert made.field("CreatedDate").type == pa.timestamp("us", tz="UTC")
    assert made.field("Due__c").type == pa.date32()
    assert made.field("NumberOfEmployees").type == pa.int32()
    assert made.field("AnnualRevenue").metadata == {b"salesforce.type": b"currency"}
    table = pa.schema([*made, ("_position", pa.int64())])
    assert columns_of_arrow_schema(table) == columns(SCHEMA)
