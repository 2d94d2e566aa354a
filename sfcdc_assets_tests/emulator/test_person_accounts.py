"""Accounts that are persons, and the contacts that go with them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.records.person_account import BUSINESS_TYPE, PERSON_TYPE
from sfcdc_assets.emulator.traffic.traffic import TrafficMix
from sfcdc_assets_tests.emulator.decoded_events import DecodedEvent, WatchedOrg
from sfcdc_assets_tests.emulator.rest_server import rest_client
from sfcdc_assets_tests.pipeline.simulation.org_history import HistoryMix, OrgHistory

PERSON = {"FirstName": "Ada", "LastName": "Byron", "PersonEmail": "ada@example.com", "Level__pc": "Primary"}


@pytest.fixture
def watched() -> WatchedOrg:
    watched = WatchedOrg()
    watched.org.setup.enable_person_accounts()
    watched.org.setup.enable_person_accounts()
    return watched


def person(watched: WatchedOrg, **values: object) -> str:
    work = watched.commit(lambda work: work.create("Account", {**PERSON, **values}))
    return next(change.record_id for change in work.changes if change.entity == "Account")


def contact_of(watched: WatchedOrg, account_id: str) -> dict[str, Any]:
    account = watched.org.record("Account", account_id)
    assert account is not None
    contact = watched.org.record("Contact", str(account["PersonContactId"]))
    assert contact is not None
    return contact


def reported(events: list[DecodedEvent]) -> list[tuple[str, str]]:
    return [(event.header["entityName"], event.header["changeType"]) for event in events]


def test_the_schema_has_a_name_of_three_branches_and_the_persons_fields(watched: WatchedOrg) -> None:
    watched.create()
    (event,) = watched.events()
    fields = json.loads(watched.bus.schema_json(event.stored.schema_id) or "")["fields"]
    assert fields[1]["type"][:2] == ["null", "string"]
    assert fields[1]["type"][2]["name"] == "Switchable_PersonName"
    assert fields[1]["doc"] == "Data:Switchable_PersonName"
    names = [field["name"] for field in fields]
    assert {"RecordTypeId", "PersonContactId", "PersonMailingAddress", "PersonHasOptedOutOfEmail"} <= set(names)
    assert "FirstName" not in names
    assert names[-2:] == ["Level__pc", "Languages__pc"]
    assert event.body["Name"] == "Acme"


def test_a_new_person_is_an_event_of_the_account_and_one_of_the_contact(watched: WatchedOrg) -> None:
    account_id = person(watched)
    account, contact = watched.events()
    assert reported([account, contact]) == [("Account", "CREATE"), ("Contact", "CREATE")]
    assert account.body["Name"] == {"Salutation": None, "FirstName": "Ada", "LastName": "Byron"}
    assert account.body["PersonContactId"] == contact.header["recordIds"][0]
    assert contact.body["IsPersonAccount"] is True
    assert contact.body["Level__c"] == "Primary"
    assert contact.body["AccountId"] == account_id
    record = watched.org.record("Account", account_id)
    assert record is not None
    assert (record["Name"], record["IsPersonAccount"]) == ("Ada Byron", True)


def test_a_change_of_either_side_is_an_event_of_both(watched: WatchedOrg) -> None:
    account_id = person(watched)
    contact_id = contact_of(watched, account_id)["Id"]
    watched.events()
    watched.update(account_id, Industry="Energy")
    account, contact = watched.events()
    assert contact.header["changedFields"] == watched.bitmap("LastModifiedDate", entity="Contact")
    watched.update(contact_id, "Contact", FirstName="Augusta", Email=None)
    contact, account = watched.events()
    assert contact.header["entityName"] == "Contact"
    assert account.body["Name"]["FirstName"] == "Augusta"
    assert account.header["changedFields"] == watched.bitmap("LastModifiedDate", "PersonEmail", "FirstName")
    assert account.header["nulledFields"] == watched.bitmap("PersonEmail")
    record = watched.org.record("Account", account_id)
    assert record is not None
    assert record["Name"] == "Augusta Byron"


def test_a_person_is_deleted_and_restored_with_its_contact(watched: WatchedOrg) -> None:
    account_id = person(watched)
    watched.events()
    for work, kind in (("delete", "DELETE"), ("undelete", "UNDELETE"), ("hard_delete", "DELETE")):
        watched.commit(lambda unit_of_work, work=work: getattr(unit_of_work, work)("Account", account_id))
        assert sorted(reported(watched.events())) == [("Account", kind), ("Contact", kind)]


def test_a_conversion_by_record_type_is_one_event_of_the_account(watched: WatchedOrg) -> None:
    account_id = watched.create()
    contact_id = watched.create("Contact", LastName="Byron", FirstName="Ada", AccountId=account_id, Email="a@b.cd")
    before = watched.org.last_commit_number
    watched.events()
    watched.update(account_id, RecordTypeId=PERSON_TYPE)
    (event,) = watched.events()
    assert event.body["Name"]["LastName"] == "Byron"
    assert event.body["PersonEmail"] == "a@b.cd"
    assert watched.org.record("Contact", contact_id)["IsPersonAccount"] is True  # type: ignore[index]
    assert watched.org.records_at("Contact", before)[contact_id]["IsPersonAccount"] is False
    watched.update(account_id, RecordTypeId=BUSINESS_TYPE)
    (event,) = watched.events()
    assert event.body["Name"] == "Ada Byron"
    assert watched.org.record("Contact", contact_id)["IsPersonAccount"] is False  # type: ignore[index]


def test_the_two_kinds_are_not_mixed(watched: WatchedOrg) -> None:
    business, ada = watched.create(), person(watched)
    contact_id = contact_of(watched, ada)["Id"]
    for work in (
        lambda work: work.create("Account", {"Name": "a", "LastName": "b"}),
        lambda work: work.create("Account", {"Name": "a", "RecordTypeId": BUSINESS_TYPE, "PersonEmail": "a@b.cd"}),
        lambda work: work.create("Account", {"RecordTypeId": PERSON_TYPE}),
        lambda work: work.update("Account", business, {"PersonEmail": "a@b.cd"}),
        lambda work: work.update("Account", business, {"RecordTypeId": PERSON_TYPE}),
        lambda work: work.update("Account", ada, {"Name": "x"}),
        lambda work: work.update("Contact", contact_id, {"AccountId": business}),
        lambda work: work.delete("Contact", contact_id),
        lambda work: work.merge("Account", business, (ada,)),
    ):
        with pytest.raises(RecordError):
            watched.commit(work)


def test_what_both_sides_share_keeps_its_shape(watched: WatchedOrg) -> None:
    setup = watched.org.setup
    for change in (
        lambda: setup.drop_field("Contact", "Level__c"),
        lambda: setup.rename_field("Contact", "Level__c", "Other__c"),
        lambda: setup.change_type("Contact", "Email", {"type": "string"}),
        lambda: setup.change_type("Account", "Level__pc", {"type": "string"}),
    ):
        with pytest.raises(RecordError, match="shared"):
            change()


def test_rest_shows_persons_and_describe_their_record_types(watched: WatchedOrg) -> None:
    account_id = person(watched)
    with rest_client(watched.org) as client:
        (record,) = client.query("SELECT Name, LastName, IsPersonAccount, Level__pc FROM Account").json()["records"]
        described = client.get("/sobjects/Account/describe").json()
        made = client.post("/sobjects/Account", {"LastName": "Solo", "RecordTypeId": PERSON_TYPE[:15]})
    assert record["attributes"]["url"].endswith(account_id)
    assert [record[name] for name in ("Name", "LastName", "IsPersonAccount", "Level__pc")] == [
        "Ada Byron", "Byron", True, "Primary",
    ]  # fmt: skip
    assert PERSON_TYPE in [one["recordTypeId"] for one in described["recordTypeInfos"]]
    name = next(field for field in described["fields"] if field["name"] == "Name")
    assert name["extraTypeInfo"] == "switchablepersonname"
    assert made.status_code == 201


def test_a_life_with_persons_keeps_both_sides_in_step(watched: WatchedOrg) -> None:
    org = watched.org
    org.populate(8)
    mix = HistoryMix(drop_field=5, rename_field=5, retype_field=5)
    list(OrgHistory(org, 4, mix, traffic_mix=TrafficMix(create=100, merge=3, undelete=10)).run(250))
    persons = [record for record in org.records("Account") if record["IsPersonAccount"]]
    assert persons
    for account in persons:
        contact = contact_of(watched, str(account["Id"]))
        assert (contact["LastName"], contact["Email"], contact["MailingCity"]) == (
            account["LastName"], account["PersonEmail"], account["PersonMailingCity"],
        )  # fmt: skip
