"""View All: what the client's user is shown with it and without it, and how a client can ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client

ASSIGNED = (
    "SELECT PermissionSetId, PermissionSet.PermissionsViewAllData, PermissionSet.IsOwnedByProfile "
    "FROM PermissionSetAssignment"
)
OBJECTS = "SELECT SobjectType FROM ObjectPermissions WHERE PermissionsViewAllRecords = true"


@pytest.fixture
def org() -> EmulatedOrg:
    org = EmulatedOrg(clock=ManualClock(), seed=5)
    org.populate({"User": 3, "Account": 40, "Invoice_Statement__c": 60})
    return org


@pytest.fixture
def client(org: EmulatedOrg) -> Iterator[RestClient]:
    with rest_client(org) as client:
        yield client


def records(client: RestClient, soql: str) -> list[dict[str, Any]]:
    return client.query(soql).json()["records"]


def owned(org: EmulatedOrg) -> set[str]:
    return {str(each["Id"]) for each in org.records("Account") if each["OwnerId"] == org.users.integration}


def test_without_it_only_the_users_own_records_are_shown_and_nothing_is_refused(
    org: EmulatedOrg, client: RestClient
) -> None:
    every = [str(each["Id"]) for each in org.records("Account")]
    org.view_all.withdraw()
    assert 0 < len(owned(org)) < 40
    assert {row["Id"] for row in records(client, "SELECT Id FROM Account")} == owned(org)
    assert client.query("SELECT COUNT() FROM Account").json()["totalSize"] == len(owned(org))
    read = client.post("/composite/sobjects/Account", {"ids": every, "fields": ["Id"]})
    assert read.status_code == 200
    assert {row and row["Id"] for row in read.json()} == owned(org) | {None}
    hidden = next(each for each in every if each not in owned(org))
    assert client.get(f"/sobjects/Account/{hidden}").status_code == 404
    org.view_all.give_back()
    assert len(records(client, "SELECT Id FROM Account")) == 40
    assert client.get(f"/sobjects/Account/{hidden}").status_code == 200


def test_the_recycle_bin_shows_no_more_than_the_object(org: EmulatedOrg, client: RestClient) -> None:
    with org.transaction() as work:
        for record in list(org.records("Account"))[:20]:
            work.delete("Account", str(record["Id"]))
    org.view_all.withdraw("Account")
    shown = client.get("/queryAll", params={"q": "SELECT OwnerId FROM Account"}).json()["records"]
    assert {row["OwnerId"] for row in shown} == {org.users.integration}


def test_where_ownership_is_not_modelled_a_part_is_shown_which_stays_the_same(
    org: EmulatedOrg, client: RestClient
) -> None:
    no_owner = org.definitions["User"].field("OwnerId") is None
    assert no_owner
    definition = org.definitions["Invoice_Statement__c"]
    if definition.field("OwnerId") is not None:
        fields = tuple(field for field in definition.fields if field.name != "OwnerId")
        org.replace_definition(definition.with_fields(fields))
    org.view_all.withdraw("Invoice_Statement__c")
    soql = "SELECT Id FROM Invoice_Statement__c"
    shown = [row["Id"] for row in records(client, soql)]
    assert 0 < len(shown) < 30
    assert [row["Id"] for row in records(client, soql)] == shown
    assert len(records(client, "SELECT Id FROM Account")) == 40


def test_a_client_can_ask_for_it_as_it_asks_salesforce(org: EmulatedOrg, client: RestClient) -> None:
    sets = records(client, ASSIGNED + f" WHERE AssigneeId = '{org.users.integration}'")
    assert [each["PermissionSet"]["PermissionsViewAllData"] for each in sets] == [True, False]
    assert [each["PermissionSet"]["IsOwnedByProfile"] for each in sets] == [True, False]
    org.view_all.withdraw("Account")
    listed = ", ".join(f"'{each['PermissionSetId']}'" for each in records(client, ASSIGNED))
    assert not any(each["PermissionSet"]["PermissionsViewAllData"] for each in records(client, ASSIGNED))
    objects = {each["SobjectType"] for each in records(client, f"{OBJECTS} AND ParentId IN ({listed})")}
    assert objects == set(org.definitions) - {"User", "Account"}
    org.view_all.withdraw()
    assert records(client, OBJECTS) == []
    assert len(records(client, "SELECT Id FROM User")) == org.count("User")
    org.view_all.give_back("Account")
    assert [each["SobjectType"] for each in records(client, OBJECTS)] == ["Account"]
    assert client.query("SELECT COUNT() FROM PermissionSet").json()["totalSize"] == 2


def test_an_org_may_keep_who_may_do_what_to_itself(org: EmulatedOrg, client: RestClient) -> None:
    org.hidden_objects.add("PermissionSetAssignment")
    answer = client.query(ASSIGNED)
    assert (answer.status_code, answer.json()[0]["errorCode"]) == (400, "INVALID_TYPE")


def test_a_withdrawn_permission_stays_withdrawn_over_a_restart(tmp_path: Path) -> None:
    org = EmulatedOrg(tmp_path, clock=ManualClock())
    org.view_all.withdraw("Account")
    org.close()
    again = EmulatedOrg(tmp_path, clock=ManualClock())
    assert (again.view_all.of("Account"), again.view_all.of("Contact"), again.view_all.of_all_data) == (
        False,
        True,
        False,
    )
    with pytest.raises(RecordError, match="Nobody"):
        again.view_all.withdraw("Nobody")
    again.close()
