"""Aggregates, groups, semi-joins and queries of children over REST, each compared with plain Python over the oracle."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.records.field_value import datetime_text
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client

Record = dict[str, Any]


@pytest.fixture(scope="module")
def org() -> EmulatedOrg:
    org = EmulatedOrg(clock=ManualClock(), seed=12)
    org.populate({"User": 3, "Account": 450, "Contact": 900, "Opportunity": 60})
    return org


@pytest.fixture(scope="module")
def client(org: EmulatedOrg) -> Iterator[RestClient]:
    with rest_client(org) as client:
        yield client


@pytest.fixture(scope="module")
def accounts(org: EmulatedOrg) -> list[Record]:
    return list(org.records("Account"))


@pytest.fixture(scope="module")
def contacts(org: EmulatedOrg) -> list[Record]:
    return list(org.records("Contact"))


def rows(client: RestClient, soql: str) -> list[Record]:
    answer = client.query(soql)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    records = list(found["records"])
    while not found["done"]:
        found = client.get("/" + found["nextRecordsUrl"]).json()
        records += found["records"]
    return records


def plain(records: list[Record]) -> list[Record]:
    return [{name: value for name, value in record.items() if name != "attributes"} for record in records]


def test_groups_are_counted_summed_and_ordered(client: RestClient, accounts: list[Record]) -> None:
    found = rows(
        client,
        "SELECT Rating, COUNT(Id), SUM(AnnualRevenue) total, MIN(CreatedDate), COUNT_DISTINCT(Industry), "
        "AVG(NumberOfEmployees) FROM Account GROUP BY Rating ORDER BY COUNT(Id) DESC, Rating",
    )
    groups: dict[str | None, list[Record]] = defaultdict(list)
    for record in accounts:
        groups[record["Rating"]].append(record)
    ordered = sorted(groups, key=lambda rating: (-len(groups[rating]), rating is not None, str(rating).lower()))
    assert found[0]["attributes"] == {"type": "AggregateResult"}
    assert [each["Rating"] for each in found] == ordered
    for each in found:
        group = groups[each["Rating"]]
        revenues = [record["AnnualRevenue"] for record in group if record["AnnualRevenue"] is not None]
        staff = [record["NumberOfEmployees"] for record in group if record["NumberOfEmployees"] is not None]
        assert each["expr0"] == len(group)
        assert each["total"] == pytest.approx(sum(revenues))
        assert each["expr1"] == datetime_text(min(record["CreatedDate"] for record in group), "+0000")
        assert each["expr2"] == len({record["Industry"] for record in group} - {None})
        assert each["expr3"] == pytest.approx(sum(staff) / len(staff))


def test_having_keeps_groups_and_aliases_name_fields(client: RestClient, accounts: list[Record]) -> None:
    counts = Counter(record["Industry"] for record in accounts)
    found = rows(
        client,
        "SELECT Industry branch, COUNT(Id) n FROM Account a WHERE a.Industry != null GROUP BY Industry "
        "HAVING COUNT(Id) > 20 ORDER BY COUNT(Id) LIMIT 3",
    )
    many = sorted(count for industry, count in counts.items() if industry is not None and count > 20)
    assert [each["n"] for each in found] == many[:3]
    assert all(counts[each["branch"]] == each["n"] for each in found)


def test_all_records_are_one_group_without_group_by(client: RestClient, accounts: list[Record]) -> None:
    (one,) = plain(rows(client, "SELECT MAX(Name), MIN(AnnualRevenue) least, COUNT(Site) FROM Account"))
    revenues = [record["AnnualRevenue"] for record in accounts if record["AnnualRevenue"] is not None]
    sites = sum(record["Site"] is not None for record in accounts)
    assert (one["least"], one["expr1"]) == (min(revenues), sites)


def test_groups_may_be_of_a_parents_field(client: RestClient, contacts: list[Record], accounts: list[Record]) -> None:
    rating = {record["Id"]: record["Rating"] for record in accounts}
    truth = Counter(rating.get(contact["AccountId"]) for contact in contacts)
    found = rows(client, "SELECT Account.Rating, COUNT(Id) FROM Contact GROUP BY Account.Rating")
    assert {each["Rating"]: each["expr0"] for each in found} == dict(truth)


def test_semi_joins_find_parents_with_and_without_children(
    client: RestClient, contacts: list[Record], accounts: list[Record]
) -> None:
    with_children = {contact["AccountId"] for contact in contacts if contact["Title"] is not None} - {None}
    inner = "SELECT AccountId FROM Contact WHERE Title != null"
    found = {each["Id"] for each in rows(client, f"SELECT Id FROM Account WHERE Id IN ({inner})")}
    assert found == with_children
    others = {each["Id"] for each in rows(client, f"SELECT Id FROM Account WHERE Id NOT IN ({inner}) AND Name != null")}
    assert others == {record["Id"] for record in accounts} - with_children
    soql = "SELECT Id FROM Contact WHERE AccountId IN (SELECT Id FROM Account WHERE Rating = 'Hot')"
    hot = {record["Id"] for record in accounts if record["Rating"] == "Hot"}
    assert {each["Id"] for each in rows(client, soql)} == {c["Id"] for c in contacts if c["AccountId"] in hot}


def test_children_come_with_their_parents_over_pages(client: RestClient, contacts: list[Record]) -> None:
    soql = (
        "SELECT Id, (SELECT Id, LastName, Owner.Name FROM Contacts WHERE LastName != 'Kaya' ORDER BY LastName, Id "
        "LIMIT 2), (SELECT Id FROM Opportunities) FROM Account"
    )
    children: dict[str | None, list[Record]] = defaultdict(list)
    for contact in contacts:
        if contact["LastName"] != "Kaya":
            children[contact["AccountId"]].append(contact)
    records: list[Record] = []
    answer = client.query(soql, headers={"Sforce-Query-Options": "batchSize=200"}).json()
    while True:
        records += answer["records"]
        if answer["done"]:
            break
        answer = client.get("/" + answer["nextRecordsUrl"]).json()
    assert len(records) == 450
    for record in records:
        expected = sorted(children[record["Id"]], key=lambda each: (str(each["LastName"]).lower(), each["Id"]))[:2]
        if not expected:
            assert record["Contacts"] is None
            continue
        assert record["Contacts"]["totalSize"] == len(expected)
        assert [each["Id"] for each in record["Contacts"]["records"]] == [each["Id"] for each in expected]
        assert record["Contacts"]["records"][0]["attributes"]["type"] == "Contact"
        assert record["Contacts"]["records"][0]["Owner"]["Name"]


def test_words_for_the_user_interface_change_nothing(client: RestClient, accounts: list[Record]) -> None:
    soql = (
        "SELECT Id, toLabel(Rating), toLabel(Industry) branch FROM Account USING SCOPE everything "
        "WITH SECURITY_ENFORCED ORDER BY Id LIMIT 5 FOR VIEW"
    )
    ordered = sorted(accounts, key=lambda record: str(record["Id"]))
    assert plain(rows(client, soql)) == [
        {"Id": record["Id"], "Rating": record["Rating"], "branch": record["Industry"]} for record in ordered[:5]
    ]


@pytest.mark.parametrize(
    ("soql", "code"),
    [
        ("SELECT SUM(Name) FROM Account", "INVALID_FIELD"),
        ("SELECT MAX(Description) FROM Account", "INVALID_FIELD"),
        ("SELECT AnnualRevenue FROM Account GROUP BY AnnualRevenue", "INVALID_FIELD"),
        ("SELECT Id, (SELECT Id FROM Nothing) FROM Account", "INVALID_TYPE"),
        ("SELECT Id, (SELECT Nope FROM Contacts) FROM Account", "INVALID_FIELD"),
        ("SELECT Id FROM Account WHERE Name IN (SELECT Id FROM Contact)", "INVALID_FIELD"),
        ("SELECT Id FROM Account WHERE Id IN (SELECT LastName FROM Contact)", "INVALID_FIELD"),
        ("SELECT Id FROM Account WHERE Id IN (SELECT Id FROM Nope)", "INVALID_TYPE"),
        ("SELECT TYPEOF What WHEN Account THEN Nope END FROM Task", "INVALID_FIELD"),
        ("SELECT TYPEOF What WHEN Account THEN Name ELSE Amount END FROM Task", "INVALID_FIELD"),
        ("SELECT TYPEOF What WHEN Contact THEN Name END FROM Task", "INVALID_TYPE"),
        ("SELECT TYPEOF Owner WHEN User THEN Name END FROM Task", "INVALID_FIELD"),
        ("SELECT TYPEOF What WHEN Account THEN BillingAddress END FROM Task", "INVALID_FIELD"),
        ("SELECT TYPEOF What WHEN Account THEN Id END, COUNT(Id) FROM Task GROUP BY WhatId", "MALFORMED_QUERY"),
    ],
)
def test_what_cannot_be_is_refused_with_its_code(client: RestClient, soql: str, code: str) -> None:
    answer = client.query(soql)
    assert (answer.status_code, answer.json()[0]["errorCode"]) == (400, code)


def test_typeof_shows_the_fields_that_are_chosen_for_the_object_of_each_parent(
    org: EmulatedOrg, client: RestClient, accounts: list[Record]
) -> None:
    opportunity, account = next(org.records("Opportunity")), accounts[0]
    with org.transaction() as work:
        case = work.create("Case", {"Subject": "c"})
        for subject, parent in (("1", account["Id"]), ("2", opportunity["Id"]), ("3", case), ("4", None)):
            work.create("Task", {"Subject": f"typeof {subject}", "WhatId": parent})
    chosen = "TYPEOF What WHEN Account THEN Id, Phone WHEN Opportunity THEN Name, Amount"
    order = "FROM Task WHERE Subject LIKE 'typeof %' ORDER BY Subject"
    found = rows(client, f"SELECT Subject, {chosen} ELSE Id, Name END {order}")
    whats = [record["What"] for record in found]
    assert [what and what["attributes"]["type"] for what in whats] == ["Account", "Opportunity", "Case", None]
    shown = [what and {name: value for name, value in what.items() if name != "attributes"} for what in whats]
    assert shown == [
        {"Id": account["Id"], "Phone": account["Phone"]},
        {"Name": opportunity["Name"], "Amount": opportunity["Amount"]},
        {"Id": case},  # cases have no name
        None,
    ]
    assert [record["What"] is None for record in rows(client, f"SELECT {chosen} END {order}")] == [
        False, False, True, True,
    ]  # fmt: skip


def test_typeof_is_refused_where_rows_are_text(client: RestClient) -> None:
    soql = "SELECT TYPEOF What WHEN Account THEN Id END FROM Task"
    answer = client.post("/jobs/query", {"operation": "query", "query": soql})
    assert "TYPEOF is not supported" in answer.text


def test_objects_of_inner_queries_must_be_readable(org: EmulatedOrg, client: RestClient) -> None:
    org.unreadable_objects.add("Contact")
    try:
        for soql in (
            "SELECT Id, (SELECT Id FROM Contacts) FROM Account",
            "SELECT Id FROM Account WHERE Id IN (SELECT AccountId FROM Contact)",
        ):
            assert client.query(soql).status_code == 403
    finally:
        org.unreadable_objects.discard("Contact")


def test_groups_have_no_second_page() -> None:
    org = EmulatedOrg(clock=ManualClock(), seed=1)
    org.populate({"User": 1, "Account": 2_001})
    with rest_client(org) as client:
        few = client.query("SELECT Id, COUNT(Name) FROM Account GROUP BY Id LIMIT 2000")
        assert (few.json()["done"], len(few.json()["records"])) == (True, 2_000)
        answer = client.query("SELECT Id, COUNT(Name) FROM Account GROUP BY Id")
    assert (answer.status_code, answer.json()[0]["errorCode"]) == (400, "EXCEEDED_ID_LIMIT")
    assert answer.json()[0]["message"].startswith("Aggregate query does not support queryMore()")
