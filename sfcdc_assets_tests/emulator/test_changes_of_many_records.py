"""What changes many records at once: renamed picklist values, archiving; and encryption, which changes none."""

from __future__ import annotations

import pytest

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.events.change_event_builder import MAX_RECORD_IDS
from sfcdc_assets.emulator.records.unit_of_work import UnitOfWork
from sfcdc_assets_tests.emulator.decoded_events import WatchedOrg
from sfcdc_assets_tests.emulator.rest_server import rest_client


def test_a_renamed_picklist_value_is_merged_events_of_all_its_records() -> None:
    watched = WatchedOrg()
    count = MAX_RECORD_IDS + 3
    for number in range(count):
        watched.create(Name=f"a{number}", Industry="Energy")
    other = watched.create(Industry="Banking")
    watched.events()
    assert watched.org.setup.rename_picklist_value("Account", "Industry", "Energy", "Power") == count
    first, second = watched.events()
    assert [len(each.header["recordIds"]) for each in (first, second)] == [MAX_RECORD_IDS, 3]
    assert (first.set_fields, first.body["Industry"]) == ({"Industry"}, "Power")
    assert first.header["changedFields"] == watched.bitmap("Industry")
    assert (watched.org.record("Account", other) or {})["Industry"] == "Banking"
    field = watched.org.definitions["Account"].fields_by_name["Industry"]
    assert "Power" in field.picklist_values
    assert "Energy" not in field.picklist_values
    with pytest.raises(RecordError, match="no picklist with the value"):
        watched.org.setup.rename_picklist_value("Account", "Industry", "Energy", "Power")


def test_a_value_of_a_multi_select_picklist_is_renamed_among_the_others() -> None:
    watched = WatchedOrg()
    account = watched.create(Regions__c="East;West")
    watched.org.setup.rename_picklist_value("Account", "Regions__c", "East", "Orient")
    assert (watched.org.record("Account", account) or {})["Regions__c"] == "Orient;West"


def test_an_archived_activity_is_a_gap_and_shown_by_query_all_alone() -> None:
    watched = WatchedOrg()
    tasks = [watched.create("Task", Subject=f"t{number}") for number in range(2)]
    watched.events()

    def archive(work: UnitOfWork) -> None:
        for task in tasks:
            work.archive("Task", task)

    watched.commit(archive)
    (event,) = watched.events()
    assert event.header["recordIds"] == tasks
    assert (event.header["changeType"], event.header["sequenceNumber"]) == ("GAP_UPDATE", 1)
    assert event.header["transactionKey"].startswith("0Mc")
    assert not event.set_fields
    with rest_client(watched.org) as client:
        assert client.query("SELECT Id FROM Task").json()["records"] == []
        found = client.get("/queryAll", params={"q": "SELECT Id FROM Task WHERE IsArchived = true"}).json()
    assert {record["Id"] for record in found["records"]} == set(tasks)
    (archived,) = list(watched.org.transactions())[-1:]
    assert all(change.is_database_change for change in archived.changes)
    account = watched.create()
    with pytest.raises(RecordError, match="not archived"):
        watched.commit(lambda work: work.archive("Account", account))


def test_an_encrypted_field_is_as_readable_as_before_and_cannot_be_compared() -> None:
    watched = WatchedOrg()
    account = watched.create(Site="Berlin")
    watched.events()
    watched.org.setup.encrypt_field("Account", "Site")
    assert watched.events() == []
    watched.update(account, Site="Ulm")
    (event,) = watched.events()
    assert event.body["Site"] == "Ulm"
    with rest_client(watched.org) as client:
        described = client.get("/sobjects/Account/describe").json()["fields"]
        (site,) = (field for field in described if field["name"] == "Site")
        assert (site["encrypted"], site["filterable"]) == (True, False)
        assert client.query("SELECT Site FROM Account").json()["records"][0]["Site"] == "Ulm"
        refused = client.query("SELECT Id FROM Account WHERE Site = 'Ulm'")
        assert refused.status_code == 400
        assert "can not be filtered" in refused.json()[0]["message"]
    with pytest.raises(RecordError, match="cannot be encrypted"):
        watched.org.setup.encrypt_field("Account", "External_Key__c")


@pytest.mark.parametrize("moves", [False, True])
def test_rotating_the_key_and_encrypting_again_change_no_value_and_raise_no_event(moves: bool) -> None:
    watched = WatchedOrg(reencryption_moves_modstamp=moves)
    watched.create(Site="Berlin")
    watched.org.setup.encrypt_field("Account", "Site")
    watched.events()
    watched.clock.advance(60_000)
    with rest_client(watched.org) as client:
        query = "SELECT Site, LastModifiedDate, SystemModstamp FROM Account"
        (before,) = client.query(query).json()["records"]
        watched.org.encryption_keys.rotate()
        assert client.query(query).json()["records"] == [before]
        watched.org.encryption_keys.encrypt_again()
        (after,) = client.query(query).json()["records"]
    assert (after["Site"], after["LastModifiedDate"]) == (before["Site"], before["LastModifiedDate"])
    assert (after["SystemModstamp"] > before["SystemModstamp"]) is moves
    assert watched.events() == []


def test_a_destroyed_key_takes_the_values_with_it_that_it_encrypted_until_it_is_restored() -> None:
    watched = WatchedOrg()
    watched.org.setup.encrypt_field("Account", "Site")
    old = watched.create(Site="Berlin")
    empty = watched.create()
    with pytest.raises(RecordError, match="rotate"):
        watched.org.encryption_keys.destroy()
    watched.clock.advance(60_000)
    watched.org.encryption_keys.rotate()
    new = watched.create(Site="Ulm")
    watched.events()
    watched.org.encryption_keys.destroy()
    with rest_client(watched.org) as client:

        def sites() -> dict[str, str | None]:
            return {row["Id"]: row["Site"] for row in client.query("SELECT Id, Site FROM Account").json()["records"]}

        assert sites() == {old: "?????", empty: None, new: "Ulm"}
        assert watched.events() == []
        watched.org.encryption_keys.restore()
        assert sites() == {old: "Berlin", empty: None, new: "Ulm"}


def test_the_last_event_of_a_transaction_may_be_dated_a_second_later() -> None:
    watched = WatchedOrg(late_last_events=True)
    watched.commit(lambda work: (work.create("Account", {"Name": "a"}), work.create("Contact", {"LastName": "b"})))
    first, last = (event.header["commitTimestamp"] for event in watched.events())
    assert last - first == 1000
    watched.create()
    (alone,) = watched.events()
    assert alone.header["commitTimestamp"] == first


def test_the_stage_of_an_opportunity_sets_what_it_stands_for() -> None:
    watched = WatchedOrg()
    opportunity = watched.create("Opportunity", Name="o", StageName="Prospecting", CloseDate="2025-02-01")
    (created,) = watched.events()
    shown = ("IsClosed", "IsWon", "ForecastCategory", "ForecastCategoryName", "Probability")
    assert [created.body[name] for name in shown] == [False, False, "Pipeline", "Pipeline", 10.0]
    watched.update(opportunity, "Opportunity", StageName="Closed Won", Probability=99)
    (won,) = watched.events()
    assert [won.body[name] for name in shown] == [True, True, "Closed", "Closed", 99.0]
