"""The schema of an object's change events, and its id."""

from __future__ import annotations

import json
from io import BytesIO

import pytest
from fastavro import parse_schema, schemaless_reader

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.definitions.object_file import built_in_definitions, object_definition
from sfcdc_assets.emulator.errors import EventSchemaError
from sfcdc_assets.emulator.events.avro.event_body import EventCodec, date_to_milliseconds, time_to_milliseconds
from sfcdc_assets.emulator.events.avro.event_schema import change_event_name, event_schema, schema_id, schema_json

DEFINITIONS = {definition.name: definition for definition in built_in_definitions()}

EVERY_TYPE = object_definition(
    {
        "name": "Every__c",
        "label": "Every",
        "key_prefix": "a0z",
        "fields": [
            {"Name": {"type": "string"}},
            {"Text__c": {"type": "string", "field_id": "00NDp00000Bbv01"}},
            {"Long__c": {"type": "long_text"}},
            {"Rich__c": {"type": "rich_text"}},
            {"Area__c": {"type": "textarea"}},
            {"Pick__c": {"type": "picklist", "values": ["A", "B"]}},
            {"Many__c": {"type": "multipicklist", "values": ["A", "B"]}},
            {"Check__c": {"type": "boolean"}},
            {"Int__c": {"type": "int"}},
            {"Double__c": {"type": "double"}},
            {"Money__c": {"type": "currency"}},
            {"Percent__c": {"type": "percent"}},
            {"Day__c": {"type": "date"}},
            {"Moment__c": {"type": "datetime"}},
            {"Time__c": {"type": "time"}},
            {"Web__c": {"type": "url"}},
            {"Phone__c": {"type": "phone"}},
            {"Mail__c": {"type": "email"}},
            {"Secret__c": {"type": "encryptedstring"}},
            {"Account__c": {"type": "reference", "to": "Account"}},
            {"Where__c": {"type": "location"}},
            {"Double_Money__c": {"type": "currency", "formula": "Money__c * 2"}},
        ],
    },
    "test",
)


def fields_of(definition: ObjectDefinition) -> dict[str, dict]:
    return {field["name"]: field for field in event_schema(definition)["fields"]}


def test_the_id_of_a_real_schema_is_the_one_salesforce_gave_it() -> None:
    """`Order_Event__e` of a real org, whose GetSchema answered `_CADE3qaegX3ECEW0rlbYA` (docs/salesforce-streams.md,
    "Topics and schemas")."""
    schema = {
        "type": "record",
        "name": "Order_Event__e",
        "namespace": "com.sforce.eventbus",
        "fields": [
            {"name": "CreatedDate", "type": "long", "doc": "CreatedDate:DateTime"},
            {"name": "CreatedById", "type": "string", "doc": "CreatedBy:EntityId"},
            {
                "name": "Order_Number__c",
                "type": ["null", "string"],
                "doc": "Data:Text:00NAu00000000a1",
                "default": None,
            },
            {"name": "City__c", "type": ["null", "string"], "default": None},
            {"name": "Amount__c", "type": ["null", "double"], "default": None},
        ],
    }
    assert schema_id(schema) == "_CADE3qaegX3ECEW0rlbYA"


def test_docs_are_no_part_of_the_id_and_a_new_field_is() -> None:
    schema = event_schema(DEFINITIONS["Account"])
    without_docs = {**schema, "fields": [{**field, "doc": "other"} for field in schema["fields"]]}
    shorter = {**schema, "fields": schema["fields"][:-1]}
    assert schema_id(without_docs) == schema_id(schema)
    assert schema_id(shorter) != schema_id(schema)
    assert len(schema_id(schema)) == 22


def test_the_header_is_field_zero_and_no_union() -> None:
    header = event_schema(DEFINITIONS["Account"])["fields"][0]
    assert header["name"] == "ChangeEventHeader"
    assert header["doc"] == "Data:ComplexValueType"
    assert "default" not in header
    assert [field["name"] for field in header["type"]["fields"]] == [
        "entityName", "recordIds", "changeType", "changeOrigin", "transactionKey", "sequenceNumber",
        "commitTimestamp", "commitNumber", "commitUser", "nulledFields", "diffFields", "changedFields",
    ]  # fmt: skip
    assert len(header["type"]["fields"][2]["type"]["symbols"]) == 10


def test_every_body_field_is_a_union_with_null_by_default() -> None:
    for definition in DEFINITIONS.values():
        for field in event_schema(definition)["fields"][1:]:
            assert field["type"][0] == "null"
            assert field["default"] is None
            assert list(field) == ["name", "type", "doc", "default"]


def test_the_json_is_compact_with_keys_in_salesforces_order() -> None:
    text = schema_json(event_schema(DEFINITIONS["Account"]))
    assert text.startswith('{"type":"record","name":"AccountChangeEvent","namespace":"com.sforce.eventbus","fields":[')
    assert json.loads(text) == event_schema(DEFINITIONS["Account"])


def test_fields_that_events_leave_out_are_not_in_the_schema() -> None:
    for definition in DEFINITIONS.values():
        names = set(fields_of(definition))
        assert not names & {"Id", "IsDeleted", "SystemModstamp", "LastActivityDate", "LastViewedDate"}
    assert "Double_Money__c" not in fields_of(EVERY_TYPE)


