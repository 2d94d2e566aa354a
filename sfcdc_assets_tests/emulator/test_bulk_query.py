from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import DAY, OrgSettings
from sfcdc_assets.emulator.records.field_value import datetime_text
from sfcdc_assets.emulator.rest.api_usage import ApiUsage
from sfcdc_assets.emulator.rest.csv_form import cells, csv_lines, java_double
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client

ACCOUNT = {field.name: field for field in EmulatedOrg().definitions["Account"].fields}


@pytest.fixture
def org() -> EmulatedOrg:
    return EmulatedOrg(clock=ManualClock(), settings=OrgSettings(token_lifetime=90 * DAY))


@pytest.fixture
def client(org: EmulatedOrg) -> Iterator[RestClient]:
    with rest_client(org) as client:
        yield client


def start(client: RestClient, query: str, operation: str = "query", **options: Any) -> dict[str, Any]:
    answer = client.post("/jobs/query", {"operation": operation, "query": query, **options})
    assert answer.status_code == 200, answer.text
    job: dict[str, Any] = answer.json()
    return job


def finish(client: RestClient, query: str, operation: str = "query", **options: Any) -> str:
    job = start(client, query, operation, **options)
    states = [job["state"]] + [client.get(f"/jobs/query/{job['id']}").json()["state"] for _ in range(2)]
    assert states == ["UploadComplete", "InProgress", "JobComplete"]
    return str(job["id"])


def results(client: RestClient, job_id: str, **params: Any) -> requests.Response:
    answer = client.get(f"/jobs/query/{job_id}/results", params=params)
    answer.encoding = "utf-8"
    return answer


def test_values_are_written_as_salesforce_writes_them(org: EmulatedOrg, client: RestClient) -> None:
    with org.transaction() as work:
        record_id = work.create(
            "Account",
            {"Name": 'The "gold", plan', "Description": "two\nlines", "AnnualRevenue": 350_000_000,
             "Health_Score__c": 0.5, "Next_Review__c": "2024-01-02T03:04:05Z", "SLAExpirationDate__c": "2024-01-02",
             "Support_Opens__c": "09:30", "NumberOfEmployees": 7, "Is_Partner__c": True, "Regions__c": "North;West"},
        )  # fmt: skip
        work.create("Contact", {"FirstName": "Ana", "LastName": "Kaya", "AccountId": record_id})
    soql = (
        "SELECT Id, Name, Description, AnnualRevenue, Health_Score__c, Next_Review__c, SLAExpirationDate__c, "
        "Support_Opens__c, NumberOfEmployees, Is_Partner__c, Regions__c, Fax FROM Account"
    )
    assert results(client, finish(client, soql)).text == (
        '"Id","Name","Description","AnnualRevenue","Health_Score__c","Next_Review__c","SLAExpirationDate__c",'
        '"Support_Opens__c","NumberOfEmployees","Is_Partner__c","Regions__c","Fax"\n'
        f'"{record_id}","The ""gold"", plan","two\nlines","3.5E8","0.5","2024-01-02T03:04:05.000Z","2024-01-02",'
        '"09:30:00.000Z","7","true","North;West",""\n'
    )
    job = finish(client, "SELECT Name, Account.Name FROM Contact", columnDelimiter="PIPE", lineEnding="CRLF")
    assert results(client, job).content == b'"Name"|"Account.Name"\r\n"Ana Kaya"|"The ""gold"", plan"\r\n'


def test_pages_follow_their_locators_and_can_be_read_again(org: EmulatedOrg, client: RestClient) -> None:
    org.populate({"Lead": 1234})
    truth = [record["Id"] for record in org.records("Lead")]
    job = finish(client, "SELECT Id, Description FROM Lead")
    seen, numbers, locator = [], [], ""
    for _ in range(10):
        page = results(client, job, maxRecords=500, **({"locator": locator} if locator else {}))
        again = results(client, job, maxRecords=500, **({"locator": locator} if locator else {}))
        assert page.text == again.text
        rows = list(csv.DictReader(io.StringIO(page.text, newline="")))
        assert len(rows) == int(page.headers["Sforce-NumberOfRecords"])
        seen += [row["Id"] for row in rows]
        numbers.append(len(rows))
        locator = page.headers["Sforce-Locator"]
        if locator == "null":
            break
    assert (seen, numbers) == (truth, [500, 500, 234])
    detail = client.get(f"/jobs/query/{job}").json()
    assert (detail["numberRecordsProcessed"], detail["jobType"]) == (1234, "V2Query")
    assert ApiUsage(org).used("bulk_query_page") == 2 * len(numbers)


def test_results_are_pinned_when_the_job_runs(org: EmulatedOrg, client: RestClient) -> None:
    with org.transaction() as work:
        record_id = work.create("Account", {"Name": "then"})
    job = finish(client, "SELECT Id, Name FROM Account")
    with org.transaction() as work:
        work.update("Account", record_id, {"Name": "now"})
    assert results(client, job).text == f'"Id","Name"\n"{record_id}","then"\n'


