"""The stamp that an object is polled by, from its describe alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sfcdc_assets.polls.object_schema import polled_fields, schema_of
from sfcdc_assets.polls.stamp import NotPollable, stamp_of
from sfcdc_assets.salesforce.object_description import FieldDescription, ObjectDescription


def described(name: str, **fields: dict[str, Any]) -> ObjectDescription:
    return ObjectDescription.from_json(
        {"name": name, "fields": [{"name": field, "type": "string", **more} for field, more in fields.items()]}
    )


def field(description: ObjectDescription, name: str) -> FieldDescription:
    return next(each for each in description.fields if each.name == name)


def test_the_best_stamp_that_can_be_filtered_and_sorted_by_is_taken() -> None:
    history = described("ActivityFieldHistory", SystemModstamp={"filterable": False}, CreatedDate={})
    assert stamp_of(history).field == "CreatedDate"
    assert stamp_of(described("AccountShare", LastModifiedDate={}, CreatedDate={})).field == "LastModifiedDate"
    assert stamp_of(described("LoginHistory", LoginTime={})).field == "LoginTime"


@pytest.mark.parametrize(
    ("description", "reason"),
    [
        (described("AppDefinition", Label={}), "it has none of SystemModstamp"),
        (described("BackgroundOperationResult", CreatedDate={"sortable": False}), "filter and sort by CreatedDate"),
        (described("AsyncApexJob", CreatedDate={}), "no field that moves"),
        (replace(described("ListViewChartInstance", CreatedDate={}), queryable=False), "does not let it be queried"),
    ],
)
def test_an_object_that_cannot_be_asked_for_what_changed_is_refused_with_the_reason(
    description: ObjectDescription, reason: str
) -> None:
    with pytest.raises(NotPollable, match=reason) as refused:
        stamp_of(description)
    assert "SFCDC_POLL_EXCLUDE" in str(refused.value)


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
