"""Values that are hard to carry, from REST to the event and the store."""

from __future__ import annotations

from typing import Any

import pytest

from sfcdc_assets.emulator.cometd.event_json import writer_of
from sfcdc_assets_tests.emulator.decoded_events import WatchedOrg
from sfcdc_assets_tests.emulator.rest_server import rest_client

PLANES = "a ä Δ 東 😀 𝛿 𠜎 \U000e0041 \U0010fffd z"
LONGEST = ("😀" + "x" * 9) * 13_107 + "zz"


@pytest.fixture
def watched() -> WatchedOrg:
    watched = WatchedOrg()
    setup = watched.org.setup
    setup.add_field("Account", "Longest__c", {"type": "long_text", "length": 131_072})
    setup.add_field("Account", "Plain__c", {"type": "double", "precision": 18, "scale": 0})
    setup.add_field("Account", "Fine__c", {"type": "double", "precision": 18, "scale": 17})
    setup.add_field("Account", "Depot__c", {"type": "location"})
    return watched


@pytest.mark.parametrize(
    ("name", "value", "carried"),
    [
        ("Name", PLANES, PLANES),
        ("Description", PLANES, PLANES),
        ("Tax_Number__c", "1234-😀", "1234-😀"),
        ("Longest__c", LONGEST, LONGEST),
        ("Plain__c", 999_999_999_999_999_999, 1e18),
        ("Plain__c", -9_007_199_254_740_993, -9_007_199_254_740_992.0),
        ("Fine__c", 1e-17, 1e-17),
        ("Fine__c", 0.1 + 0.2, 0.30000000000000004),
        ("Fine__c", -0.0, 0.0),
        ("NumberOfEmployees", 2**31 - 1, 2**31 - 1),
        ("NumberOfEmployees", -(2**31), -(2**31)),
        ("SLAExpirationDate__c", "1700-01-01", -8_520_336_000_000),
        ("SLAExpirationDate__c", "1969-12-31", -86_400_000),
        ("SLAExpirationDate__c", "4000-12-31", 64_092_124_800_000),
        ("Next_Review__c", "1969-12-31T23:59:59.001Z", -999),
        ("Next_Review__c", "1700-01-01T00:00:00Z", -8_520_336_000_000),
        ("Support_Opens__c", "23:59:59.999Z", 86_399_999),
        ("Support_Opens__c", "00:00:00Z", 0),
        ("Regions__c", "West;North", "North;West"),
        ("Discount__c", 50, 50.0),
        ("Is_Partner__c", True, True),
    ],
)
def test_a_value_is_the_same_in_rest_and_in_the_event(
    watched: WatchedOrg, name: str, value: object, carried: Any
) -> None:
    with rest_client(watched.org) as client:
        answer = client.post("/sobjects/Account", {"Name": "a", name: value})
        assert answer.status_code == 201, answer.text
        shown = client.get(f"/sobjects/Account/{answer.json()['id']}?fields={name}").json()[name]
    (event,) = watched.events()
    assert event.body[name] == carried
    if isinstance(carried, str | float | bool):
        assert shown == carried


def test_an_empty_text_is_a_null_and_nulled_is_not_unchanged(watched: WatchedOrg) -> None:
    record_id = watched.create(Phone="1", Fax="2")
    watched.update(record_id, Phone="", Rating="Hot")
    update = watched.events()[-1]
    assert update.header["nulledFields"] == watched.bitmap("Phone")
    assert update.body["Fax"] is None


def test_a_custom_object_publishes_the_whole_geolocation_and_a_standard_one_the_changed_part(
    watched: WatchedOrg,
) -> None:
    account = watched.create(Depot__Latitude__s=1, Depot__Longitude__s=2)
    values = {"Location__Latitude__s": 1, "Location__Longitude__s": 2}
    invoice = watched.create("Invoice_Statement__c", **values)
    watched.update(account, Depot__Latitude__s=3)
    watched.update(invoice, "Invoice_Statement__c", Location__Latitude__s=3)
    standard, custom = watched.events()[-2:]
    assert standard.body["Depot__c"] == {"Latitude": 3.0, "Longitude": None}
    assert custom.body["Location__c"] == {"Latitude": 3.0, "Longitude": 2.0}


