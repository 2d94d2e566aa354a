"""What leaves the recycle bin: after 15 days by itself, by hand, or at once; and for how long queryAll shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from sfcdc_assets.emulator.definitions.whole_org import whole_org
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import DAY, HOUR, OrgSettings
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client

SETTINGS = OrgSettings(purged_shown=DAY, token_lifetime=30 * DAY)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def org(clock: ManualClock) -> EmulatedOrg:
    return EmulatedOrg(clock=clock, seed=3, objects=whole_org(), settings=SETTINGS)


@pytest.fixture
def client(org: EmulatedOrg) -> Iterator[RestClient]:
    with rest_client(org) as client:
        yield client


def all_of(client: RestClient, entity: str = "Account") -> dict[str, bool]:
    answer = client.get("/queryAll", params={"q": f"SELECT Id, IsDeleted FROM {entity}"})
    return {row["Id"]: row["IsDeleted"] for row in answer.json()["records"]}


def create(org: EmulatedOrg, entity: str = "Account", **values: object) -> str:
    with org.transaction() as work:
        return work.create(entity, {"Name": "n"} if entity == "Account" else values)


def test_an_emptied_bin_is_shown_for_a_day_and_gives_nothing_back(
    org: EmulatedOrg, clock: ManualClock, client: RestClient
) -> None:
    record_id = create(org)
    assert client.send("DELETE", f"/sobjects/Account/{record_id}").status_code == 204
    with org.transaction() as work:
        work.hard_delete("Account", record_id)
    clock.advance(DAY - HOUR)
    assert all_of(client) == {record_id: True}
    with pytest.raises(RecordError, match="UNDELETE_FAILED"), org.transaction() as work:
        work.undelete("Account", record_id)
    clock.advance(2 * HOUR)
    assert client.get("/limits").status_code == 200
    assert all_of(client) == {}
    assert client.get(f"/sobjects/Account/{record_id}").json()[0]["errorCode"] == "NOT_FOUND"


def test_a_live_record_that_is_purged_is_deleted_and_shown_as_such(org: EmulatedOrg, client: RestClient) -> None:
    record_id = create(org)
    with org.transaction() as work:
        work.hard_delete("Account", record_id)
    assert [change.change_type for change in work.committed.changes if change.entity == "Account"] == ["DELETE"]
    assert all_of(client) == {record_id: True}
    assert client.query("SELECT Id FROM Account").json()["totalSize"] == 0


def test_the_bin_empties_itself_after_15_days(org: EmulatedOrg, clock: ManualClock, client: RestClient) -> None:
    first = create(org)
    contact = create(org, "Contact", LastName="Kaya", AccountId=first)
    with org.transaction() as work:
        work.delete("Account", first)
    clock.advance(DAY)
    second = create(org)
    with org.transaction() as work:
        work.delete("Account", second)
    clock.advance(14 * DAY + 2 * HOUR)
    client.get("/limits")
    with pytest.raises(RecordError, match="UNDELETE_FAILED"), org.transaction() as work:
        work.undelete("Account", first)
    with org.transaction() as work:
        work.undelete("Account", second)
    clock.advance(DAY + HOUR)
    client.get("/limits")
    assert all_of(client) == {second: False}
    assert contact not in all_of(client, "Contact")
    assert all_of(client, "AccountHistory").keys() == {
        str(row["Id"]) for row in org.records("AccountHistory") if row["AccountId"] == second
    }


def test_a_full_bin_loses_its_oldest_records_but_none_of_the_last_two_hours(
    org: EmulatedOrg, clock: ManualClock, client: RestClient
) -> None:
    org.settings = replace(SETTINGS, purged_shown=0, data_storage_mb=1)
    ids = [create(org) for _ in range(40)]
    for record_id in ids[:30]:
        clock.advance(60_000)
        with org.transaction() as work:
            work.delete("Account", record_id)
    clock.advance(HOUR)
    client.get("/limits")
    assert {record_id for record_id, deleted in all_of(client).items() if deleted} == set(ids[:30])
    clock.advance(2 * HOUR)
    client.get("/limits")
    assert {record_id for record_id, deleted in all_of(client).items() if deleted} == set(ids[5:30])


def test_of_some_objects_no_record_is_ever_seen_deleted(org: EmulatedOrg, client: RestClient) -> None:
    org.settings = replace(SETTINGS, purged_shown=0)
    org.populate({"Campaign": 1, "Contact": 1})
    (campaign,), (contact,) = list(org.records("Campaign")), list(org.records("Contact"))
    member = create(org, "CampaignMember", CampaignId=campaign["Id"], ContactId=contact["Id"])
    described = client.get("/sobjects/CampaignMember/describe").json()
    assert (described["deletable"], described["undeletable"]) == (True, False)
    assert "IsDeleted" in {field["name"] for field in described["fields"]}
    assert client.send("DELETE", f"/sobjects/CampaignMember/{member}").status_code == 204
    assert all_of(client, "CampaignMember") == {}
    assert org.record("CampaignMember", member) is None


def test_the_losers_of_a_merge_wait_in_the_bin_with_their_master(org: EmulatedOrg, client: RestClient) -> None:
    winner, loser = create(org), create(org)
    assert client.post(f"/sobjects/Account/{winner}/merge", {"losers": [loser]}).status_code == 200
    answer = client.get("/queryAll", params={"q": "SELECT Id, MasterRecordId FROM Account WHERE IsDeleted = true"})
    assert [(row["Id"], row["MasterRecordId"]) for row in answer.json()["records"]] == [(loser, winner)]
