from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import DAY, OrgSettings
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client


@pytest.fixture
def org() -> EmulatedOrg:
    return EmulatedOrg(clock=ManualClock(), settings=OrgSettings(token_lifetime=30 * DAY))


@pytest.fixture
def client(org: EmulatedOrg) -> Iterator[RestClient]:
    with rest_client(org) as client:
        yield client


def test_a_large_result_comes_in_pages_pinned_when_the_query_started(org: EmulatedOrg, client: RestClient) -> None:
    org.populate({"Contact": 450})
    truth = [record["Id"] for record in org.records("Contact")]
    page = client.query("SELECT Id, LastName FROM Contact", headers={"Sforce-Query-Options": "batchSize=200"}).json()
    last = str(truth[-1])
    with org.transaction() as work:
        work.update("Contact", last, {"LastName": "changed meanwhile"})
        work.delete("Contact", str(truth[-2]))
    seen, sizes = [], []
    for _ in range(5):
        seen += [record["Id"] for record in page["records"]]
        sizes.append(len(page["records"]))
        assert page["totalSize"] == 450
        if page["done"]:
            break
        assert page["nextRecordsUrl"].endswith(f"-{len(seen)}")
        page = client.get("/" + page["nextRecordsUrl"]).json()
    assert (seen, sizes) == (truth, [200, 200, 50])
    assert page["records"][-1]["LastName"] != "changed meanwhile"


def test_a_batch_size_is_kept_between_200_and_2000(org: EmulatedOrg, client: RestClient) -> None:
    org.populate({"Contact": 2001})
    for asked, given in (("1", 200), ("5000", 2000)):
        options = {"headers": {"Sforce-Query-Options": f"batchSize={asked}"}}
        assert len(client.query("SELECT Id FROM Contact", **options).json()["records"]) == given
    assert len(client.query("SELECT Id FROM Contact").json()["records"]) == 2000


def test_a_locator_is_good_for_two_days(org: EmulatedOrg, client: RestClient) -> None:
    org.populate({"Contact": 201})
    options = {"headers": {"Sforce-Query-Options": "batchSize=200"}}
    url = "/" + client.query("SELECT Id FROM Contact", **options).json()["nextRecordsUrl"]
    assert client.get(url).status_code == client.get(url).status_code == 200
    assert isinstance(org.clock, ManualClock)
    org.clock.advance(2 * DAY)
    for bad in (url, "/query/nonsense", "/query/0r8000000000000AAA-2000"):
        answer = client.get(bad)
        assert answer.status_code == 400
        assert answer.json() == [{"message": "invalid query locator", "errorCode": "INVALID_QUERY_LOCATOR"}]


def test_values_have_their_rest_form(org: EmulatedOrg, client: RestClient) -> None:
    with org.transaction() as work:
        account = work.create(
            "Account",
            {"Name": "Acme", "BillingStreet": "1 Way\nBonn", "BillingLatitude": 50.7, "AnnualRevenue": 5,
             "Next_Review__c": "2025-01-02T03:04:05Z", "Support_Opens__c": "09:30",
             "SLAExpirationDate__c": "2025-01-02"},
        )  # fmt: skip
        work.create("Contact", {"FirstName": "Ana", "LastName": "Kaya", "AccountId": account})
        work.create("Invoice_Statement__c", {"Location__Latitude__s": 1.5, "Location__Longitude__s": -2})
    soql = (
        "SELECT Id, Name, BillingAddress, ShippingAddress, AnnualRevenue, Next_Review__c, Support_Opens__c, "
        "SLAExpirationDate__c, Is_Partner__c, Fax FROM Account"
    )
    (record,) = client.query(soql).json()["records"]
    assert record == {
        "attributes": {"type": "Account", "url": f"/services/data/v59.0/sobjects/Account/{account}"},
        "Id": account,
        "Name": "Acme",
        "BillingAddress": {
            "street": "1 Way\nBonn", "city": None, "state": None, "postalCode": None, "country": None,
            "latitude": 50.7, "longitude": None, "geocodeAccuracy": None,
        },
        "ShippingAddress": None,
        "AnnualRevenue": 5.0,
        "Next_Review__c": "2025-01-02T03:04:05.000+0000",
        "Support_Opens__c": "09:30:00.000Z",
        "SLAExpirationDate__c": "2025-01-02",
        "Is_Partner__c": False,
        "Fax": None,
    }  # fmt: skip
    (contact,) = client.query("SELECT Name, Account.Name, Account.Owner.Name, ReportsTo.Name FROM Contact").json()[
        "records"
    ]
    assert contact["Name"] == "Ana Kaya"
    assert contact["Account"]["Name"] == "Acme"
    assert contact["Account"]["attributes"]["url"].endswith(account)
    assert contact["Account"]["Owner"]["Name"] == "Integration User"
    assert contact["ReportsTo"] is None
    (invoice,) = client.query("SELECT Location__c, Total__c FROM Invoice_Statement__c").json()["records"]
    assert invoice["Location__c"] == {"latitude": 1.5, "longitude": -2.0}


