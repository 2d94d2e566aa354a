"""Bulk API 2.0 jobs that write, by hand and by `simple-salesforce`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import pytest

from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client


@pytest.fixture(scope="module")
def org() -> EmulatedOrg:
    return EmulatedOrg(clock=ManualClock())


@pytest.fixture(scope="module")
def client(org: EmulatedOrg) -> Iterator[RestClient]:
    with rest_client(org) as client:
        yield client


def job(client: RestClient, data: str, **facts: Any) -> dict[str, Any]:
    """A job that has run, as its last look shows it."""
    made = client.post("/jobs/ingest", {"object": "Contact", "operation": "insert", **facts}).json()
    assert made["state"] == "Open"
    address = f"//{made['contentUrl']}"
    put = client.send("PUT", address, data=data.encode(), headers={"Content-Type": "text/csv"})
    assert (put.status_code, put.text) == (201, "")
    path = f"/jobs/ingest/{made['id']}"
    assert client.send("PATCH", path, json={"state": "UploadComplete"}).json()["state"] == "UploadComplete"
    states = [client.get(path).json() for _ in range(2)]
    assert states[0]["state"] == "InProgress"
    return states[1]


def lines(client: RestClient, done: dict[str, Any], kind: str) -> list[dict[str, str]]:
    text = client.get(f"/jobs/ingest/{done['id']}/{kind}").text
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_rows_are_inserted_two_hundred_a_transaction(org: EmulatedOrg, client: RestClient) -> None:
    after = org.last_commit_number
    data = "LastName,Birthdate\n" + "".join(f"n{n},1990-01-02\n" for n in range(450))
    done = job(client, data)
    assert (done["state"], done["numberRecordsProcessed"], done["numberRecordsFailed"]) == ("JobComplete", 450, 0)
    transactions = list(org.transactions(after))
    assert [len(transaction.changes) for transaction in transactions] == [200, 200, 50]
    assert transactions[0].change_origin == "com/salesforce/api/bulkapi/59.0"
    good = lines(client, done, "successfulResults")
    assert [row["LastName"] for row in good] == [f"n{n}" for n in range(450)]
    assert {row["sf__Created"] for row in good} == {"true"}
    assert {row["sf__Id"] for row in good} == {change.record_id for t in transactions for change in t.changes}
    assert lines(client, done, "failedResults") == lines(client, done, "unprocessedrecords") == []


def test_rows_that_cannot_be_are_reported_with_their_reason(org: EmulatedOrg, client: RestClient) -> None:
    done = job(client, 'LastName,Title\n"good ""one""",t\n,no name\n')
    assert (done["numberRecordsProcessed"], done["numberRecordsFailed"]) == (2, 1)
    (failed,) = lines(client, done, "failedResults")
    assert failed["sf__Error"].startswith("REQUIRED_FIELD_MISSING:")
    assert failed["Title"] == "no name"
    assert [row["LastName"] for row in lines(client, done, "successfulResults")] == ['good "one"']


def test_updates_upserts_and_deletes_go_by_id_and_external_id(org: EmulatedOrg, client: RestClient) -> None:
    inserted = job(client, "Name,External_Key__c,Phone\na,k1,1\nb,k2,2\n", object="Account")
    first, second = [row["sf__Id"] for row in lines(client, inserted, "successfulResults")]
    upserted = job(
        client,
        "External_Key__c|Name|Phone\nk1|a2|#N/A\nk3|c|\n",
        object="Account",
        operation="upsert",
        externalIdFieldName="External_Key__c",
        columnDelimiter="PIPE",
        lineEnding="LF",
    )
    text = client.get(f"/jobs/ingest/{upserted['id']}/successfulResults").text
    assert text.splitlines()[0] == '"sf__Id"|"sf__Created"|"External_Key__c"|"Name"|"Phone"'
    assert [line.split("|")[1] for line in text.splitlines()[1:]] == ['"false"', '"true"']
    record = org.record("Account", first)
    assert record is not None
    assert (record["Name"], record["Phone"]) == ("a2", None)
    contacts = job(client, "LastName,Account.External_Key__c\nx,k2\ny,none\n")
    assert contacts["numberRecordsFailed"] == 1
    (good,) = lines(client, contacts, "successfulResults")
    contact = org.record("Contact", good["sf__Id"])
    assert contact is not None
    assert contact["AccountId"] == second
    deleted = job(client, f"Id\n{first}\n001000000000001\n", object="Account", operation="delete")
    assert deleted["numberRecordsFailed"] == 1
    record = org.record("Account", first)
    assert record is not None
    assert record["IsDeleted"]


def test_what_is_no_csv_fails_the_job(client: RestClient) -> None:
    done = job(client, "A,B\n1\n")
    assert (done["state"], done["errorMessage"].split(" ")[0]) == ("Failed", "InvalidBatch")


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"object": "Nope"}, "INVALIDENTITY"),
        ({"operation": "drop"}, "INVALIDJOB"),
        ({"operation": "upsert"}, "INVALIDJOB"),
        ({"operation": "upsert", "externalIdFieldName": "Phone"}, "INVALIDJOB"),
        ({"columnDelimiter": "DASH"}, "API_ERROR"),
    ],
)
def test_a_job_that_cannot_be_is_refused(client: RestClient, facts: dict[str, str], code: str) -> None:
    answer = client.post("/jobs/ingest", {"object": "Account", "operation": "insert", **facts})
    assert (answer.status_code, answer.json()[0]["errorCode"]) == (400, code)


def test_a_job_is_listed_aborted_and_deleted(client: RestClient) -> None:
    made = client.post("/jobs/ingest", {"object": "Account", "operation": "insert"}).json()
    path = f"/jobs/ingest/{made['id']}"
    assert made["id"] in [each["id"] for each in client.get("/jobs/ingest").json()["records"]]
    assert client.get(f"{path}/failedResults").json()[0]["errorCode"] == "INVALIDJOBSTATE"
    assert client.send("PATCH", path, json={"state": "Aborted"}).json()["state"] == "Aborted"
    assert client.send("PATCH", path, json={"state": "UploadComplete"}).json()[0]["errorCode"] == "INVALIDJOBSTATE"
    assert client.send("DELETE", path).status_code == 204
    assert client.get(path).status_code == 404
    used = client.get("/limits").json()["DailyBulkApiBatches"]
    assert used["Remaining"] < used["Max"]