def test_preferences_come_as_the_true_ones_of_the_touched_group(watched: WatchedOrg) -> None:
    watched.org.setup.add_user_preferences()
    watched.org.setup.add_user_preferences()
    user = watched.org.users.integration
    watched.update(user, "User", UserPreferencesReminderSoundOff=True, EmailPreferencesAutoBcc=True)
    watched.update(user, "User", UserPreferencesDisableAllFeedsEmail=True)
    watched.update(user, "User", EmailPreferencesAutoBcc=False)
    first, second, third = watched.events()
    assert first.body["EmailPreferences"] == ["AutoBcc"]
    assert first.body["UserPreferences"] == ["ReminderSoundOff"]
    assert second.body["UserPreferences"] == ["ReminderSoundOff", "DisableAllFeedsEmail"]
    assert second.body["EmailPreferences"] is None
    assert third.body["EmailPreferences"] == []
    assert third.header["changedFields"] == watched.bitmap("LastModifiedDate", "EmailPreferencesAutoBcc", entity="User")
    assert third.header["nulledFields"] == []
    watched.update(user, "User", UserPreferencesLightningExperiencePreferred=True)
    (other,) = watched.events()
    assert other.body["UserPreferences"] == ["LightningExperiencePreferred"], "of the second 32 in the same list"
    with rest_client(watched.org) as client:
        (record,) = client.query(
            f"SELECT UserPreferencesReminderSoundOff, EmailPreferencesAutoBcc FROM User WHERE Id = '{user}'"
        ).json()["records"]
    assert (record["UserPreferencesReminderSoundOff"], record["EmailPreferencesAutoBcc"]) == (True, False)


def test_codes_of_states_and_countries_come_with_the_address_once_they_are_switched_on(watched: WatchedOrg) -> None:
    account = watched.create(BillingCity="Köln")
    (before,) = watched.events()
    assert "StateCode" not in before.body["BillingAddress"]
    watched.org.setup.enable_state_and_country_codes()
    watched.org.setup.enable_state_and_country_codes()
    assert watched.events() == []
    watched.update(account, BillingStateCode="BY", BillingCountryCode="DE")
    (update,) = watched.events()
    address = update.body["BillingAddress"]
    assert (address["City"], address["StateCode"], address["CountryCode"]) == (None, "BY", "DE")
    with rest_client(watched.org) as client:
        described = client.get("/sobjects/Account/describe").json()["fields"]
    code = next(field for field in described if field["name"] == "BillingStateCode")
    assert (code["type"], code["compoundFieldName"]) == ("picklist", "BillingAddress")


def test_in_json_a_time_is_written_as_what_its_field_was_though_the_schema_keeps_its_id(watched: WatchedOrg) -> None:
    """By its id the org gives a schema as it first was."""
    setup, kinds = watched.org.setup, {"time": "18:36:00.000Z", "datetime": "1970-01-01T18:36:00.000Z", "date": None}
    setup.add_field("Account", "When__c", {"type": "time"})
    record_id = watched.create()
    found = []
    for kind, value in kinds.items():
        setup.change_type("Account", "When__c", {"type": kind})
        watched.update(record_id, When__c=value or "1970-01-02")
        event = watched.stored()[-1]
        found.append((event, watched.bus.schema_of(event)))
    ids = {event.schema_id for event, _ in found}
    assert [writer_of(schema).payload(event.payload)["When__c"] for event, schema in found] == [
        "18:36:00.000Z",
        "1970-01-01T18:36:00.000Z",
        "1970-01-02",
    ]
    assert [watched.bus.schema_of(event) for event, _ in found] == [schema for _, schema in found]
    assert len(ids) == 1
    assert "Data:TimeOnly" in (watched.bus.schema_json(ids.pop()) or "")
