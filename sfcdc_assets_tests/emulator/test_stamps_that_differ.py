"""SystemModstamp, LastModifiedDate and CreatedDate: what moves one of them and not the others."""

from __future__ import annotations

import pytest

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import DAY, HOUR, OrgSettings
from sfcdc_assets_tests.emulator.rest_server import rest_client

STAMPS = ("CreatedDate", "LastModifiedDate", "SystemModstamp")


@pytest.fixture
def clock() -> ManualClock:
    clock = ManualClock()
    clock.advance(250)
    return clock


@pytest.fixture
def org(clock: ManualClock) -> EmulatedOrg:
    return EmulatedOrg(clock=clock, seed=3)


def create(org: EmulatedOrg, entity: str = "Account", **values: object) -> str:
    with org.transaction() as work:
        return work.create(entity, {"Name": "n", **values} if entity == "Account" else values)


def ages(org: EmulatedOrg, record_id: str, entity: str = "Account") -> tuple[int, ...]:
    """Hours since each of the three."""
    record = org.record(entity, record_id) or {}
    now = org.clock() - org.clock() % 1000
    return tuple((now - int(record[name] or 0)) // HOUR for name in STAMPS)


def test_a_person_moves_two_and_the_org_itself_one(org: EmulatedOrg, clock: ManualClock) -> None:
    account = create(org, Industry="Media")
    clock.advance(HOUR)
    with org.transaction() as work:
        work.update("Account", account, {"Phone": "1"})
    assert ages(org, account) == (1, 0, 0)
    clock.advance(HOUR)
    with org.transaction() as work:
        work.update("Account", account, {"BillingLatitude": 1.5}, touch=False)
    assert ages(org, account) == (2, 1, 0)


def test_a_renamed_picklist_value_moves_the_stamp_of_records_that_have_it(org: EmulatedOrg, clock: ManualClock) -> None:
    with_it, without = create(org, Industry="Media"), create(org, Industry="Retail")
    clock.advance(HOUR)
    assert org.setup.rename_picklist_value("Account", "Industry", "Media", "Press") == 1
    assert ages(org, with_it) == (1, 1, 0)
    assert ages(org, without) == (1, 1, 1)


def test_a_new_roll_up_moves_that_of_every_parent(org: EmulatedOrg, clock: ManualClock) -> None:
    accounts = [create(org) for _ in range(3)]
    clock.advance(HOUR)
    roll_up = {"child": "Contact", "parent_field": "AccountId", "operation": "COUNT"}
    org.setup.add_field("Account", "Contacts__c", {"type": "double", "roll_up": roll_up})
    assert [ages(org, each) for each in accounts] == [(1, 1, 0)] * 3
    with org.transaction() as work:
        work.create("Contact", {"LastName": "Kaya", "AccountId": accounts[0]})
    assert (org.record("Account", accounts[0]) or {})["Contacts__c"] == 1


def test_a_deleted_record_keeps_when_it_was_last_changed_by_a_person(org: EmulatedOrg, clock: ManualClock) -> None:
    account = create(org)
    clock.advance(HOUR)
    with org.transaction() as work:
        work.delete("Account", account)
    assert ages(org, account) == (1, 1, 0)


def test_a_migration_gives_old_dates_where_it_may_and_the_stamp_is_new(org: EmulatedOrg) -> None:
    given = {
        "Name": "old",
        "CreatedDate": "2010-01-01T00:00:00Z",
        "LastModifiedDate": "2011-01-01T00:00:00.000+0000",
        "LastModifiedById": org.users.automated_process,
    }
    with pytest.raises(RecordError, match="INVALID_FIELD_FOR_INSERT_UPDATE"):
        create(org, **given)
    org.settings = OrgSettings(sets_audit_fields=True)
    with rest_client(org) as client:
        answer = client.post("/sobjects/Account", given)
        assert answer.status_code == 201, answer.text
        record_id = answer.json()["id"]
        soql = f"SELECT CreatedDate, LastModifiedDate, LastModifiedById FROM Account WHERE Id = '{record_id}'"
        (row,) = client.query(soql).json()["records"]
        assert row["CreatedDate"] == "2010-01-01T00:00:00.000+0000"
        assert row["LastModifiedDate"] == "2011-01-01T00:00:00.000+0000"
        assert row["LastModifiedById"] == org.users.automated_process
        refused = client.post("/sobjects/Account", {"Name": "n", "SystemModstamp": given["CreatedDate"]})
        assert refused.json()[0]["errorCode"] == "INVALID_FIELD_FOR_INSERT_UPDATE"
    assert ages(org, record_id)[2] == 0
    assert ages(org, record_id)[1] > 10 * 365 * DAY // HOUR


def test_all_three_are_whole_seconds(org: EmulatedOrg) -> None:
    record = org.record("Account", create(org)) or {}
    assert [int(record[name] or 0) % 1000 for name in STAMPS] == [0, 0, 0]
