"""The stamp that an object is polled by, from its describe alone."""

from __future__ import annotations

from typing import Any

from sfcdc_assets.polls.object_schema import polled_fields, schema_of
from sfcdc_assets.polls.stamp import Stamp, stamp_among_fields
from sfcdc_assets.salesforce.object_description import FieldDescription, ObjectDescription


def described(name: str, **fields: dict[str, Any]) -> ObjectDescription:
    return ObjectDescription.from_json(
        {"name": name, "fields": [{"name": field, "type": "string", **more} for field, more in fields.items()]}
    )


def field(description: ObjectDescription, name: str) -> FieldDescription:
    return next(each for each in description.fields if each.name == name)


ID: dict[str, Any] = {"type": "id"}


def test_the_best_stamp_that_can_be_filtered_and_sorted_by_is_taken() -> None:
    history = described("ActivityFieldHistory", Id=ID, SystemModstamp={"filterable": False}, CreatedDate={})
    assert stamp_among_fields(history) == Stamp("CreatedDate")
    assert stamp_among_fields(described("AccountShare", Id=ID, LastModifiedDate={}, CreatedDate={})) == Stamp(
        "LastModifiedDate"
    )
    assert stamp_among_fields(described("LoginHistory", Id=ID, LoginTime={})) == Stamp("LoginTime")


def test_without_a_field_to_sort_by_there_is_no_stamp() -> None:
    assert stamp_among_fields(described("AppDefinition", Id=ID, Label={})) is None
    assert stamp_among_fields(described("BackgroundOperationResult", Id=ID, CreatedDate={"sortable": False})) is None
    assert stamp_among_fields(described("Odd", Id={"sortable": False}, SystemModstamp={})) is None


def test_formulas_files_and_what_is_made_of_other_fields_are_no_columns() -> None:
    contact = described(
        "Contact",
        Id={"type": "id"},
        Name={"compoundFieldName": "Name"},
        LastName={"compoundFieldName": "Name"},
        MailingAddress={"type": "address"},
        MailingCity={"compoundFieldName": "MailingAddress"},
        Score__c={"calculated": True, "type": "double"},
        Photo__c={"type": "base64"},
        LastViewedDate={"type": "datetime"},
        SystemModstamp={"type": "datetime"},
        Phone={},
    )
    assert polled_fields(contact) == ("LastName", "MailingCity", "Phone")
    assert polled_fields(contact, carried={"lastname", "phone"}) == ("LastName", "Phone")


def test_a_schema_has_another_id_when_its_fields_change_and_the_same_when_they_do_not() -> None:
    one, other = described("A__c", B__c={}), described("A__c", B__c={}, C__c={})
    assert schema_of(one) == schema_of(one)
    assert schema_of(one)[0] != schema_of(other)[0]


def test_a_stored_description_says_what_cannot_be_filtered_by_and_nothing_where_it_can() -> None:
    once = described("A__c", B__c={}, C__c={"filterable": False})
    again = ObjectDescription.from_json(once.to_json())
    assert again == once
    assert not field(again, "C__c").filterable
    assert "filterable" not in once.to_json()["fields"][0]
