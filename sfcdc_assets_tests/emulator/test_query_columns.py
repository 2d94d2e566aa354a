"""`columns=true`: the vendor's command line interface asks so for the columns of each query that it prints, with the
fields that it looks for below (`retrieveColumns` of @salesforce/plugin-data)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client


@pytest.fixture(scope="module")
def client() -> Iterator[RestClient]:
    with rest_client(EmulatedOrg(seed=3)) as client:
        yield client


def columns(client: RestClient, soql: str, path: str = "/query") -> dict[str, Any]:
    answer = client.get(path, params={"q": soql, "columns": "true"})
    assert answer.status_code == 200, answer.text
    return answer.json()


def names(found: list[dict[str, Any]]) -> list[Any]:
    return [
        (each["columnName"], names(each["joinColumns"])) if each["joinColumns"] else each["columnName"]
        for each in found
    ]


def test_each_field_says_what_it_is(client: RestClient) -> None:
    read = columns(client, "SELECT Id, Name, AnnualRevenue, Is_Partner__c FROM Account")
    facts = {key: read[key] for key in ("entityName", "groupBy", "idSelected", "keyPrefix")}
    assert facts == {"entityName": "Account", "groupBy": False, "idSelected": True, "keyPrefix": "001"}
    described = {
        each["columnName"]: (
            each["apexType"],
            each["textType"],
            each["numberType"],
            each["booleanType"],
            each["custom"],
        )
        for each in read["columnMetadata"]
    }
    assert described == {
        "Id": ("Id", False, False, False, False),
        "Name": ("String", True, False, False, False),
        "AnnualRevenue": ("Double", False, True, False, False),
        "Is_Partner__c": ("Boolean", False, False, True, True),
    }
    assert [(each["updatable"], each["insertable"]) for each in read["columnMetadata"][:2]] == [
        (False, False),
        (True, True),
    ]


def test_parents_and_children_have_columns_inside(client: RestClient) -> None:
    soql = (
        "SELECT Owner.Name, Name, Owner.Profile.Name, (SELECT LastName, Account.Name FROM Contacts) FROM Account "
        "WHERE Name = 'no such'"
    )
    read = columns(client, soql)["columnMetadata"]
    assert names(read) == [
        ("Owner", ["Name", ("Profile", ["Name"])]),
        "Name",
        ("Contacts", ["LastName", ("Account", ["Name"])]),
    ]
    assert [(each["aggregate"], each["foreignKeyName"]) for each in read] == [
        (False, "OwnerId"),
        (False, None),
        (True, None),
    ]
    assert read[0]["joinColumns"][1]["foreignKeyName"] == "ProfileId"


def test_aggregates_are_shown_as_they_were_written(client: RestClient) -> None:
    soql = "SELECT Type, COUNT(Id), MAX(AnnualRevenue) most FROM Account GROUP BY Type"
    read = columns(client, soql)
    assert read["groupBy"] is True
    assert [(each["columnName"], each["displayName"], each["aggregate"]) for each in read["columnMetadata"]] == [
        ("Type", "Type", False),
        ("expr0", "count(Id)", True),
        ("most", "max(AnnualRevenue)", True),
    ]
    assert columns(client, "SELECT COUNT() FROM Account")["columnMetadata"] == []


def test_a_parent_by_type_is_one_column(client: RestClient) -> None:
    read = columns(client, "SELECT Id, TYPEOF What WHEN Account THEN Phone, Name ELSE Name END FROM Task")
    assert names(read["columnMetadata"]) == ["Id", ("What", ["Phone", "Name"])]


def test_queries_of_the_tooling_api_have_columns_too(client: RestClient) -> None:
    read = columns(client, "SELECT Id, DeveloperName FROM PlatformEventChannel", "/tooling/query")
    assert names(read["columnMetadata"]) == ["Id", "DeveloperName"]


def test_a_query_that_is_refused_is_refused_all_the_same(client: RestClient) -> None:
    answer = client.get("/query", params={"q": "SELECT Nope FROM Account", "columns": "true"})
    assert (answer.status_code, answer.json()[0]["errorCode"]) == (400, "INVALID_FIELD")
