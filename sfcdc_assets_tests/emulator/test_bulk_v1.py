"""The first version of the Bulk API: by `simple-salesforce`, which speaks JSON, and in XML and CSV as others do."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest
import requests
from simple_salesforce.bulk import SFBulkHandler

from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client
from sfcdc_assets_tests.eventually import BOUND_SECONDS

XML = "{http://www.force.com/2009/06/asyncapi/dataload}"


@pytest.fixture(scope="module")
def org() -> EmulatedOrg:
    org = EmulatedOrg(clock=ManualClock(), seed=3)
    org.populate({"Account": 2_300, "Contact": 30})
    return org


@pytest.fixture(scope="module")
def client(org: EmulatedOrg) -> Iterator[RestClient]:
    with rest_client(org) as client:
        yield client


@pytest.fixture(scope="module")
def bulk(client: RestClient) -> SFBulkHandler:
    token = str(client.session.headers["Authorization"]).removeprefix("Bearer ")
    return SFBulkHandler(token, f"{client.base_url}/services/async/59.0/")


def send(client: RestClient, path: str, body: str | None = None, kind: str = "application/xml") -> requests.Response:
    token = str(client.session.headers["Authorization"]).removeprefix("Bearer ")
    headers = {"X-SFDC-Session": token, "Content-Type": kind}
    method = "GET" if body is None else "POST"
    url = f"{client.base_url}/services/async/59.0/{path}"
    return requests.request(method, url, data=body, headers=headers, timeout=BOUND_SECONDS)


def test_simple_salesforce_reads_all_records_and_moments_are_numbers(org: EmulatedOrg, bulk: SFBulkHandler) -> None:
    truth = [(record["Id"], record["CreatedDate"], record["Name"]) for record in org.records("Account")]
    pages = bulk.Account.query_all("SELECT Id, CreatedDate, Name, Owner.Name FROM Account", lazy_operation=True)
    rows = [row for page in pages for row in page]
    assert [(row["Id"], row["CreatedDate"], row["Name"]) for row in rows] == truth
    assert rows[0]["attributes"]["type"] == "Account"
    assert rows[0]["Owner"]["Name"]
    (day,) = {
        row["Birthdate"] for row in bulk.Contact.query("SELECT Birthdate FROM Contact WHERE Birthdate != null LIMIT 1")
    }
    assert isinstance(day, int)
    assert day % 86_400_000 == 0


def test_simple_salesforce_writes(org: EmulatedOrg, bulk: SFBulkHandler) -> None:
    after = org.last_commit_number
    made = bulk.Account.insert([{"Name": "a", "External_Key__c": "b1"}, {"Phone": "no name"}])
    assert [(each["success"], each["created"]) for each in made] == [(True, True), (False, False)]
    assert made[1]["errors"][0]["statusCode"] == "REQUIRED_FIELD_MISSING"
    upserted = bulk.Account.upsert(
        [{"Name": "a2", "External_Key__c": "b1"}, {"Name": "c", "External_Key__c": "b2"}], "External_Key__c"
    )
    assert [(each["id"] == made[0]["id"], each["created"]) for each in upserted] == [(True, False), (False, True)]
    assert bulk.Account.update([{"Id": made[0]["id"], "Phone": "5"}])[0]["success"]
    assert bulk.Account.delete([{"Id": made[0]["id"]}])[0]["success"]
    record = org.record("Account", made[0]["id"])
    assert record is not None
    assert (record["Name"], record["Phone"], record["IsDeleted"]) == ("a2", "5", True)
    transactions = list(org.transactions(after))
    assert len(transactions) == 4
    assert {each.change_origin.partition(";")[0] for each in transactions} == {"com/salesforce/api/bulkapi/59.0"}


def job(client: RestClient, operation: str, entity: str = "Account", more: str = "") -> str:
    body = (
        '<?xml version="1.0" encoding="UTF-8"?><jobInfo xmlns="http://www.force.com/2009/06/asyncapi/dataload">'
        f"<operation>{operation}</operation><object>{entity}</object>{more}<contentType>CSV</contentType></jobInfo>"
    )
    answer = send(client, "job", body)
    assert answer.status_code == 201, answer.text
    return ElementTree.fromstring(answer.content).findtext(f"{XML}id") or ""


def test_a_query_in_xml_and_csv(org: EmulatedOrg, client: RestClient) -> None:
    job_id = job(client, "queryAll")
    added = send(client, f"job/{job_id}/batch", "SELECT Id, Name, CreatedDate FROM Account", "text/csv")
    batch = ElementTree.fromstring(added.content).findtext(f"{XML}id")
    assert ElementTree.fromstring(added.content).findtext(f"{XML}state") == "Queued"
    looked = ElementTree.fromstring(send(client, f"job/{job_id}/batch/{batch}").content)
    assert looked.findtext(f"{XML}state") == "Completed"
    count = org.count("Account", include_deleted=True)
    assert looked.findtext(f"{XML}numberRecordsProcessed") == str(count)
    (result,) = ElementTree.fromstring(send(client, f"job/{job_id}/batch/{batch}/result").content)
    page = send(client, f"job/{job_id}/batch/{batch}/result/{result.text}")
    # `salesforce-bulk` reads a result only under exactly this header, and no result under another one.
    assert page.headers["Content-Type"] == "text/csv"
    rows = list(csv.DictReader(io.StringIO(page.content.decode(), newline="")))
    assert {row["Id"] for row in rows} == {record["Id"] for record in org.records("Account", include_deleted=True)}
    closed = send(client, f"job/{job_id}", '{"state": "Closed"}', "application/json").json()
    assert (closed["state"], closed["numberBatchesCompleted"]) == ("Closed", 1)
    assert len(ElementTree.fromstring(send(client, f"job/{job_id}/batch").content)) == 1
    late = send(client, f"job/{job_id}/batch", "SELECT Id FROM Account", "text/csv")
    assert ElementTree.fromstring(late.content).findtext(f"{XML}exceptionCode") == "InvalidJobState"


def test_an_insert_in_xml_and_csv(org: EmulatedOrg, client: RestClient) -> None:
    job_id = job(client, "insert", "Contact")
    added = send(client, f"job/{job_id}/batch", "LastName,Title\nK,t\n,x\n", "text/csv; charset=UTF-8")
    batch = ElementTree.fromstring(added.content).findtext(f"{XML}id")
    send(client, f"job/{job_id}/batch/{batch}")
    rows = list(csv.DictReader(io.StringIO(send(client, f"job/{job_id}/batch/{batch}/result").text)))
    assert [(row["Success"], row["Created"]) for row in rows] == [("true", "true"), ("false", "false")]
    assert org.record("Contact", rows[0]["Id"]) is not None
    assert send(client, f"job/{job_id}/batch/{batch}/request").text.startswith("LastName,Title")


@pytest.mark.parametrize(
    ("soql", "reason"),
    [
        ("SELECT Id FROM Contact", "InvalidBatch"),
        ("SELECT Nope FROM Account", "InvalidBatch"),
        ("SELECT BillingAddress FROM Account", "FeatureNotEnabled"),
        ("SELECT COUNT() FROM Account", "FeatureNotEnabled"),
    ],
)
def test_a_batch_that_cannot_be_fails_with_its_reason(client: RestClient, soql: str, reason: str) -> None:
    job_id = job(client, "query")
    added = send(client, f"job/{job_id}/batch", soql, "text/csv")
    batch = ElementTree.fromstring(added.content).findtext(f"{XML}id")
    looked = ElementTree.fromstring(send(client, f"job/{job_id}/batch/{batch}").content)
    assert looked.findtext(f"{XML}state") == "Failed"
    assert (looked.findtext(f"{XML}stateMessage") or "").startswith(f"{reason} : ")


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"operation": "drop", "object": "Account"}, "InvalidJob"),
        ({"operation": "query", "object": "Nope"}, "InvalidEntity"),
        ({"operation": "query", "object": "Account", "contentType": "XML"}, "InvalidJob"),
        ({"operation": "upsert", "object": "Account", "externalIdFieldName": "Phone"}, "InvalidJob"),
    ],
)
def test_a_job_that_cannot_be_is_refused(client: RestClient, facts: dict[str, Any], code: str) -> None:
    answer = send(client, "job", json.dumps({"contentType": "JSON", **facts}), "application/json")
    assert (answer.status_code, answer.json()["exceptionCode"]) == (400, code)


def test_an_org_without_it_refuses_as_salesforce_does(org: EmulatedOrg, client: RestClient) -> None:
    org.settings = replace(org.settings, has_bulk_v1=False)
    try:
        answer = send(client, "job", "{}", "application/json")
    finally:
        org.settings = replace(org.settings, has_bulk_v1=True)
    assert (answer.status_code, answer.json()["exceptionCode"]) == (400, "FeatureNotEnabled")


def test_a_bad_session_and_a_bad_address_are_refused_in_its_own_form(client: RestClient) -> None:
    parts = urlsplit(client.base_url)
    url = f"{parts.scheme}://{parts.netloc}/services/async/59.0/job"
    answer = requests.post(
        url, headers={"X-SFDC-Session": "x", "Content-Type": "application/json"}, timeout=BOUND_SECONDS
    )
    assert answer.json() == {"exceptionCode": "InvalidSessionId", "exceptionMessage": "Invalid session id"}
    assert send(client, "nothing").status_code == 404
    assert send(client, "job/750000000000001").status_code == 400
