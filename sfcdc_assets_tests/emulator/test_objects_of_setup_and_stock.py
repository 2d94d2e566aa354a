"""Objects that stock connectors read: those of Setup, whose rows describe the org, and more of the vendor's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from sfcdc_assets.cli.demo_parts.emulated_org import open_emulated_org
from sfcdc_assets.emulator.definitions.object_file import built_in_definitions, stock_definitions
from sfcdc_assets.emulator.definitions.whole_org import whole_org
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import DAY, OrgSettings
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client
from sfcdc_assets_tests.eventually import BOUND_SECONDS

MINUTE = 60_000


@pytest.fixture(scope="module")
def org() -> EmulatedOrg:
    org = EmulatedOrg(
        seed=5, objects=[*built_in_definitions(), *stock_definitions()], settings=OrgSettings(is_sandbox=True)
    )
    org.populate(5)
    return org


@pytest.fixture(scope="module")
def client(org: EmulatedOrg) -> Iterator[RestClient]:
    with rest_client(org) as client:
        yield client


def rows(client: RestClient, soql: str, resource: str = "/query") -> list[dict[str, Any]]:
    answer = client.get(resource, params={"q": soql})
    assert answer.status_code == 200, answer.text
    return answer.json()["records"]


def test_organization_says_which_org_it_is(org: EmulatedOrg, client: RestClient) -> None:
    soql = "SELECT Id, Name, IsSandbox, OrganizationType, NamespacePrefix, InstanceName FROM Organization LIMIT 1"
    (row,) = rows(client, soql)
    assert (row["Id"], row["IsSandbox"], row["InstanceName"]) == (org.organization_id, True, "EMU1")


@pytest.mark.parametrize("resource", ["/query", "/tooling/query"])
def test_objects_and_fields_are_given_as_rows(org: EmulatedOrg, client: RestClient, resource: str) -> None:
    soql = "SELECT QualifiedApiName, KeyPrefix, Label FROM EntityDefinition WHERE IsCustomizable = true"
    assert {row["QualifiedApiName"]: row["KeyPrefix"] for row in rows(client, soql, resource)} == {
        name: definition.key_prefix for name, definition in org.definitions.items()
    }
    soql = (
        "SELECT QualifiedApiName, DataType, EntityDefinition.QualifiedApiName FROM FieldDefinition "
        "WHERE EntityDefinition.QualifiedApiName = 'Account'"
    )
    fields = {row["QualifiedApiName"]: row["DataType"] for row in rows(client, soql, resource)}
    assert list(fields) == [field.name for field in org.definitions["Account"].fields]
    assert (fields["ParentId"], fields["Name"], fields["Credit_Limit__c"]) == (
        "Lookup(Account)", "Text(255)", "Currency(16, 2)",
    )  # fmt: skip


def test_setup_is_described_and_cannot_be_written(client: RestClient) -> None:
    listed = {each["name"]: each for each in client.get("/sobjects").json()["sobjects"]}
    for name in ("Organization", "RecordType", "Profile", "EntityDefinition", "FieldDefinition", "PermissionSet"):
        assert listed[name]["queryable"]
        assert not listed[name]["createable"]
        fields = client.get(f"/sobjects/{name}/describe").json()["fields"]
        names = [field["name"] for field in fields if field["type"] != "address"]
        needed = " WHERE EntityDefinitionId = 'Account'" if name == "FieldDefinition" else ""
        rows(client, f"SELECT {', '.join(names)} FROM {name}{needed} LIMIT 3")
    assert client.post("/sobjects/Organization", {"Name": "x"}).status_code == 404


def test_record_types_are_those_of_person_accounts() -> None:
    org = EmulatedOrg(seed=2)
    org.setup.enable_person_accounts()
    with rest_client(org) as client:
        assert [row["DeveloperName"] for row in rows(client, "SELECT DeveloperName FROM RecordType")] == [
            "Business_Account",
            "PersonAccount",
        ]


def test_records_lead_to_objects_of_setup_over_relationships(org: EmulatedOrg, client: RestClient) -> None:
    soql = "SELECT Id, CreatedBy.Profile.Name, Owner.UserRole.Name, LastModifiedBy.ProfileId FROM Account"
    found = {row["Id"]: row for row in rows(client, soql)}
    profiles = {row["Id"]: row["Name"] for row in rows(client, "SELECT Id, Name FROM Profile")}
    assert len(profiles) == 3
    for account in org.records("Account"):
        creator, owner = (org.record("User", str(account[name])) or {} for name in ("CreatedById", "OwnerId"))
        role = org.record("UserRole", str(owner["UserRoleId"])) if owner["UserRoleId"] else None
        row = found[str(account["Id"])]
        assert row["CreatedBy"]["Profile"]["Name"] == profiles[str(creator["ProfileId"])]
        shown = row["Owner"]["UserRole"]
        assert (shown and shown["Name"]) == (role and role["Name"])


def test_record_types_are_read_through_records_filtered_by_and_described(org: EmulatedOrg, client: RestClient) -> None:
    found = rows(client, "SELECT Id, RecordTypeId, RecordType.Name, RecordType.DeveloperName FROM Campaign")
    types = {row["Id"]: row for row in rows(client, "SELECT Id, Name FROM RecordType WHERE SobjectType = 'Campaign'")}
    truth = {str(record["Id"]): record["RecordTypeId"] for record in org.records("Campaign")}
    assert {row["Id"]: row["RecordTypeId"] for row in found} == truth
    assert all(row["RecordType"]["Name"] == types[row["RecordTypeId"]]["Name"] for row in found)
    infos = client.get("/sobjects/Campaign/describe").json()["recordTypeInfos"]
    assert [(each["name"], each["developerName"], each["defaultRecordTypeMapping"]) for each in infos] == [
        ("Marketing Campaign", "Marketing_Campaign", True),
        ("Partner Campaign", "Partner_Campaign", False),
        ("Master", "Master", False),
    ]
    partner = infos[1]["recordTypeId"]
    soql = "SELECT Id FROM Campaign WHERE RecordType.DeveloperName = 'Partner_Campaign' ORDER BY RecordType.Name, Id"
    assert {row["Id"] for row in rows(client, soql)} == {each for each, kind in truth.items() if kind == partner}
    made = client.post("/sobjects/Campaign", {"Name": "New"}).json()["id"]
    try:
        (row,) = rows(client, f"SELECT RecordType.Name FROM Campaign WHERE Id = '{made}'")
        assert row["RecordType"]["Name"] == "Marketing Campaign"
        refused = client.send("PATCH", f"/sobjects/Campaign/{made}", json={"RecordTypeId": "012000000000001"})
        assert refused.json()[0]["errorCode"] == "INVALID_CROSS_REFERENCE_KEY"
    finally:
        client.send("DELETE", f"/sobjects/Campaign/{made}")


def test_record_types_come_while_the_org_runs_to_records_and_events() -> None:
    org = EmulatedOrg(seed=6)
    org.populate({"User": 1, "Account": 3})
    org.setup.add_record_types("Account", ["Customer", "Partner"])
    with rest_client(org) as client:
        kinds = {row["Name"]: row["Id"] for row in rows(client, "SELECT Id, Name FROM RecordType")}
        client.post("/sobjects/Account", {"Name": "a"})
        client.post("/sobjects/Account", {"Name": "b", "RecordTypeId": kinds["Partner"]})
        soql = "SELECT Name, RecordType.Name, RecordType.DeveloperName FROM Account"
        found = {row["Name"]: row["RecordType"] and row["RecordType"]["Name"] for row in rows(client, soql)}
        assert (found["a"], found["b"], list(found.values()).count(None)) == ("Customer", "Partner", 3)
        assert [change.changed_fields for each in org.transactions() for change in each.changes] == [(), ()]
        org.setup.add_record_types("Account", ["Vendor"])
        assert [row["DeveloperName"] for row in rows(client, "SELECT DeveloperName FROM RecordType")] == [
            "Customer", "Partner", "Vendor",
        ]  # fmt: skip
    assert {row.name for row in org.definitions["Account"].fields} >= {"RecordTypeId"}
    for wrong in (lambda: org.setup.add_record_types("Account", ["partner"]), org.setup.enable_person_accounts):
        with pytest.raises(RecordError):
            wrong()


def test_inner_queries_join_records_with_objects_of_setup(org: EmulatedOrg, client: RestClient) -> None:
    soql = (
        "SELECT Id, (SELECT PermissionSet.Name FROM PermissionSetAssignments) FROM User WHERE Id IN "
        "(SELECT AssigneeId FROM PermissionSetAssignment WHERE PermissionSet.Name = 'Change_Event_Reader')"
    )
    (row,) = rows(client, soql)
    assert row["Id"] == org.users.integration
    sets = [each["PermissionSet"]["Name"] for each in row["PermissionSetAssignments"]["records"]]
    assert "Change_Event_Reader" in sets
    soql = "SELECT Name FROM User WHERE ProfileId NOT IN (SELECT Id FROM Profile WHERE Name LIKE 'Minimum%')"
    people = {str(user["Name"]) for user in org.records("User")} - {"Integration User", "Automated Process"}
    assert {row["Name"] for row in rows(client, soql)} == people
    soql = (
        "SELECT QualifiedApiName, (SELECT QualifiedApiName FROM Fields) FROM EntityDefinition WHERE KeyPrefix = '003'"
    )
    (row,) = rows(client, soql)
    names = [field["QualifiedApiName"] for field in row["Fields"]["records"]]
    assert names == [field.name for field in org.definitions["Contact"].fields]
    (row,) = rows(client, "SELECT CreatedBy.Name FROM PlatformEventChannelMember LIMIT 1", "/tooling/query")
    assert row["CreatedBy"]["Name"] == "Integration User"


def test_objects_of_setup_are_read_by_id_and_by_both_bulk_apis(org: EmulatedOrg, client: RestClient) -> None:
    path = f"/sobjects/Organization/{org.organization_id}"
    assert client.get(path).json()["Name"] == "Emulated org"
    assert client.get(path, params={"fields": "IsSandbox"}).json()["IsSandbox"] is True
    assert client.get("/sobjects/Organization/00D000000000001AAA").status_code == 404
    assert client.get(f"/sobjects/Organization/Id/{org.organization_id}").status_code == 404
    assert client.get("/sobjects/Organization/updated").status_code == 404
    several = client.get("/composite/sobjects/Organization", params={"ids": org.organization_id, "fields": "Name"})
    assert [each["Name"] for each in several.json()] == ["Emulated org"]
    job = client.post("/jobs/query", {"operation": "query", "query": "SELECT Id, Profile.Name FROM User"}).json()["id"]
    while client.get(f"/jobs/query/{job}").json()["state"] != "JobComplete":
        pass
    lines = client.get(f"/jobs/query/{job}/results").text.splitlines()
    assert lines[0] == '"Id","Profile.Name"'
    assert {line.split(",")[1] for line in lines[1:]} >= {'"Standard User"'}


def test_a_parent_that_may_not_be_read_is_refused_wherever_the_query_names_it() -> None:
    org = EmulatedOrg(seed=2)
    org.unreadable_objects.add("Account")
    with rest_client(org) as client:
        for soql in ("SELECT Account.Name FROM Contact", "SELECT Id FROM Contact WHERE Account.Name = 'x'"):
            assert client.query(soql).json()[0]["errorCode"] == "INSUFFICIENT_ACCESS"


def test_fields_of_all_objects_and_a_second_batch_of_them_are_refused(client: RestClient) -> None:
    for soql in (
        "SELECT QualifiedApiName FROM FieldDefinition",
        "SELECT QualifiedApiName FROM FieldDefinition WHERE EntityDefinitionId = 'Account' OR DataType = 'Phone'",
        "SELECT QualifiedApiName FROM FieldDefinition WHERE EntityDefinitionId != 'Account'",
    ):
        (error,) = client.query(soql).json()
        assert error == {
            "message": "FieldDefinition: a filter on a reified column is required [EntityDefinitionId,DurableId]",
            "errorCode": "MALFORMED_QUERY",
        }
    objects = "'Account', 'Contact', 'Lead', 'User', 'Opportunity'"
    soql = f"SELECT QualifiedApiName FROM FieldDefinition WHERE EntityDefinitionId IN ({objects})"
    (error,) = client.query(soql, headers={"Sforce-Query-Options": "batchSize=200"}).json()
    assert error["errorCode"] == "EXCEEDED_ID_LIMIT"
    assert len(rows(client, f"{soql} LIMIT 150")) == 150


@pytest.mark.parametrize("definition", stock_definitions(), ids=lambda each: each.name)
def test_a_stock_object_is_filled_and_can_be_read_whole(client: RestClient, definition: Any) -> None:
    fields = client.get(f"/sobjects/{definition.name}/describe").json()["fields"]
    names = [field["name"] for field in fields if field["type"] != "address"]
    found = rows(client, f"SELECT {', '.join(names)} FROM {definition.name}")
    assert len(found) == 5
    required = [field["name"] for field in fields if not field["nillable"] and field["createable"]]
    assert all(row[name] is not None for row in found for name in required)


def test_a_new_org_of_the_command_has_them_and_captures_the_others(tmp_path: Path) -> None:
    org = open_emulated_org(tmp_path, seed=1, records=120, with_stock=True)
    try:
        assert (org.count("Account"), org.count("Product2")) == (120, 100)
        assert set(org.selected_entities) == {definition.name for definition in built_in_definitions()}
    finally:
        org.close()


def test_a_whole_org_has_objects_of_every_kind_and_companions(tmp_path: Path) -> None:
    org = open_emulated_org(tmp_path, seed=1, records=30, is_whole=True)
    try:
        counts = {name: org.count(name) for name in ("Account", "AccountHistory", "AccountShare", "LoginHistory")}
        assert counts == {"Account": 30, "AccountHistory": 30, "AccountShare": 30, "LoginHistory": 30}
        assert set(org.selected_entities) == {definition.name for definition in built_in_definitions()}
    finally:
        org.close()
    again = open_emulated_org(tmp_path, seed=1, records=30)
    assert again.definitions == {definition.name: definition for definition in whole_org()}
    again.close()


def test_usage_of_events_is_what_was_published_and_delivered(tmp_path: Path) -> None:
    clock = ManualClock(1_800_000_000_000 + 20 * MINUTE)
    org = EmulatedOrg(seed=1, clock=clock)
    with EmulatorServer(org, directory=tmp_path) as server:
        for name in "abc":
            with org.transaction() as work:
                work.create("Account", {"Name": name})
        server.meter.delivered([1, 2])
        server.publisher.publish("Order_Event__e", {"Order_Number__c": "1"})
        headers = {"Authorization": f"Bearer {server.sessions.issue(org.users.integration)}"}
        soql = "SELECT Name, StartDate, EndDate, Value FROM PlatformEventUsageMetric"
        url = f"{server.rest_url}/services/data/v59.0/query"

        def usage() -> dict[str, tuple[float, str, str]]:
            answer = requests.get(
                url, params={"q": soql}, headers=headers, verify=str(server.ca_file), timeout=BOUND_SECONDS
            )
            return {row["Name"]: (row["Value"], row["StartDate"], row["EndDate"]) for row in answer.json()["records"]}

        assert usage() == {}, "the present hour is not over"
        clock.advance(50 * MINUTE)
        hours = ("2027-01-14T09:00:00.000+0000", "2027-01-15T09:00:00.000+0000")
        assert usage() == {
            "CHANGE_EVENTS_PUBLISHED": (3, *hours),
            "CHANGE_EVENTS_DELIVERED": (2, *hours),
            "PLATFORM_EVENTS_PUBLISHED": (1, *hours),
        }
        clock.advance(DAY)
        headers = {"Authorization": f"Bearer {server.sessions.issue(org.users.integration)}"}
        assert usage() == {}
        params = {"q": "SELECT Topic FROM EventBusSubscriber"}
        answer = requests.get(
            url, params=params, headers=headers, verify=str(server.ca_file), timeout=BOUND_SECONDS
        ).json()
        assert answer["totalSize"] == 0
    org.close()