def test_an_address_is_defined_once_and_named_afterwards() -> None:
    account = fields_of(DEFINITIONS["Account"])
    first = account["BillingAddress"]["type"][1]
    assert first["name"] == "Address"
    names = [field["name"] for field in first["fields"]]
    assert names[:2] == ["Street", "City"]
    assert names[-3:] == ["Latitude", "Longitude", "GeocodeAccuracy"]
    assert "doc" not in first["fields"][0]
    assert account["ShippingAddress"]["type"] == ["null", "Address"]
    assert account["ShippingAddress"]["doc"] == "Data:Address"
    assert "BillingCity" not in account


def test_a_persons_name_is_a_record_and_an_accounts_is_text() -> None:
    name = fields_of(DEFINITIONS["Contact"])["Name"]
    assert name["doc"] == "Data:PersonName"
    assert [field["name"] for field in name["type"][1]["fields"]] == ["Salutation", "FirstName", "LastName"]
    assert fields_of(DEFINITIONS["Account"])["Name"]["type"] == ["null", "string"]


@pytest.mark.parametrize(
    ("field", "avro_type", "doc"),
    [
        ("Text__c", "string", "Data:Text:00NDp00000Bbv01"),
        ("Long__c", "string", "Data:StringPlusClob"),
        ("Rich__c", "string", "Data:HtmlStringPlusClob"),
        ("Area__c", "string", "Data:MultiLineText"),
        ("Pick__c", "string", "Data:DynamicEnum"),
        ("Many__c", "string", "Data:MultiEnum"),
        ("Check__c", "boolean", "Data:Boolean"),
        ("Int__c", "int", "Data:Integer"),
        ("Double__c", "double", "Data:Double"),
        ("Money__c", "double", "Data:Currency"),
        ("Percent__c", "double", "Data:Percent"),
        ("Day__c", "long", "Data:DateOnly"),
        ("Moment__c", "long", "Data:DateTime"),
        ("Time__c", "long", "Data:TimeOnly"),
        ("Web__c", "string", "Data:Url"),
        ("Phone__c", "string", "Data:Phone"),
        ("Mail__c", "string", "Data:Email"),
        ("Secret__c", "string", "Data:EncryptedText"),
        ("Account__c", "string", "ForeignKey:EntityId"),
        ("CreatedDate", "long", "CreatedDate:DateTime"),
        ("LastModifiedById", "string", "ForeignKey:EntityId"),
    ],
)
def test_each_field_type_has_its_avro_type_and_doc(field: str, avro_type: str, doc: str) -> None:
    definition = fields_of(EVERY_TYPE)[field]
    assert definition["type"] == ["null", avro_type]
    assert definition["doc"].startswith(doc)


def test_a_geolocation_is_a_record_named_after_its_field() -> None:
    where = fields_of(EVERY_TYPE)["Where__c"]
    assert where["type"][1]["name"] == "Location"
    assert [field["name"] for field in where["type"][1]["fields"]] == ["Latitude", "Longitude"]
    assert where["doc"].startswith("Data:Location:00N")


def test_a_custom_objects_event_is_named_without_the_c() -> None:
    assert change_event_name("Invoice_Statement__c") == "Invoice_Statement__ChangeEvent"
    assert change_event_name("Account") == "AccountChangeEvent"


def test_a_field_type_without_a_form_in_events_is_refused_by_name() -> None:
    odd = ObjectDefinition("Odd", "Odd", "0od", (FieldDefinition("Blob", "Blob", "complexvalue"),))
    with pytest.raises(EventSchemaError, match=r"Odd\.Blob"):
        event_schema(odd)


def test_dates_and_times_become_milliseconds() -> None:
    assert date_to_milliseconds("1970-01-02") == 86_400_000
    assert date_to_milliseconds("1969-12-31") == -86_400_000
    assert time_to_milliseconds("01:02:03.004") == 3_723_004


def test_a_body_of_every_type_reads_back_from_its_payload() -> None:
    codec = EventCodec(EVERY_TYPE)
    values = {
        "Name": "n", "Text__c": "ünï", "Long__c": "x" * 5000, "Pick__c": "A", "Many__c": "A;B", "Check__c": False,
        "Int__c": 7, "Double__c": 3, "Money__c": 3.25, "Percent__c": 50, "Day__c": "2024-02-29",
        "Moment__c": 1_700_000_000_123, "Time__c": "23:59:59.999", "Where__Latitude__s": 1.5, "Where__Longitude__s": -2,
        "Double_Money__c": 6.5, "SystemModstamp": 1,
    }  # fmt: skip
    header = {
        "entityName": "Every__c", "recordIds": ["a0z000000000001AAA"], "changeType": "CREATE", "changeOrigin": "",
        "transactionKey": "k", "sequenceNumber": 1, "commitTimestamp": 1, "commitNumber": 2, "commitUser": "u",
        "nulledFields": [], "diffFields": [], "changedFields": [],
    }  # fmt: skip
    payload = codec.payload(header, codec.body(values, values))
    buffer = BytesIO(payload)
    read = schemaless_reader(buffer, parse_schema(json.loads(codec.schema_json)), None)
    assert buffer.tell() == len(payload)
    assert read["ChangeEventHeader"] == header
    assert read["Where__c"] == {"Latitude": 1.5, "Longitude": -2.0}
    assert read["Day__c"] == 1_709_164_800_000
    assert read["Time__c"] == 86_399_999
    assert read["Moment__c"] == 1_700_000_000_123
    assert read["Double__c"] == 3.0
    assert read["Check__c"] is False
    assert read["Many__c"] == "A;B"
    assert read["Mail__c"] is None
