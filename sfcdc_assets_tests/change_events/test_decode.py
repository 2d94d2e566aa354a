"""EventDecoder: which cells an event sets, and to what."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.change_events import (
    BitmapError,
    ChangeEventError,
    Column,
    ColumnType,
    EventDecoder,
    EventSchemaError,
    PayloadError,
    columns,
)
from sfcdc_assets.change_events.field_types import field_type
from sfcdc_assets_tests.change_events.written_event import (
    bitmap_of,
    event_schema,
    header,
    optional,
    payload,
    record,
    texts,
)

ADDRESS = record("Address", *texts("Street", "City"), optional("Latitude", "double"))
SCHEMA = event_schema(
    optional("Name", "string", record("Switchable_PersonName", *texts("FirstName", "LastName"))),
    optional("BillingAddress", ADDRESS, doc="Data:Address"),
    optional("ShippingAddress", "Address", doc="Data:Address"),
    optional("ParentId", "string", doc="ForeignKey:EntityId"),
    optional("AnnualRevenue", "double", doc="Data:Currency"),
    optional("NumberOfEmployees", "int", doc="Data:Integer"),
    optional("Active", "boolean", doc="Data:Boolean"),
    optional("CreatedDate", "long", doc="CreatedDate:DateTime"),
    optional("Due__c", "long", doc="Data:DateOnly:00NDp000009Rr9I"),
    optional("At__c", "long", doc="Data:TimeOnly:00NDp000009RrA1"),
    optional("Description", "string", doc="Data:StringPlusClob"),
    optional("Prefs", {"type": "array", "items": "string"}, doc="Data:BitVector"),
)
COLUMNS = columns(SCHEMA)
NAMES = [column.name for column in COLUMNS]
DECODER = EventDecoder(json.dumps(SCHEMA), COLUMNS)

BODY: dict[str, Any] = {
    "Name": "Acme",
    "BillingAddress": {"Street": "1 Main St", "City": "Köln", "Latitude": 50.9},
    "ParentId": "001Dp00000JJkkH",
    "AnnualRevenue": 3233.0,
    "NumberOfEmployees": 7,
    "Active": False,
    "CreatedDate": 1_689_984_000_123,
    "Due__c": -86_400_000,
    "At__c": 45_296_007,
    "Description": "long text",
    "Prefs": ["A", "B"],
}


def cells(head: dict[str, Any], body: dict[str, Any] | None = None, decoder: EventDecoder = DECODER) -> dict[str, Any]:
    decoded = decoder.decode(payload(SCHEMA, head, body))
    named = {NAMES[index]: value for index, value in decoded.cells}
    assert len(named) == len(decoded.cells), "a column twice"
    return named


def updated(*paths: str, nulled: tuple[str, ...] = (), diffs: tuple[str, ...] = ()) -> dict[str, Any]:
    return header(
        changedFields=bitmap_of(SCHEMA, *paths),
        nulledFields=bitmap_of(SCHEMA, *nulled),
        diffFields=bitmap_of(SCHEMA, *diffs),
    )


@pytest.mark.parametrize("change_type", ["CREATE", "UNDELETE"])
def test_a_new_record_sets_every_column_its_schema_carries(change_type: str) -> None:
    assert cells(header(change_type), BODY) == {
        "Name": "Acme",
        "FirstName": None,
        "LastName": None,
        "BillingStreet": "1 Main St",
        "BillingCity": "Köln",
        "BillingLatitude": 50.9,
        "ShippingStreet": None,
        "ShippingCity": None,
        "ShippingLatitude": None,
        "ParentId": "001Dp00000JJkkHIAT",
        "AnnualRevenue": 3233.0,
        "NumberOfEmployees": 7,
        "Active": False,
        "CreatedDate": 1_689_984_000_123_000,
        "Due__c": -1,
        "At__c": "12:34:56.007",
        "Description": "long text",
        "Prefs": "A;B",
    }


def test_a_whole_name_is_left_open_even_where_its_parts_have_no_columns() -> None:
    decoder = EventDecoder(json.dumps(SCHEMA), [Column("Id", ColumnType.STRING), Column("Name", ColumnType.STRING)])
    body = {"Name": {"FirstName": None, "LastName": "B"}}
    for head in (updated("Name.LastName"), updated("Name.FirstName", nulled=("Name.FirstName",)), header("CREATE")):
        decoded = decoder.decode(payload(SCHEMA, head, body))
        assert (decoded.cells, decoded.missing is not None) == ([], True)
    assert decoder.decode(payload(SCHEMA, updated("BillingAddress.City"), BODY)).missing is None


def test_a_person_account_has_the_parts_of_its_name_and_says_nothing_of_the_whole() -> None:
    decoded = cells(header("CREATE"), {"Name": {"FirstName": "Ada", "LastName": "L"}})
    assert (decoded["FirstName"], decoded["LastName"]) == ("Ada", "L")
    assert "Name" not in decoded
    person = DECODER.decode(payload(SCHEMA, header("CREATE"), {"Name": {"FirstName": "Ada", "LastName": "L"}}))
    assert person.missing is not None
    assert DECODER.decode(payload(SCHEMA, header("CREATE"), BODY)).missing is None
    assert DECODER.decode(payload(SCHEMA, updated("Active"), BODY)).missing is None


@pytest.mark.parametrize(
    "change_type", ["DELETE", "GAP_CREATE", "GAP_UPDATE", "GAP_DELETE", "GAP_OVERFLOW", "SNAPSHOT"]
)
def test_deletes_and_gaps_set_nothing(change_type: str) -> None:
    assert cells(header(change_type, changedFields=["0x02"]), BODY) == {}


def test_an_update_sets_only_what_its_bitmap_names() -> None:
    assert cells(updated("AnnualRevenue", "Active"), BODY) == {"AnnualRevenue": 3233.0, "Active": False}


def test_a_nulled_field_is_not_the_same_as_an_unchanged_one() -> None:
    assert cells(updated("Description", nulled=("Description",)), {}) == {"Description": None}


def test_a_nulled_field_that_the_changed_bitmap_forgot_is_still_nulled() -> None:
    assert cells(updated("Active", nulled=("Description",)), {"Active": True}) == {"Active": True, "Description": None}


def test_parts_of_an_address_change_alone() -> None:
    body = {"ShippingAddress": {"Street": "2 High St", "City": None, "Latitude": None}}
    head = updated("ShippingAddress.Street", "ShippingAddress.City", nulled=("ShippingAddress.City",))
    assert cells(head, body) == {"ShippingStreet": "2 High St", "ShippingCity": None}


def test_parts_of_an_address_that_is_null_as_a_whole_are_nulled() -> None:
    head = updated("BillingAddress.City", nulled=("BillingAddress.City",))
    assert cells(head, {}) == {"BillingCity": None}


def test_the_parent_alone_sets_all_parts() -> None:
    whole = {"BillingStreet": "1 Main St", "BillingCity": "Köln", "BillingLatitude": 50.9}
    assert cells(updated("BillingAddress"), BODY) == whole
    assert cells(updated("BillingAddress", nulled=("BillingAddress",))) == dict.fromkeys(whole)


def test_a_name_that_is_nulled_as_a_whole_nulls_its_parts_too() -> None:
    assert cells(updated("Name", nulled=("Name",))) == {"Name": None, "FirstName": None, "LastName": None}


def test_a_whole_address_with_a_nulled_part_sets_each_column_once() -> None:
    body = {"BillingAddress": {"Street": "1 Main St", "City": None, "Latitude": None}}
    head = updated("BillingAddress", "BillingAddress.City", nulled=("BillingAddress.City",))
    assert cells(head, body) == {"BillingStreet": "1 Main St", "BillingCity": None, "BillingLatitude": None}


def test_a_name_that_is_a_text_has_no_parts() -> None:
    assert cells(updated("Name"), {"Name": "Acme 2"}) == {"Name": "Acme 2", "FirstName": None, "LastName": None}


@pytest.mark.parametrize(
    ("head", "body", "expected"),
    [
        (updated("Name.LastName"), {"FirstName": None, "LastName": "B"}, {"LastName": "B"}),
        (
            updated("Name.FirstName", nulled=("Name.FirstName",)),
            {"FirstName": None, "LastName": None},
            {"FirstName": None},
        ),
        (updated("Name.FirstName", nulled=("Name.FirstName",)), None, {"FirstName": None}),
        (updated("Name"), {"FirstName": "A", "LastName": "B"}, {"FirstName": "A", "LastName": "B"}),
    ],
)
def test_what_the_parts_of_a_persons_name_are_together_is_left_open(
    head: dict[str, Any], body: dict[str, Any] | None, expected: dict[str, Any]
) -> None:
    written = payload(SCHEMA, head, {"Name": body})
    assert cells(head, {"Name": body}) == expected
    assert DECODER.decode(written).missing == "Name: the event carries the parts, not what they are together"


def test_enriched_values_that_did_not_change_are_not_cells() -> None:
    assert cells(updated("Active"), BODY) == {"Active": False}


def test_a_diff_is_marked_as_one() -> None:
    written = payload(SCHEMA, updated("Description", "Active", diffs=("Description",)), {"Description": "--- \n+++ 0f"})
    decoded = DECODER.decode(written)
    assert decoded.diff_columns == {NAMES.index("Description")}
    assert (NAMES.index("Description"), "--- \n+++ 0f") in decoded.cells


def test_a_nulled_text_is_no_diff() -> None:
    head = updated("Description", nulled=("Description",), diffs=("Description",))
    assert DECODER.decode(payload(SCHEMA, head)).diff_columns == frozenset()


def test_bytes_left_over_are_the_sign_of_a_wrong_schema() -> None:
    with pytest.raises(PayloadError, match="1 bytes are left over"):
        DECODER.decode(payload(SCHEMA, header("CREATE"), BODY) + b"\x00")


def test_a_field_added_later_is_noticed_in_both_directions() -> None:
    longer = event_schema(*SCHEMA["fields"][1:], optional("New__c", "string"))
    with pytest.raises(PayloadError):
        DECODER.decode(payload(longer, header("CREATE"), BODY))
    with pytest.raises(PayloadError):
        EventDecoder(json.dumps(longer), COLUMNS).decode(payload(SCHEMA, header("CREATE"), BODY))


def test_bits_beyond_the_schema_are_refused() -> None:
    with pytest.raises(BitmapError):
        DECODER.decode(payload(SCHEMA, header(changedFields=["0x800000"])))


def test_a_part_of_a_value_without_parts_is_refused() -> None:
    with pytest.raises(PayloadError, match="AnnualRevenue"):
        DECODER.decode(payload(SCHEMA, header(changedFields=["5-0x01"]), BODY))
    with pytest.raises(PayloadError, match=r"Account\.Name\.LastName"):
        DECODER.decode(payload(SCHEMA, updated("Name.LastName"), BODY))


def test_fields_without_a_column_are_dropped_and_columns_without_a_field_get_no_cell() -> None:
    chosen = (COLUMNS[0], Column("Retired__c", ColumnType.STRING), Column("BillingCity", ColumnType.STRING))
    decoder = EventDecoder(json.dumps(SCHEMA), chosen)
    assert decoder.decode(payload(SCHEMA, header("CREATE"), BODY)).cells == [(2, "Köln")]
    assert decoder.decode(payload(SCHEMA, updated("Active"), BODY)).cells == []


def test_an_empty_text_is_null_as_salesforce_has_it() -> None:
    assert cells(updated("Description"), {"Description": ""}) == {"Description": None}


@pytest.mark.parametrize(
    ("avro_type", "doc", "column", "value", "expected"),
    [
        ("double", "Data:Double", Column("F", ColumnType.STRING), 3233.0, "3233"),
        ("double", "Data:Double", Column("F", ColumnType.STRING), 0.1, "0.1"),
        ("double", "Data:Double", Column("F", ColumnType.STRING), 1e21, "1000000000000000000000"),
        ("double", "Data:Double", Column("F", ColumnType.STRING), 1e-7, "0.0000001"),
        ("double", "Data:Double", Column("F", ColumnType.INT), 7.0, 7),
        ("int", "Data:Integer", Column("F", ColumnType.DOUBLE), 7, 7.0),
        ("int", "Data:Integer", Column("F", ColumnType.STRING), 7, "7"),
        ("boolean", "Data:Boolean", Column("F", ColumnType.STRING), True, "true"),
        ("long", "Data:DateTime", Column("F", ColumnType.STRING), 0, "1970-01-01T00:00:00.000Z"),
        ("long", "Data:DateOnly", Column("F", ColumnType.STRING), 86_400_000, "1970-01-02"),
        ("long", "Data:DateOnly", Column("F", ColumnType.TIMESTAMP), 86_400_000, 86_400_000_000),
        ("long", "", Column("F", ColumnType.DATE, False, "date"), 86_400_000, 1),
        ("long", "", Column("F", ColumnType.STRING), 86_400_000, "86400000"),
        ("long", "", Column("F", field_type("long").column, False, "long"), 2**40, "1099511627776"),
        ("string", "Data:Text", Column("F", ColumnType.DOUBLE), "1.5", 1.5),
        ("string", "Data:Text", Column("F", ColumnType.DOUBLE), " -1.5E3 ", -1500.0),
        ("string", "Data:Text", Column("F", ColumnType.INT), "7.0", 7),
        ("string", "ForeignKey:EntityId", Column("F", ColumnType.STRING), "001Dp00000JJkkH", "001Dp00000JJkkHIAT"),
        ("string", "", Column("F", ColumnType.STRING, False, "reference"), "001Dp00000JJkkH", "001Dp00000JJkkHIAT"),
        (
            "string",
            "ExternalForeignKey:ExternalId",
            Column("F", ColumnType.STRING, False, "reference"),
            "KEY-OF-15-CHARS",
            "KEY-OF-15-CHARS",
        ),
        ("string", "Data:Text", Column("F", ColumnType.STRING), "001Dp00000JJkkH", "001Dp00000JJkkH"),
    ],
)
def test_a_value_of_another_type_is_converted_where_nothing_is_lost(
    avro_type: str, doc: str, column: Column, value: Any, expected: Any
) -> None:
    schema = event_schema(optional("F", avro_type, doc=doc))
    decoded = EventDecoder(json.dumps(schema), [column]).decode(payload(schema, header("CREATE"), {"F": value}))
    assert decoded.cells == [(0, expected)]
    assert type(decoded.cells[0][1]) is type(expected)


@pytest.mark.parametrize(
    ("avro_type", "doc", "column_type", "value"),
    [
        ("double", "Data:Double", ColumnType.INT, 7.5),
        ("double", "Data:Double", ColumnType.INT, float("nan")),
        ("int", "Data:Integer", ColumnType.INT, 2**31 - 1 + 0),
        ("string", "Data:Text", ColumnType.BOOLEAN, "maybe"),
        ("string", "Data:Text", ColumnType.DOUBLE, "many"),
        ("string", "Data:Text", ColumnType.DOUBLE, "nan"),
        ("string", "Data:Text", ColumnType.DOUBLE, "1_000"),
        ("string", "Data:Text", ColumnType.INT, "inf"),
        ("long", "Data:DateTime", ColumnType.TIMESTAMP, 2**62),
        ("long", "Data:TimeOnly", ColumnType.STRING, -1),
        ("long", "Data:DateTime", ColumnType.DATE, 1),
    ],
)
def test_a_value_that_does_not_fit_names_its_field(
    avro_type: str, doc: str, column_type: ColumnType, value: Any
) -> None:
    schema = event_schema(optional("F", avro_type, doc=doc))
    decoder = EventDecoder(json.dumps(schema), [Column("F", column_type)])
    written = payload(schema, header("CREATE"), {"F": value})
    if value == 2**31 - 1:
        assert decoder.decode(written).cells == [(0, value)]  # the largest that does
        return
    with pytest.raises(PayloadError, match=r"Account\.F"):
        decoder.decode(written)


@pytest.mark.parametrize("schema_json", ["", "[]", "{}", '{"fields": []}', json.dumps(event_schema({"name": "F"}))])
def test_what_is_not_a_change_events_schema_is_refused(schema_json: str) -> None:
    with pytest.raises(EventSchemaError):
        EventDecoder(schema_json, COLUMNS)


def test_a_schema_with_an_unknown_type_is_refused() -> None:
    with pytest.raises(EventSchemaError, match="fastavro"):
        EventDecoder(json.dumps(event_schema(optional("F", "Nowhere"))), COLUMNS)


TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
INSTANT = st.integers(-62_135_596_800_000, 253_402_300_799_999)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BillingAddress.Street": TEXT,
    "BillingAddress.City": TEXT,
    "BillingAddress.Latitude": NUMBER,
    "ShippingAddress.City": TEXT,
    "AnnualRevenue": NUMBER,
    "NumberOfEmployees": st.integers(-(2**31), 2**31 - 1),
    "Active": st.booleans(),
    "CreatedDate": INSTANT,
    "Due__c": st.integers(-719_162, 2_932_896).map(lambda day: day * 86_400_000),
}
STORED: dict[str, Callable[[Any], Any]] = {"CreatedDate": lambda ms: ms * 1000, "Due__c": lambda ms: ms // 86_400_000}


@given(st.fixed_dictionaries({}, optional={path: st.none() | value for path, value in VALUES.items()}))
def test_an_update_gives_back_exactly_the_changes_that_were_written(changes: dict[str, Any]) -> None:
    body: dict[str, Any] = {"Description": "unchanged, enriched"}
    for path, value in changes.items():
        parent, _, child = path.partition(".")
        if child:
            body.setdefault(parent, {"Street": None, "City": None, "Latitude": None})[child] = value
        else:
            body[parent] = value
    nulled = tuple(path for path, value in changes.items() if value is None)
    assert cells(updated(*changes, nulled=nulled), body) == {
        path.replace("Address.", ""): None if value is None else STORED.get(path, lambda same: same)(value)
        for path, value in changes.items()
    }


@given(st.data())
def test_damaged_bytes_are_an_event_or_a_change_event_error(data: st.DataObject) -> None:
    written = bytearray(payload(SCHEMA, updated("Name", "BillingAddress.City"), BODY))
    for _ in range(data.draw(st.integers(1, 3))):
        written[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(written)))
    for damaged in (bytes(written), bytes(written[:cut])):
        with contextlib.suppress(ChangeEventError):
            DECODER.decode(damaged)