def test_query_all_has_the_recycle_bin_and_an_empty_result_has_its_header(org: EmulatedOrg, client: RestClient) -> None:
    with org.transaction() as work:
        record_id = work.create("Account", {"Name": "gone"})
    with org.transaction() as work:
        work.delete("Account", record_id)
    empty = results(client, finish(client, "SELECT Id FROM Account"))
    assert (empty.text, empty.headers["Sforce-Locator"], empty.headers["Sforce-NumberOfRecords"]) == (
        '"Id"\n',
        "null",
        "0",
    )
    assert record_id in results(client, finish(client, "SELECT Id FROM Account", "queryAll")).text


def test_results_are_given_for_complete_jobs_and_the_same_version_only(client: RestClient) -> None:
    job = start(client, "SELECT Id FROM Account")["id"]
    assert results(client, job).status_code == 400
    for _ in range(2):
        client.get(f"/jobs/query/{job}")
    assert results(client, job).status_code == 200
    assert client.get(f"//services/data/v60.0/jobs/query/{job}/results").status_code == 409
    assert results(client, "750000000000001AAA").status_code == 404
    assert results(client, job, locator="?!").json()[0]["errorCode"] == "INVALID_QUERY_LOCATOR"


def test_a_job_can_be_aborted_listed_and_deleted(client: RestClient) -> None:
    job = start(client, "SELECT Id FROM Account")["id"]
    path = f"/jobs/query/{job}"
    assert client.send("DELETE", path).status_code == 400
    assert client.send("PATCH", path, json={"state": "Aborted"}).json()["state"] == "Aborted"
    assert client.get(path).json()["state"] == "Aborted"
    assert client.send("PATCH", path, json={"state": "Aborted"}).status_code == 400
    assert [item["id"] for item in client.get("/jobs/query").json()["records"]] == [job]
    deleted = client.send("DELETE", path)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert client.get(path).status_code == 404


def test_a_job_whose_object_is_taken_away_fails(org: EmulatedOrg, client: RestClient) -> None:
    job = start(client, "SELECT Id FROM Account")["id"]
    org.hidden_objects.add("Account")
    details = [client.get(f"/jobs/query/{job}").json() for _ in range(2)]
    assert details[-1]["state"] == "Failed"
    assert "INVALID_TYPE" in details[-1]["errorMessage"]


def test_states_can_go_by_the_clock() -> None:
    clock = ManualClock()
    with rest_client(EmulatedOrg(clock=clock, settings=OrgSettings(bulk_step=1_000))) as client:
        job = start(client, "SELECT Id FROM Account")["id"]
        states = []
        for wait in (0, 999, 1, 500, 500):
            clock.advance(wait)
            states.append(client.get(f"/jobs/query/{job}").json()["state"])
        assert states == ["UploadComplete", "UploadComplete", "InProgress", "InProgress", "JobComplete"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"operation": "insert", "query": "SELECT Id FROM Account"}, "API_ERROR"),
        ({"operation": "query"}, "API_ERROR"),
        ({"operation": "query", "query": "SELECT Id FROM"}, "MALFORMED_QUERY"),
        ({"operation": "query", "query": "SELECT X FROM Account"}, "INVALID_FIELD"),
        ({"operation": "query", "query": "SELECT Id FROM Nope"}, "INVALID_TYPE"),
        ({"operation": "query", "query": "SELECT BillingAddress FROM Account"}, "API_ERROR"),
        ({"operation": "query", "query": "SELECT COUNT() FROM Account"}, "API_ERROR"),
        ({"operation": "query", "query": "SELECT Id FROM Account LIMIT 2 OFFSET 1"}, "API_ERROR"),
        ({"operation": "query", "query": "SELECT Id FROM Account", "columnDelimiter": "SPACE"}, "API_ERROR"),
    ],
)
def test_what_a_bulk_job_cannot_run_is_refused_at_once(client: RestClient, body: dict[str, str], code: str) -> None:
    answer = client.post("/jobs/query", body)
    assert (answer.status_code, answer.json()[0]["errorCode"]) == (400, code)
    assert client.get("/jobs/query").json()["records"] == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (12.5, "12.5"),
        (-1e7, "-1.0E7"),
        (9_999_999.0, "9999999.0"),
        (12_345_678.9, "1.23456789E7"),
        (1e-4, "1.0E-4"),
    ],
)
def test_doubles_are_written_as_java_does(value: float, text: str) -> None:
    assert java_double(value) == text
    assert float(text) == value


@given(st.integers(-(10**12), 4 * 10**12))
def test_times_are_written_a_column_at_a_time_as_one_alone(milliseconds: int) -> None:
    assert cells(ACCOUNT["CreatedDate"], [milliseconds, None]) == [datetime_text(milliseconds, "Z"), ""]


@given(st.lists(st.one_of(st.none(), st.text())))
def test_texts_are_read_back_from_a_column_of_cells_whatever_is_in_them(values: list[str | None]) -> None:
    lines = csv_lines([cells(ACCOUNT["Name"], values)] * 2, ",", "\n")
    read = list(csv.reader(io.StringIO("".join(lines), newline=""), strict=True))
    assert read == [[value or "", value or ""] for value in values]
