"""Upserts by external id, one and many; trees; graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sfcdc_assets.emulator.definitions.object_file import built_in_definitions, object_definition
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client

KEY = "/sobjects/Account/External_Key__c"
MACHINE = {
    "name": "Machine__c",
    "label": "Machine",
    "key_prefix": "a50",
    "fields": [
        {"Name": {"type": "string"}},
        {"Group__c": {"type": "string", "external_id": True}},
        {"Number__c": {"type": "double", "scale": 0, "external_id": True}},
        {"Account__c": {"type": "reference", "to": "Account"}},
    ],
}


@pytest.fixture(scope="module")
def client() -> Iterator[RestClient]:
    org = EmulatedOrg(clock=ManualClock(), objects=[*built_in_definitions(), object_definition(MACHINE, "test")])
    with rest_client(org) as client:
        client.org = org  # type: ignore[attr-defined]
        yield client


@pytest.fixture(scope="module")
def org(client: RestClient) -> EmulatedOrg:
    return client.org  # type: ignore[attr-defined]


def count(org: EmulatedOrg, entity: str = "Account") -> int:
    return org.count(entity)


def test_an_upsert_creates_and_then_updates(org: EmulatedOrg, client: RestClient) -> None:
    first = client.send("PATCH", f"{KEY}/one", json={"Name": "Acme"})
    assert (first.status_code, first.json()["created"], first.json()["success"]) == (201, True, True)
    second = client.send("PATCH", f"{KEY}/ONE", json={"Name": "Acme Ltd."})
    assert (second.status_code, second.json()) == (
        200, {"id": first.json()["id"], "success": True, "errors": [], "created": False},
    )  # fmt: skip
    record = org.record("Account", first.json()["id"])
    assert record is not None
    assert record["Name"] == "Acme Ltd."
    assert client.get(f"{KEY}/one", params={"fields": "Name"}).json()["Name"] == "Acme Ltd."
    assert client.send("DELETE", f"{KEY}/one").status_code == 204
    assert client.get(f"{KEY}/one").status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        (f"{KEY}/two", {"Phone": "1"}, 400, "REQUIRED_FIELD_MISSING"),
        (f"{KEY}/two", {"Name": "a", "External_Key__c": "two"}, 400, "INVALID_FIELD"),
        ("/sobjects/Account/Phone/two", {"Name": "a"}, 404, "NOT_FOUND"),
        ("/sobjects/Account/Nope__c/two", {"Name": "a"}, 404, "NOT_FOUND"),
    ],
)
def test_an_upsert_that_cannot_be_is_refused(
    org: EmulatedOrg, client: RestClient, path: str, body: dict[str, Any], status: int, code: str
) -> None:
    before = count(org)
    answer = client.send("PATCH", path, json=body)
    assert (answer.status_code, answer.json()[0]["errorCode"]) == (status, code)
    assert count(org) == before


def test_an_external_id_of_several_records_is_answered_with_their_addresses(client: RestClient) -> None:
    ids = [client.post("/sobjects/Machine__c", {"Name": n, "Group__c": "same"}).json()["id"] for n in "ab"]
    answer = client.send("PATCH", "/sobjects/Machine__c/Group__c/same", json={"Name": "c"})
    assert (answer.status_code, answer.json()) == (
        300, [f"/services/data/v59.0/sobjects/Machine__c/{record_id}" for record_id in ids],
    )  # fmt: skip


def test_an_external_id_may_be_a_number(org: EmulatedOrg, client: RestClient) -> None:
    created = client.send("PATCH", "/sobjects/Machine__c/Number__c/7", json={"Name": "seven"}).json()
    again = client.send("PATCH", "/sobjects/Machine__c/Number__c/7", json={"Name": "VII"}).json()
    assert (again["id"], again["created"]) == (created["id"], False)


def test_a_parent_may_be_named_by_its_external_id(org: EmulatedOrg, client: RestClient) -> None:
    parent = client.send("PATCH", f"{KEY}/parent", json={"Name": "P"}).json()["id"]
    records = [
        {"attributes": {"type": "Contact"}, "LastName": "x", "Account": {"External_Key__c": "parent"}},
        {"attributes": {"type": "Contact"}, "LastName": "y", "Account": {"External_Key__c": "nobody"}},
    ]
    good, bad = client.post("/composite/sobjects", {"records": records}).json()
    record = org.record("Contact", good["id"])
    assert record is not None
    assert record["AccountId"] == parent
    assert bad["errors"][0]["statusCode"] == "INVALID_FIELD"


def test_many_records_are_upserted_in_one_transaction(org: EmulatedOrg, client: RestClient) -> None:
    known = client.send("PATCH", f"{KEY}/k1", json={"Name": "old"}).json()["id"]
    after = org.last_commit_number
    records = [
        {"attributes": {"type": "Account"}, "External_Key__c": "k1", "Name": "new"},
        {"attributes": {"type": "Account"}, "External_Key__c": "k2", "Name": "n2"},
        {"attributes": {"type": "Account"}, "Name": "no key"},
    ]
    path = "/composite/sobjects/Account/External_Key__c"
    updated, created, refused = client.send("PATCH", path, json={"records": records}).json()
    assert (updated["id"], updated["created"], created["created"]) == (known, False, True)
    assert refused["errors"][0]["statusCode"] == "MISSING_ARGUMENT"
    (transaction,) = org.transactions(after)
    assert sorted(change.change_type for change in transaction.changes) == ["CREATE", "UPDATE"]
    again = client.send("PATCH", path, json={"records": records, "allOrNone": True}).json()
    assert {one["errors"][0]["statusCode"] for one in again} == {
        "ALL_OR_NONE_OPERATION_ROLLED_BACK",
        "MISSING_ARGUMENT",
    }


def tree(**of_contact: Any) -> dict[str, Any]:
    contact = {"attributes": {"type": "Contact", "referenceId": "c1"}, "LastName": "L", **of_contact}
    case = {"attributes": {"type": "Case", "referenceId": "k1"}, "Subject": "S"}
    account = {"attributes": {"type": "Account", "referenceId": "a1"}, "Name": "Tree"}
    return {"records": [{**account, "Contacts": {"records": [{**contact, "Cases": {"records": [case]}}]}}]}


def test_a_tree_is_created_in_one_transaction_or_not_at_all(org: EmulatedOrg, client: RestClient) -> None:
    after = org.last_commit_number
    answer = client.post("/composite/tree/Account", tree())
    assert answer.status_code == 201
    ids = {each["referenceId"]: each["id"] for each in answer.json()["results"]}
    contact, case = org.record("Contact", ids["c1"]), org.record("Case", ids["k1"])
    assert contact is not None
    assert case is not None
    assert (contact["AccountId"], case["ContactId"]) == (ids["a1"], ids["c1"])
    assert len(list(org.transactions(after))) == 1
    before = count(org)
    answer = client.post("/composite/tree/Account", tree(LastName=""))
    assert (answer.status_code, answer.json()["hasErrors"]) == (400, True)
    assert answer.json()["results"][0]["referenceId"] == "c1"
    assert answer.json()["results"][0]["errors"][0]["statusCode"] == "REQUIRED_FIELD_MISSING"
    assert count(org) == before
    assert client.post("/composite/tree/Account", tree(Nopes={"records": []})).status_code == 400
    assert client.post("/composite/tree/Account", {"records": [{"Name": "no reference id"}]}).status_code == 400


def test_each_graph_is_all_or_nothing_for_itself(org: EmulatedOrg, client: RestClient) -> None:
    def graph(name: str, last_name: str) -> dict[str, Any]:
        account = {
            "method": "POST",
            "url": "/services/data/v59.0/sobjects/Account",
            "referenceId": "a",
            "body": {"Name": name},
        }
        contact = {
            "method": "POST",
            "url": "/services/data/v59.0/sobjects/Contact",
            "referenceId": "c",
            "body": {"LastName": last_name, "AccountId": "@{a.id}"},
        }
        return {"graphId": name, "compositeRequest": [account, contact]}

    before = count(org)
    answer = client.post("/composite/graph", {"graphs": [graph("g1", "L"), graph("g2", "")]}).json()["graphs"]
    assert [(each["graphId"], each["isSuccessful"]) for each in answer] == [("g1", True), ("g2", False)]
    assert answer[1]["graphResponse"]["compositeResponse"][0]["body"][0]["errorCode"] == "PROCESSING_HALTED"
    assert count(org) == before + 1


def test_describe_names_the_relationships_to_children(client: RestClient) -> None:
    children = client.get("/sobjects/Account/describe").json()["childRelationships"]
    names = {(each["childSObject"], each["field"]): each["relationshipName"] for each in children}
    assert names["Contact", "AccountId"] == "Contacts"
    assert names["Account", "ParentId"] == "ChildAccounts"
    assert names["Opportunity", "AccountId"] == "Opportunities"
    assert names["Machine__c", "Account__c"] == "Machines__r"
    of_user = client.get("/sobjects/User/describe").json()["childRelationships"]
    assert {each["relationshipName"] for each in of_user if each["field"] == "OwnerId"} == {None}
