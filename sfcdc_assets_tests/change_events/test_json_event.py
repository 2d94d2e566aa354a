"""Change events in JSON: the vendor's examples, and what a body does not say (Change Data Capture Developer Guide,
"Change Event Message Structure", "Merged Change Events", "Gap Events", "Overflow Events", "Change Events for Users",
"Creating and Undeleting a Person Account", "Lead Update Change Event", "Data Differences in Event Fields")."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sfcdc_assets.change_events import ChangeType, Column, DecodedEvent, HeaderError, PayloadError, columns
from sfcdc_assets.change_events.field_types import field_type
from sfcdc_assets.change_events.json_event import JsonEventDecoder, read_json_header
from sfcdc_assets_tests.change_events.written_event import event_schema, optional, record, texts

SCHEMA = event_schema(
    optional("Name", "string", record("Switchable_PersonName", *texts("Salutation", "FirstName", "LastName"))),
    optional("BillingAddress", record("Address", *texts("Street", "City", "State", "Country")), doc="Data:Address"),
    optional("Description", "string", doc="Data:StringPlusClob"),
    optional("Industry", "string", doc="Data:DynamicEnum"),
    optional("Fax", "string", doc="Data:Fax"),
    optional("External_Account_ID__c", "string", doc="Data:Text"),
    optional("Probability", "double", doc="Data:Percent"),
    optional("NumberOfEmployees", "int", doc="Data:Integer"),
    optional("IsConverted", "boolean", doc="Data:Boolean"),
    optional("ConvertedDate", "long", doc="Data:DateOnly"),
    optional("Opens__c", "long", doc="Data:TimeOnly"),
    optional("LastModifiedDate", "long", doc="Data:DateTime"),
    optional("EmailPreferences", {"type": "array", "items": "string"}, doc="Data:BitVector"),
)
COLUMNS = columns(SCHEMA)
DECODER = JsonEventDecoder(json.dumps(SCHEMA), COLUMNS)
HEADER = {
    "commitNumber": 10708862594919,
    "commitUser": "005B00000006GudtIAC",
    "sequenceNumber": 1,
    "entityName": "Account",
    "changeType": "UPDATE",
    "changedFields": [],
    "changeOrigin": "com/salesforce/api/soap/51.0;client=devconsole",
    "transactionKey": "0003d969-c182-f926-e9fd-146339d7288c",
    "commitTimestamp": 1611181990000,
    "recordIds": ["001B000001LiHPKIA3"],
}
DIFF = "--- \n+++ 682b8747\n@@ -2,1 +2,1 @@\n-Business applications\n+Business apps"
AT = 1_611_181_990_000_000
DAY_US = 86_400_000_000


def decoded(change_type: str, changed: list[str], **body: Any) -> DecodedEvent:
    head = {**HEADER, "changeType": change_type, "changedFields": changed}
    return DECODER.decode(json.dumps({**body, "ChangeEventHeader": head}).encode())


def named(event: DecodedEvent) -> dict[str, Any]:
    return {COLUMNS[index].name: value for index, value in event.cells}


@pytest.mark.parametrize(
    ("changed", "body", "cells"),
    [
        (
            ["Industry", "LastModifiedDate"],
            {"LastModifiedDate": "2021-01-20T22:33:10Z", "Industry": "Apparel"},
            {"LastModifiedDate": AT, "Industry": "Apparel"},
        ),
        (["LastModifiedDate"], {"LastModifiedDate": "2021-01-20T22:33:10.000+0000"}, {"LastModifiedDate": AT}),
        (["Fax"], {"Fax": None}, {"Fax": None}),
        (
            ["IsConverted", "ConvertedDate", "Probability"],
            {"IsConverted": True, "ConvertedDate": "2021-05-03", "Probability": 10},
            {"IsConverted": True, "ConvertedDate": 18_750, "Probability": 10.0},
        ),
        (["Opens__c"], {"Opens__c": "12:34:56.007Z"}, {"Opens__c": "12:34:56.007"}),
        (["BillingAddress.City"], {"BillingAddress": {"City": "Bonn"}}, {"BillingCity": "Bonn"}),
        (["BillingAddress.City"], {"BillingAddress": {"City": None}}, {"BillingCity": None}),
        (["BillingAddress"], {"BillingAddress": {"City": "Bonn"}}, {"BillingCity": "Bonn"}),
        (
            ["BillingAddress"],
            {"BillingAddress": None},
            {"BillingStreet": None, "BillingCity": None, "BillingState": None, "BillingCountry": None},
        ),
        (["Name"], {"Name": "Acme"}, {"Name": "Acme", "Salutation": None, "FirstName": None, "LastName": None}),
        (["Name.LastName"], {"Name": {"LastName": "Smith"}}, {"LastName": "Smith"}),
        (["Description"], {"Description": {"diff": DIFF}}, {"Description": DIFF}),
        (["EmailPreferences"], {"EmailPreferences": ["AutoBcc"]}, {"EmailPreferences": "AutoBcc"}),
    ],
)
def test_an_update_sets_what_its_header_names(changed: list[str], body: dict[str, Any], cells: dict[str, Any]) -> None:
    event = decoded("UPDATE", changed, **body)
    assert named(event) == cells
    assert all(type(value) is type(cells[name]) for name, value in named(event).items())
    assert [COLUMNS[each].name for each in event.diff_columns] == (["Description"] if "Description" in cells else [])


def test_what_an_update_carries_and_does_not_name_is_enriched() -> None:
    event = decoded("UPDATE", ["Fax"], Industry="Biotechnology", External_Account_ID__c="1ABC", Fax="4155551212")
    assert named(event) == {"Fax": "4155551212"}
    enriched = {COLUMNS[index].name: value for index, value in event.enriched}
    assert enriched == {"Industry": "Biotechnology", "External_Account_ID__c": "1ABC"}
    deleted = decoded("DELETE", [], Industry="Biotechnology", External_Account_ID__c="1ABC")
    assert (deleted.cells, len(deleted.enriched)) == ([], 2)


@pytest.mark.parametrize("change_type", ["CREATE", "UNDELETE"])
def test_a_new_record_has_null_for_what_its_event_does_not_carry(change_type: str) -> None:
    event = decoded(change_type, [], Name={"FirstName": "Jane", "LastName": "Smith"}, NumberOfEmployees=7)
    cells = named(event)
    # The event tells the parts of a person's name, never what they are together.
    assert cells.keys() == {column.name for column in COLUMNS[1:]} - {"Name"}
    said = {"FirstName": "Jane", "LastName": "Smith", "NumberOfEmployees": 7}
    assert {name: value for name, value in cells.items() if value is not None} == said


@pytest.mark.parametrize(
    ("change_type", "record_id", "key"),
    [
        ("GAP_UPDATE", "00Uxx000000fvRQEAY", "0Mcxx000000000B"),
        ("GAP_OVERFLOW", "000000000000000AAA", "0000161d-7324-6ed7-36f8-16ebb5d61ec9"),
    ],
)
def test_gap_and_overflow_events_have_a_header_and_no_cells(change_type: str, record_id: str, key: str) -> None:
    head = {**HEADER, "changeType": change_type, "recordIds": [record_id], "transactionKey": key, "changeOrigin": ""}
    payload = json.dumps({"ChangeEventHeader": head}).encode()
    header = read_json_header(payload)
    assert (header.change_type, header.record_ids, header.transaction_key) == (
        ChangeType(change_type),
        (record_id,),
        key,
    )
    assert header.is_gap
    assert DECODER.decode(payload).cells == []


@pytest.mark.parametrize(
    ("changed", "body", "problem"),
    [
        (["Industry"], {}, "as changed that it does not carry"),
        (["BillingAddress.City"], {"BillingAddress": {"Street": "1"}}, "as changed that it does not carry"),
        (["NoSuchField"], {}, "names a field that its schema lacks"),
        (["BillingAddress.Planet"], {"BillingAddress": {}}, "a part that the field does not have"),
        ([], {"NoSuchField": 1}, "has a field that its schema lacks"),
        ([], {"BillingAddress": {"Planet": "Mars"}}, "has no part Planet"),
        ([], {"Industry": 7}, "is a string, and the event has a int"),
        ([], {"NumberOfEmployees": 1.5}, "is a int"),
        ([], {"IsConverted": "true"}, "is a boolean"),
        ([], {"Probability": True}, "is a double"),
        ([], {"EmailPreferences": [1]}, "is a array"),
        ([], {"LastModifiedDate": "soon"}, "is no time of ISO 8601"),
        ([], {"LastModifiedDate": "22:33:10.000Z"}, "is not written as one"),
        ([], {"Opens__c": "2021-01-20T22:33:10.000Z"}, "is not written as one"),
        ([], {"Fax": {"City": "Bonn"}}, "is a string"),
    ],
)
def test_an_event_that_does_not_fit_is_undecodable(changed: list[str], body: dict[str, Any], problem: str) -> None:
    with pytest.raises(PayloadError, match=problem):
        decoded("UPDATE", changed, **body)


@pytest.mark.parametrize("doc", ["Data:DateTime", "Data:DateOnly", "Data:TimeOnly", None])
@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("2021-01-20T22:33:10.000Z", {"datetime": AT}),
        ("2021-05-03T00:00:00.000Z", {"datetime": 18_750 * DAY_US, "date": 18_750}),
        ("2021-05-03", {"datetime": 18_750 * DAY_US, "date": 18_750}),
        ("12:34:56.007Z", {"time": "12:34:56.007"}),
        ("00:00:00.000Z", {"time": "00:00:00.000"}),
        ("1970-01-01T08:11:00.000Z", {"datetime": 29_460_000_000}),
        ("1970-01-01", {"datetime": 0, "date": 0}),
    ],
)
@pytest.mark.parametrize("kind", ["datetime", "date", "time"])
def test_whether_a_value_is_a_time_of_day_its_text_shows_and_no_doc(
    doc: str | None, value: str, read: dict[str, object], kind: str
) -> None:
    """The id of a schema is the same for all of them; an event of another type than its position says is not read."""
    schema = event_schema(optional("F__c", "long", doc=doc))
    written = json.dumps({"ChangeEventHeader": {**HEADER, "changedFields": ["F__c"]}, "F__c": value}).encode()
    decoder = JsonEventDecoder(json.dumps(schema), [Column("F__c", field_type(kind).column, salesforce_type=kind)])
    if kind in read:
        assert decoder.decode(written).cells == [(0, read[kind])]
    else:
        with pytest.raises(PayloadError, match="F__c"):
            decoder.decode(written)


def test_a_field_without_a_column_may_be_named_and_not_carried() -> None:
    """Field-level security hides a value and not always the name."""
    decoder = JsonEventDecoder(json.dumps(SCHEMA), [column for column in COLUMNS if column.name != "Industry"])
    head = {**HEADER, "changedFields": ["Industry", "Fax"]}
    assert len(decoder.decode(json.dumps({"ChangeEventHeader": head, "Fax": "1"}).encode()).cells) == 1


@pytest.mark.parametrize(
    "payload",
    [
        b"{broken",
        b"[1]",
        b"{}",
        b'{"ChangeEventHeader": 1}',
        b'{"ChangeEventHeader": NaN}',
        b"[" * 100_000,
        b"\xff{",
        *(
            json.dumps({"ChangeEventHeader": {**HEADER, **wrong}}).encode()
            for wrong in (
                {"recordIds": "001B000001LiHPKIA3"},
                {"recordIds": [1]},
                {"changedFields": [None]},
                {"commitTimestamp": "1611181990000"},
                {"commitTimestamp": 10**18},
                {"sequenceNumber": True},
                {"sequenceNumber": 2**31},
                {"commitNumber": 2**63},
                {"transactionKey": None},
            )
        ),
    ],
)
def test_what_has_no_header_is_reported_as_that(payload: bytes) -> None:
    with pytest.raises(HeaderError):
        read_json_header(payload)