def test_query_all_includes_the_recycle_bin(org: EmulatedOrg, client: RestClient) -> None:
    with org.transaction() as work:
        record_id = work.create("Lead", {"LastName": "Kaya", "Company": "Acme"})
    with org.transaction() as work:
        work.delete("Lead", record_id)
    assert client.query("SELECT Id FROM Lead").json()["totalSize"] == 0
    (record,) = client.get("/queryAll", params={"q": "SELECT Id, IsDeleted FROM Lead"}).json()["records"]
    assert (record["Id"], record["IsDeleted"]) == (record_id, True)


def test_counts_are_sizes_or_aggregate_results(org: EmulatedOrg, client: RestClient) -> None:
    org.populate({"Lead": 7})
    assert client.query("SELECT COUNT() FROM Lead").json() == {"totalSize": 7, "done": True, "records": []}
    (record,) = client.query("SELECT COUNT(Id) FROM Lead").json()["records"]
    assert record == {"attributes": {"type": "AggregateResult"}, "expr0": 7}


def test_errors_are_lists_with_a_code_and_status(org: EmulatedOrg, client: RestClient) -> None:
    for soql, code in (("SELECT Id FROM", "MALFORMED_QUERY"), ("SELECT X FROM Lead", "INVALID_FIELD")):
        answer = client.query(soql)
        assert (answer.status_code, answer.json()[0]["errorCode"]) == (400, code)
    assert client.get("/query").json()[0]["errorCode"] == "MALFORMED_QUERY"


def test_an_entity_without_permission_is_refused_or_does_not_exist(org: EmulatedOrg, client: RestClient) -> None:
    org.unreadable_objects.add("Lead")
    org.hidden_objects.add("Case")
    for path in ("/query?q=SELECT+Id+FROM+Lead", "/sobjects/Lead/00Q000000000001"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()[0]["errorCode"]) == (403, "INSUFFICIENT_ACCESS")
    assert client.query("SELECT Id FROM Case").json()[0]["errorCode"] == "INVALID_TYPE"
    assert client.get("/sobjects/Case/describe").status_code == 404
    assert "Case" not in [item["name"] for item in client.get("/sobjects").json()["sobjects"]]


def test_answers_are_compressed_for_clients_that_accept_it(org: EmulatedOrg, client: RestClient) -> None:
    org.populate({"Lead": 50})
    assert client.query("SELECT Id, Name FROM Lead").headers["Content-Encoding"] == "gzip"
    plain = client.query("SELECT Id, Name FROM Lead", headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers


def test_later_pages_are_those_of_the_start_also_after_changes_and_a_restart(tmp_path: Path) -> None:
    org = EmulatedOrg(tmp_path, seed=2)
    org.populate({"Account": 500})
    truth = [(record["Id"], record["Name"]) for record in org.records("Account")]
    small = {"Sforce-Query-Options": "batchSize=200"}
    with rest_client(org) as client:
        first = client.query("SELECT Id, Name FROM Account ORDER BY Id", headers=small).json()
        with org.transaction() as work:
            work.update("Account", str(truth[-1][0]), {"Name": "renamed meanwhile"})
            work.delete("Account", str(truth[-2][0]))
        second = client.get("/" + first["nextRecordsUrl"]).json()
    org.close()
    org = EmulatedOrg(tmp_path)
    try:
        with rest_client(org) as client:
            third = client.get("/" + second["nextRecordsUrl"]).json()
            read = [(each["Id"], each["Name"]) for page in (first, second, third) for each in page["records"]]
            assert read == truth
        org.hidden_objects.add("Account")
        with rest_client(org) as client:
            refused = client.get("/" + second["nextRecordsUrl"])
            assert (refused.status_code, refused.json()[0]["errorCode"]) == (400, "INVALID_QUERY_LOCATOR")
    finally:
        org.close()
