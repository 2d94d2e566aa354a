"""Day 0, then changes of every kind: the tables follow the org field by field."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sfcdc_assets.emulator.traffic.traffic import TrafficGenerator
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids

pytestmark = pytest.mark.slow


def test_day_zero_is_every_record_of_the_org(pipeline: EmulatedPipeline) -> None:
    deleted = ids(pipeline.org, "Contact")[3]
    with pipeline.org.transaction() as before_the_first_read:
        before_the_first_read.delete("Contact", deleted)
    pipeline.sync()
    pipeline.assert_equal_to_the_org()
    assert pipeline.rows("Contact")[deleted]["_is_deleted"]


def test_a_record_that_is_changed_and_deleted_in_one_transaction_keeps_its_values(
    synced: EmulatedPipeline,
) -> None:
    """Its event is a DELETE alone; the recycle bin shows the change, and nothing reports it."""
    org, changed = synced.org, ids(synced.org, "Contact")[3]
    before = synced.rows("Contact")[changed]
    with org.transaction() as one:
        one.update("Contact", changed, {"Phone": "changed before it went", "Birthdate": None})
        one.delete("Contact", changed)
    synced.sync()
    synced.assert_equal_to_the_org()
    row = synced.rows("Contact")[changed]
    assert (row["_is_deleted"], row["Phone"], row["Birthdate"]) == (True, before["Phone"], before["Birthdate"])
    with org.transaction() as one:
        one.undelete("Contact", changed)
    synced.sync()
    synced.assert_equal_to_the_org()
    assert synced.rows("Contact")[changed]["Phone"] == "changed before it went"


def test_changes_of_every_kind_reach_the_tables(synced: EmulatedPipeline) -> None:
    org = synced.org
    accounts, contacts = ids(org, "Account"), ids(org, "Contact")
    with org.transaction() as one:
        created = one.create(
            "Account",
            {
                "Name": 'Ärger & Söhne "GmbH", é漢😀\nsecond line',
                "Description": " leading space, \t tab\r\nnew line ",
                "NumberOfEmployees": 0,
                "AnnualRevenue": 1234567.89,
                "Discount__c": 12.5,
                "Health_Score__c": -0.25,
                "SLAExpirationDate__c": "2024-02-29",
                "Next_Review__c": 1_709_164_800_123,
                "Support_Opens__c": "08:30:00.500",
                "Is_Partner__c": True,
                "BillingCity": "Graz",
                "BillingLatitude": 47.07,
                "BillingLongitude": 15.44,
                "ParentId": accounts[0],
            },
        )
    with org.transaction() as one:
        one.update("Account", accounts[1], {"Name": "renamed", "Is_Partner__c": True, "Rating": "Hot"})
    with org.transaction() as one:
        one.update("Account", accounts[2], {"Phone": "1", "Website": "https://example.com", "AnnualRevenue": 5})
    with org.transaction() as one:
        one.update("Account", accounts[2], {"Phone": None, "Website": None, "AnnualRevenue": None, "Regions__c": None})
    with org.transaction() as one:
        one.update("Account", accounts[3], {"BillingStreet": "1 Main St", "BillingCity": "Linz", "BillingState": "OÖ"})
    with org.transaction() as one:
        one.update("Account", accounts[3], {"BillingStreet": None, "ShippingCity": "Wels"})
    with org.transaction() as one:
        one.update("Contact", contacts[0], {"FirstName": None, "LastName": "Müller", "MailingCity": "Graz"})
    with org.transaction() as bulk:
        for contact in contacts[1:6]:
            bulk.update("Contact", contact, {"Department": "Same for all"})
    with org.transaction() as geocoding:
        geocoding.update("Contact", contacts[6], {"MailingLatitude": 1.5, "MailingLongitude": -2.5}, touch=False)
    with org.transaction() as one:
        one.delete("Account", accounts[4])
    with org.transaction() as one:
        one.delete("Account", accounts[5])
        one.delete("Contact", contacts[7])
    with org.transaction() as one:
        one.undelete("Account", accounts[5])
    with org.transaction() as one:
        one.update("Account", accounts[5], {"Name": "came back"})
    with org.transaction() as several:
        parent = several.create("Account", {"Name": "of one transaction"})
        several.create("Contact", {"LastName": "of one transaction", "AccountId": parent})
        several.update("Contact", contacts[8], {"AccountId": parent})
        several.delete("Contact", contacts[9])
    with org.transaction() as short_life:
        gone = short_life.create("Contact", {"LastName": "created, then deleted"})
    with org.transaction() as short_life:
        short_life.delete("Contact", gone)

    synced.sync()

    synced.assert_equal_to_the_org()
    rows = synced.rows("Account")
    assert rows[created]["Name"].endswith("second line")
    assert rows[accounts[4]]["_deleted_reason"] == "deleted"
    assert rows[accounts[5]]["Name"] == "came back"
    events = synced.scan("raw_events")
    assert [len(each["record_ids"]) for each in events if each["record_ids"][0] == contacts[1]] == [5]
    assert {each["entity_name"] for each in events if each["transaction_key"] == rows[parent]["_transaction_key"]} == {
        "Account",
        "Contact",
    }


def test_a_row_tells_the_last_event_that_touched_it(synced: EmulatedPipeline) -> None:
    account = ids(synced.org, "Account")[0]
    user = ids(synced.org, "User")[2]
    with synced.org.transaction(user_id=user, change_origin="com/salesforce/api/rest/65.0;client=Loader") as one:
        one.update("Account", account, {"Site": "by another user"})
    synced.sync()
    (event,) = synced.scan("raw_events")
    row = synced.rows("Account")[account]
    assert row["_position"] == event["position"] == 1
    assert row["_commit_user"] == user
    assert row["_change_origin"] == "com/salesforce/api/rest/65.0;client=Loader"
    assert row["_commit_timestamp"] == event["commit_timestamp"]
    assert row["_transaction_key"] == event["transaction_key"]


def test_seeded_traffic_on_all_objects_before_and_after_day_zero(
    make_pipeline: Callable[..., EmulatedPipeline],
) -> None:
    seed = 77
    print(f"seed {seed}")
    pipeline = make_pipeline(records=12, seed=seed)
    traffic = TrafficGenerator(pipeline.org, seed, bus=pipeline.server.bus)
    traffic.run(events=60)
    pipeline.sync()
    traffic.run(events=250)
    pipeline.sync()
    pipeline.assert_equal_to_the_org()
    positions = sorted(event["position"] for event in pipeline.scan("raw_events"))
    assert positions == list(range(1, pipeline.server.bus.last_number + 1))
    assert {event["channel"] for event in pipeline.scan("raw_events")} == {CHANNEL}
