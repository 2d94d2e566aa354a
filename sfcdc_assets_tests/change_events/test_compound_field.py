"""Event field paths and the flat API names they stand for."""

from __future__ import annotations

import pytest

from sfcdc_assets.change_events.compound_field import column_name, leaf_columns
from sfcdc_assets.change_events.event_schema import schema_fields
from sfcdc_assets_tests.change_events.written_event import event_schema, optional, record, texts


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("Phone", "Phone"),
        ("Rating__c", "Rating__c"),
        ("BillingAddress.City", "BillingCity"),
        ("BillingAddress.GeocodeAccuracy", "BillingGeocodeAccuracy"),
        ("MailingAddress.Street", "MailingStreet"),
        ("PersonMailingAddress.PostalCode", "PersonMailingPostalCode"),
        ("Address.City", "City"),
        ("Address.Latitude", "Latitude"),
        ("Name.FirstName", "FirstName"),
        ("Name.Salutation", "Salutation"),
        ("Loc__c.Latitude", "Loc__Latitude__s"),
        ("ns__Loc__c.Longitude", "ns__Loc__Longitude__s"),
        ("Home__c.City", "Home__City__s"),
        ("LastKnownLocation.Latitude", "LastKnownLatitude"),
        ("BillingAddress.Xyz", None),
        ("Loc__c.XyzEncoded", None),
    ],
)
def test_a_path_stands_for_one_flat_field(path: str, name: str | None) -> None:
    assert column_name(path) == name


def test_a_person_name_without_a_plain_branch_has_no_full_name() -> None:
    person = record("PersonName", *texts("Salutation", "FirstName", "LastName"))
    (_, contact_name) = schema_fields(event_schema(optional("Name", person), entity="Contact"))
    assert [name for name, _, _ in leaf_columns(contact_name)] == ["Salutation", "FirstName", "LastName"]
    (_, account_name) = schema_fields(event_schema(optional("Name", "string", person)))
    assert [name for name, _, _ in leaf_columns(account_name)] == ["Name", "Salutation", "FirstName", "LastName"]
