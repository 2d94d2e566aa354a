"""What the org writes of its own accord when records change: histories of tracked fields, shares of owners, feeds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sfcdc_assets.emulator.definitions.object_access import CompanionKind
from sfcdc_assets.emulator.definitions.whole_org import whole_org
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.setup.companion_setup import add_companion, track_fields
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client


@pytest.fixture
def clock() -> ManualClock:
    clock = ManualClock()
    clock.advance(250)
    return clock


@pytest.fixture
def org(clock: ManualClock) -> EmulatedOrg:
    return EmulatedOrg(clock=clock, seed=3, objects=whole_org())


@pytest.fixture
def client(org: EmulatedOrg) -> Iterator[RestClient]:
    with rest_client(org) as client:
        yield client


def rows(org: EmulatedOrg, entity: str = "AccountHistory") -> list[dict[str, Any]]:
    return list(org.records(entity))


def reported(org: EmulatedOrg, entity: str = "AccountHistory") -> set[tuple[object, ...]]:
    return {(row["Field"], row["DataType"], row["OldValue"], row["NewValue"]) for row in rows(org, entity)}


def create(org: EmulatedOrg, entity: str = "Account", **values: object) -> str:
    with org.transaction() as work:
        return work.create(entity, values)


def update(org: EmulatedOrg, entity: str, record_id: str, user_id: str | None = None, **values: object) -> None:
    with org.transaction(user_id=user_id) as work:
        work.update(entity, record_id, values)


def test_a_history_says_created_and_then_what_changed_in_tracked_fields(org: EmulatedOrg, clock: ManualClock) -> None:
    account = create(org, Name="a", Industry="Media")
    assert reported(org) == {("created", "Text", None, None)}
    clock.advance(60_000)
    update(org, "Account", account, Industry="Retail", AnnualRevenue=12, Phone="1")
    update(org, "Account", account, Phone="2")
    assert reported(org) == {
        ("created", "Text", None, None),
        ("Industry", "DynamicEnum", "Media", "Retail"),
        ("AnnualRevenue", "Currency", None, 12.0),
    }
    assert {row["CreatedDate"] % 1000 for row in rows(org)} == {0}
    assert {row["CreatedById"] for row in rows(org)} == {org.users.integration}
    assert {row["AccountId"] for row in rows(org)} == {account}


def test_a_lookup_gives_two_rows_one_with_names_and_one_with_ids(org: EmulatedOrg) -> None:
    first, second = create(org, Name="first"), create(org, Name="second")
    contact = create(org, "Contact", LastName="Kaya", AccountId=first)
    update(org, "Contact", contact, AccountId=second)
    assert reported(org, "ContactHistory") == {
        ("created", "Text", None, None),
        ("Account", "Text", "first", "second"),
        ("Account", "EntityId", first, second),
    }


def test_of_long_texts_it_says_only_that_they_changed(org: EmulatedOrg) -> None:
    account = create(org, Name="a", Description="one")
    update(org, "Account", account, Description="two")
    assert ("Description", "TextArea", None, None) in reported(org)


def test_an_owner_is_told_of_by_owner_and_by_owner_assignment_where_a_rule_chose(org: EmulatedOrg) -> None:
    case = create(org, "Case", Subject="s")
    other = org.users.automated_process
    update(org, "Case", case, user_id=other, OwnerId=other)
    update(org, "Case", case, OwnerId=org.users.integration)
    fields = sorted(str(row["Field"]) for row in rows(org, "CaseHistory"))
    assert fields == ["Owner", "Owner", "created", "ownerAssignment", "ownerAssignment"]


def test_ids_do_not_tell_the_order_within_a_second(org: EmulatedOrg) -> None:
    account = create(org, Name="a")
    for number in range(6):
        update(org, "Account", account, Name=f"{number}")
    by_id = [row["NewValue"] for row in rows(org) if row["Field"] == "Name"]
    assert sorted(by_id) == [str(number) for number in range(6)]
    assert by_id != sorted(by_id)
    assert len({row["CreatedDate"] for row in rows(org)}) == 1


def test_values_have_their_own_types_in_rest_and_are_texts_in_bulk(org: EmulatedOrg, client: RestClient) -> None:
    invoice = org.definitions["Invoice_Statement__c"]
    checkbox = next((name for name in invoice.tracked if invoice.fields_by_name[name].type == "boolean"), None)
    account = create(org, Name="a", AnnualRevenue=1)
    update(org, "Account", account, Name="b", AnnualRevenue=3)
    answer = client.query("SELECT Field, OldValue, NewValue FROM AccountHistory WHERE Field != 'created'").json()
    values = {row["Field"]: (row["OldValue"], row["NewValue"]) for row in answer["records"]}
    assert values == {"Name": ("a", "b"), "AnnualRevenue": (1.0, 3.0)}
    job = client.post(
        "/jobs/query", {"operation": "query", "query": "SELECT Field, NewValue FROM AccountHistory"}
    ).json()["id"]
    while client.get(f"/jobs/query/{job}").json()["state"] != "JobComplete":
        pass
    lines = client.get(f"/jobs/query/{job}/results").text.split()
    assert set(lines) == {'"Field","NewValue"', '"created",""', '"Name","b"', '"AnnualRevenue","3.0"'}
    assert client.query("SELECT Id FROM AccountHistory WHERE NewValue = 'b'").json()[0]["errorCode"] == "INVALID_FIELD"
    if checkbox is not None:
        record = create(org, "Invoice_Statement__c", **{checkbox: False})
        update(org, "Invoice_Statement__c", record, **{checkbox: True})
        soql = f"SELECT NewValue FROM Invoice_Statement__History WHERE Field = '{checkbox}'"
        assert client.query(soql).json()["records"][0]["NewValue"] is True


def test_a_history_goes_with_its_record_and_comes_back_with_it(org: EmulatedOrg, client: RestClient) -> None:
    account = create(org, Name="a")
    (row,) = rows(org)
    assert client.send("DELETE", f"/sobjects/Account/{account}").status_code == 204
    assert (rows(org), rows(org, "AccountShare")) == ([], [])
    answer = client.get("/queryAll", params={"q": "SELECT Id, IsDeleted, CreatedDate FROM AccountHistory"}).json()
    assert [(each["Id"], each["IsDeleted"]) for each in answer["records"]] == [(row["Id"], True)]
    with org.transaction() as work:
        work.undelete("Account", account)
    assert rows(org) == [row]
    assert len(rows(org, "AccountShare")) == 1


def test_an_owner_has_a_share_and_a_new_owner_another_one(org: EmulatedOrg, client: RestClient) -> None:
    account = create(org, Name="a")
    (first,) = rows(org, "AccountShare")
    assert (first["UserOrGroupId"], first["RowCause"], first["AccountAccessLevel"]) == (
        org.users.integration, "Owner", "All",
    )  # fmt: skip
    update(org, "Account", account, OwnerId=org.users.automated_process)
    (second,) = rows(org, "AccountShare")
    assert second["UserOrGroupId"] == org.users.automated_process
    assert second["Id"] != first["Id"]
    answer = client.get("/queryAll", params={"q": "SELECT Id, IsDeleted FROM AccountShare"}).json()
    assert [each["Id"] for each in answer["records"]] == [second["Id"]], "no share is ever seen deleted"


def test_a_feed_has_an_entry_for_each_save_of_tracked_fields(org: EmulatedOrg) -> None:
    account = create(org, Name="a")
    update(org, "Account", account, Name="b", Industry="Media")
    update(org, "Account", account, Phone="1")
    assert [(row["Type"], row["ParentId"]) for row in rows(org, "AccountFeed")] == [("TrackedChange", account)]


def test_records_loaded_on_day_zero_were_created_and_have_owners(org: EmulatedOrg) -> None:
    org.populate(10)
    accounts = {record["Id"]: record for record in org.records("Account")}
    history, shares = rows(org), rows(org, "AccountShare")
    assert {row["AccountId"]: row["CreatedDate"] for row in history} == {
        record_id: record["CreatedDate"] for record_id, record in accounts.items()
    }
    assert {row["AccountId"]: row["UserOrGroupId"] for row in shares} == {
        record_id: record["OwnerId"] for record_id, record in accounts.items()
    }
    for _ in range(20):
        create(org, Name="a")
    assert len(rows(org)) == 30
    assert rows(org, "AccountFeed") == []


def test_the_log_has_them_and_no_event_tells_of_them(org: EmulatedOrg) -> None:
    bus = EventBus(org)
    before = org.state_at(org.last_commit_number)
    account = create(org, Name="a")
    number = org.last_commit_number
    update(org, "Account", account, Name="b", OwnerId=org.users.automated_process)
    with org.transaction() as work:
        work.delete("Account", account)
    found = bus.read(org.definitions, after=0, max_events=100, max_bytes=10**9).events
    assert {event.entity for event in found} == {"Account"}
    assert len(found) == 3
    assert org.state_at(0)["AccountHistory"] == before["AccountHistory"] == {}
    then = org.state_at(number)
    assert [row["Field"] for row in then["AccountHistory"].values()] == ["created"]
    assert [row["UserOrGroupId"] for row in then["AccountShare"].values()] == [org.users.integration]


def test_folded_back_a_history_gives_what_the_log_has(org: EmulatedOrg, clock: ManualClock) -> None:
    account = create(org, Name="a", Industry="Media")
    numbers = [org.last_commit_number]
    for values in ({"Name": "b"}, {"Industry": None, "AnnualRevenue": 1}, {"Name": "c", "AnnualRevenue": 2}):
        clock.advance(2_000)
        update(org, "Account", account, **values)
        numbers.append(org.last_commit_number)
    state = dict(org.record("Account", account) or {})
    tracked = ("Name", "Industry", "AnnualRevenue")
    moments = sorted({row["CreatedDate"] for row in rows(org)}, reverse=True)
    for number, moment in zip(reversed(numbers), moments, strict=True):
        truth = org.records_at("Account", number)[account]
        assert {name: state[name] for name in tracked} == {name: truth[name] for name in tracked}
        for row in rows(org):
            if row["CreatedDate"] == moment and row["Field"] in tracked:
                assert row["NewValue"] == state[row["Field"]]
                state[row["Field"]] = row["OldValue"]


def test_an_administrator_switches_them_on_while_the_org_runs(clock: ManualClock) -> None:
    org = EmulatedOrg(clock=clock, seed=3)
    account = create(org, Name="a", Industry="Media")
    assert track_fields(org, "Account", ["Industry"]).name == "AccountHistory"
    assert add_companion(org, "Account", CompanionKind.SHARE).name == "AccountShare"
    assert "AccountHistory" not in org.selected_entities
    update(org, "Account", account, Industry="Retail", Name="b")
    assert reported(org) == {("Industry", "DynamicEnum", "Media", "Retail")}
    track_fields(org, "Account", ["Name"])
    update(org, "Account", account, Industry="Media", Name="c")
    assert len(rows(org)) == 2
    for names, code in ((["Account_Plan__c"] * 21, "LIMIT_EXCEEDED"), (["SystemModstamp"], "INVALID_FIELD")):
        with pytest.raises(RecordError, match=code):
            track_fields(org, "Account", names)
    with pytest.raises(RecordError, match="INVALID_OPERATION"):
        add_companion(org, "AccountHistory", CompanionKind.FEED)
