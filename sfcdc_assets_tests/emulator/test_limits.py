"""Allowances are counted as they are used up, and what goes beyond them is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import requests

from sfcdc_assets.emulator.definitions.object_file import built_in_definitions, stock_definitions
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.rest.api_usage import ApiUsage
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client


@pytest.fixture
def org() -> EmulatedOrg:
    return EmulatedOrg(seed=4, objects=[*built_in_definitions(), *stock_definitions()])


@pytest.fixture
def client(org: EmulatedOrg) -> Iterator[RestClient]:
    with rest_client(org) as client:
        yield client


def limits(client: RestClient) -> dict[str, dict[str, int]]:
    return client.get("/limits").json()


def test_data_storage_is_what_the_records_take_and_new_ones_are_refused_beyond_it(
    org: EmulatedOrg, client: RestClient
) -> None:
    org.populate({"User": 40, "Account": 300, "Campaign": 64, "CampaignMember": 20, "Product2": 90})
    with org.transaction() as work:
        for record, _ in zip(list(org.records("Account")), range(44), strict=False):
            work.delete("Account", str(record["Id"]))
    kilobytes = 2 * 256 + 8 * 64 + 20
    assert limits(client)["DataStorageMB"] == {"Max": 10_240, "Remaining": 10_240 - 1}
    assert org.data_storage.used_mb == kilobytes / 1024
    org.settings = replace(org.settings, data_storage_mb=1)
    refused = client.post("/sobjects/Account", {"Name": "One too many"})
    assert (refused.status_code, refused.json()[0]["errorCode"]) == (400, "STORAGE_LIMIT_EXCEEDED")
    several = [{"attributes": {"type": "Account"}, "Name": name} for name in "ab"]
    results = client.post("/composite/sobjects", {"records": several}).json()
    assert [each["errors"][0]["statusCode"] for each in results] == ["STORAGE_LIMIT_EXCEEDED"] * 2
    account = str(next(org.records("Account"))["Id"])
    assert client.send("PATCH", f"/sobjects/Account/{account}", json={"Phone": "1"}).status_code == 204
    for record in list(org.records("Account"))[:32]:
        client.send("DELETE", f"/sobjects/Account/{record['Id']}")
    assert client.post("/sobjects/Account", {"Name": "Room again"}).status_code == 201


def test_bulk_queries_are_limited_by_number_and_by_the_size_of_their_results(
    org: EmulatedOrg, client: RestClient
) -> None:
    def create(client: RestClient) -> requests.Response:
        return client.post("/jobs/query", {"operation": "query", "query": "SELECT Id, Name FROM User"})

    org.settings = replace(org.settings, daily_bulk_query_jobs=2, daily_bulk_query_mb=1)
    job = create(client).json()["id"]
    while client.get(f"/jobs/query/{job}").json()["state"] != "JobComplete":
        pass
    size = len(client.get(f"/jobs/query/{job}/results").content)
    assert limits(client)["DailyBulkV2QueryJobs"] == {"Max": 2, "Remaining": 1}
    usage = ApiUsage(org)
    assert usage.used("bulk_query_byte") == size
    usage.add("bulk_query_byte", 2**20 - size)
    assert limits(client)["DailyBulkV2QueryFileStorageMB"] == {"Max": 1, "Remaining": 0}
    (error,) = create(client).json()
    assert error == {
        "message": "Max bulk v2 query result size stored (1024) kb per 24 hrs has been exceeded",
        "errorCode": "LIMIT_EXCEEDED",
    }
    org.settings = replace(org.settings, daily_bulk_query_mb=2)
    assert create(client).status_code == 200
    (error,) = create(client).json()
    assert error["message"] == "Max bulk v2 query jobs (2) per 24 hrs has been reached (2)"


def test_an_old_version_knows_an_allowance_by_its_old_name(client: RestClient) -> None:
    assert "DailyBulkApiBatches" in limits(client)
    old = client.get("//services/data/v48.0/limits").json()
    assert "DailyBulkApiRequests" in old
    assert "DailyBulkApiBatches" not in old


def test_records_are_counted_by_object(org: EmulatedOrg, client: RestClient) -> None:
    counted = client.get("/limits/recordCount", params={"sObjects": "User,account,Nonsense"}).json()["sObjects"]
    assert {each["name"]: each["count"] for each in counted} == {name: org.count(name) for name in ("User", "Account")}
    everything = client.get("/limits/recordCount").json()["sObjects"]
    assert {each["name"] for each in everything} == org.definitions.keys()
