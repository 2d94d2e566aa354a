from __future__ import annotations

import json
from pathlib import Path

import pytest

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.definitions.object_file import built_in_definitions, load_definitions
from sfcdc_assets.emulator.errors import ObjectDefinitionError

BUILT_IN = {definition.name: definition for definition in built_in_definitions()}
TYPES = {
    "id", "string", "reference", "picklist", "multipicklist", "boolean", "int", "double", "currency", "percent", "date",
    "datetime", "time", "email", "phone", "url", "textarea", "encryptedstring", "address",
}  # fmt: skip


def test_the_org_has_the_standard_objects_with_their_key_prefixes() -> None:
    assert {name: definition.key_prefix for name, definition in BUILT_IN.items()} == {
        "Account": "001", "Contact": "003", "Lead": "00Q", "Opportunity": "006", "Case": "500", "Task": "00T",
        "User": "005", "Invoice_Statement__c": "a00",
    }  # fmt: skip


def test_an_account_has_a_field_of_every_common_type() -> None:
    assert len(BUILT_IN["Account"].fields) >= 40
    assert {field.type for field in BUILT_IN["Account"].fields} >= TYPES


def test_components_point_to_their_compound() -> None:
    assert [part.name for part in BUILT_IN["Account"].components["BillingAddress"]] == [
        "BillingStreet", "BillingCity", "BillingState", "BillingPostalCode", "BillingCountry", "BillingLatitude",
        "BillingLongitude", "BillingGeocodeAccuracy",
    ]  # fmt: skip
    assert [part.name for part in BUILT_IN["Contact"].components["Name"]] == ["Salutation", "FirstName", "LastName"]
    location = BUILT_IN["Invoice_Statement__c"].components["Location__c"]
    assert [part.name for part in location] == ["Location__Latitude__s", "Location__Longitude__s"]
    assert "Name" not in BUILT_IN["Account"].components


def test_formulas_and_derived_fields_are_not_in_change_events_but_roll_ups_are() -> None:
    account = BUILT_IN["Account"].fields_by_name
    for name in ("Id", "IsDeleted", "SystemModstamp", "Revenue_Per_Employee__c", "LastActivityDate", "PhotoUrl"):
        assert not account[name].in_change_events
    for name in ("Pipeline__c", "CreatedDate", "LastModifiedById", "BillingCity", "Name"):
        assert account[name].in_change_events
    assert account["Revenue_Per_Employee__c"].calculated_formula


@pytest.mark.parametrize("definition", BUILT_IN.values(), ids=BUILT_IN)
def test_custom_fields_follow_the_standard_ones_and_have_field_ids(definition: ObjectDefinition) -> None:
    if not definition.custom:
        kinds = [field.custom for field in definition.fields]
        assert kinds == sorted(kinds)
    assert all((len(field.field_id or "") == 15) == field.custom for field in definition.fields)


@pytest.mark.parametrize("definition", BUILT_IN.values(), ids=BUILT_IN)
def test_a_definition_survives_json(definition: ObjectDefinition) -> None:
    assert ObjectDefinition.from_json(json.loads(json.dumps(definition.to_json()))) == definition


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name: X", "lacks"),
        ("{name: X__c, label: X, key_prefix: 'a9', fields: []}", "key_prefix"),
        ("{name: X__c, label: X, key_prefix: a09, fields: [{F__c: {type: strong}}]}", "strong"),
        ("{name: X__c, label: X, key_prefix: a09, fields: [{F__c: {type: string, lenght: 3}}]}", "lenght"),
        ("{name: X__c, label: X, key_prefix: a09, fields: [{F__c: {type: string}}, {f__c: {type: string}}]}", "twice"),
        ("{name: X__c, label: X, key_prefix: a09, fields: [{F__c: {type: reference}}]}", "to"),
        ("{name: X__c, label: X, key_prefix: a09, fields: [{F__c: {type: double, formula: 1+}}]}", "Syntax"),
        ("a: [", "cannot be read"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_what_is_wrong(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "X__c.yaml").write_text(text)
    with pytest.raises(ObjectDefinitionError, match=complaint) as caught:
        load_definitions(tmp_path)
    assert "X__c" in str(caught.value)


def test_two_objects_with_one_key_prefix_are_refused(tmp_path: Path) -> None:
    for name in ("A__c", "B__c"):
        (tmp_path / f"{name}.yaml").write_text(f"{{name: {name}, label: X, key_prefix: a09, fields: []}}")
    with pytest.raises(ObjectDefinitionError, match="a09"):
        load_definitions(tmp_path)
