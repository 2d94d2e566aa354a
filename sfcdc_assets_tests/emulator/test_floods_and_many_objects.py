"""What a poller meets in a large org: every row stamped and none changed, 300 objects, and a day's allowance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from sfcdc_assets.emulator.definitions.whole_org import custom_objects, whole_org
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import DAY, HOUR, OrgSettings
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client
from sfcdc_assets_tests.eventually import BOUND_SECONDS

MANY = 300


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def org(clock: ManualClock) -> EmulatedOrg:
    return EmulatedOrg(clock=clock, seed=3, settings=OrgSettings(token_lifetime=3 * DAY))


@pytest.fixture
def client(org: EmulatedOrg) -> Iterator[RestClient]:
    with rest_client(org) as client:
        yield client


def used(client: RestClient) -> int:
    return int(client.get("/limits").headers["Sforce-Limit-Info"].removeprefix("api-usage=").split("/")[0])


def test_a_flood_moves_one_stamp_of_every_row_and_nothing_else(org: EmulatedOrg, clock: ManualClock) -> None:
    org.populate({"Account": 2_500, "Contact": 5})
    with org.transaction() as work:
        work.delete("Account", str(next(org.records("Account"))["Id"]))
    before = {entity: list(org.records(entity, include_deleted=True)) for entity in ("Account", "Contact")}
    moment = clock()
    clock.advance(HOUR)
    assert org.stamp_all("Account") == 2_499
    after = list(org.records("Account", include_deleted=True))
    for old, new in zip(before["Account"], after, strict=True):
        stamp = old["SystemModstamp"] if old["IsDeleted"] else clock()
        assert new == {**old, "SystemModstamp": stamp}
    assert list(org.records("Contact")) == before["Contact"]
    names = [field.name for field in org.definitions["Account"].stored_fields]
    live = {str(row["Id"]): {name: row[name] for name in names} for row in before["Account"] if not row["IsDeleted"]}
    assert org.seen_at("Account", moment) == live, "the oracle knows the stamps of before"
    assert {row["SystemModstamp"] for row in org.seen_at("Account", clock()).values()} == {clock()}
    *_, last = org.transactions()
    assert last.changes == ()


def test_ties_of_a_flood_are_read_in_pages_by_stamp_and_id(
    org: EmulatedOrg, clock: ManualClock, client: RestClient
) -> None:
    org.populate({"Account": 1_000})
    clock.advance(HOUR)
    org.stamp_all("Account")
    stamp, last, found = "1970-01-01T00:00:00Z", "000000000000000AAA", []
    for _ in range(10):
        answer = client.query(
            f"SELECT Id, SystemModstamp FROM Account WHERE (SystemModstamp = {stamp} AND Id > '{last}') OR "
            f"SystemModstamp > {stamp} ORDER BY SystemModstamp, Id LIMIT 300"
        ).json()["records"]
        if not answer:
            break
        found += [row["Id"] for row in answer]
        stamp, last = answer[-1]["SystemModstamp"].replace("+0000", "Z"), answer[-1]["Id"]
    assert found == [row["Id"] for row in org.records("Account")]


def test_300_objects_are_made_listed_described_and_counted(clock: ManualClock) -> None:
    made = custom_objects(MANY)
    org = EmulatedOrg(clock=clock, seed=3, objects=(*whole_org(), *made))
    org.populate({each.name: 10 for each in made})
    with rest_client(org) as client:
        listed = {each["name"]: each for each in client.get("/sobjects").json()["sobjects"]}
        assert len(listed) >= MANY + len(whole_org())
        for each in made:
            fields = client.get(f"/sobjects/{each.name}/describe").json()["fields"]
            assert [field["name"] for field in fields] == [field.name for field in each.fields]
        counted = client.get("/limits/recordCount").json()["sObjects"]
        assert {each["name"]: each["count"] for each in counted if each["name"].startswith("Thing_")} == {
            each.name: 10 for each in made
        }


def test_a_served_org_is_given_many_objects_and_a_flood_by_the_control_resource(
    tmp_path: Path, clock: ManualClock
) -> None:
    org = EmulatedOrg(clock=clock, seed=3)
    with EmulatorServer(org, directory=tmp_path) as server:

        def post(path: str, body: object = None) -> Any:
            answer = server_post(server, path, body)
            assert "error" not in answer, answer
            return answer

        names = post("/many-objects", {"count": 3, "records": 4})["objects"]
        assert names == ["Thing_001__c", "Thing_002__c", "Thing_003__c"]
        assert not set(names) & set(org.selected_entities)
        assert post("/objects/Thing_002__c/stamp-all")["records"] == 4
        assert post("/objects/Thing_001__c/history", {"fields": ["Name"]}) == {"name": "Thing_001__History"}
        assert post("/objects/Thing_001__c/share") == {"name": "Thing_001__Share"}
        assert post("/objects/Thing_001__c/feed") == {"name": "Thing_001__Feed"}
        held = post("/open-transactions", {})["number"]
        made = post(f"/open-transactions/{held}/create", {"entity": "Account", "values": {"Name": "a"}})["id"]
        assert org.count("Account") == 0
        assert server_post(server, "/open-transactions", None, "GET")[0]["locked"] == [made]
        assert post(f"/open-transactions/{held}/commit")["commit_number"] == org.last_commit_number
        seen = server_post(server, f"/seen/Account?at={clock()}", None, "GET")
        assert [row["Id"] for row in seen["records"]] == [made]
        assert server_post(server, f"/seen/Account?at={clock() - HOUR}", None, "GET")["records"] == []
        other = post("/open-transactions", {"seconds": 5})["number"]
        post(f"/open-transactions/{other}/update", {"entity": "Account", "id": made, "values": {"Name": "b"}})
        post(f"/open-transactions/{other}/roll-back")
        assert "error" in server_post(server, f"/open-transactions/{other}/commit", None)
    org.close()


def server_post(server: EmulatorServer, path: str, body: object, method: str = "POST") -> Any:
    url = f"{server.rest_url}/emulator{path}"
    return requests.request(method, url, json=body, verify=str(server.ca_file), timeout=BOUND_SECONDS).json()


def test_calls_are_counted_as_salesforce_counts_them(org: EmulatedOrg, client: RestClient) -> None:
    org.populate({"Account": 450})
    query = "/services/data/v59.0/query?q=SELECT+Id+FROM+Account+LIMIT+1"

    def cost(act: Callable[[], object]) -> int:
        before = used(client)
        act()
        return used(client) - before - 1  # that of asking

    composite = [{"method": "GET", "url": query, "referenceId": f"r{n}"} for n in range(5)]
    assert cost(lambda: client.post("/composite", {"compositeRequest": composite})) == 1
    batch = [{"method": "GET", "url": query.removeprefix("/services/data/")} for _ in range(7)]
    assert cost(lambda: client.post("/composite/batch", {"batchRequests": batch})) == 7

    def pages() -> None:
        page = client.query("SELECT Id FROM Account", headers={"Sforce-Query-Options": "batchSize=200"}).json()
        while not page["done"]:
            page = client.get("/" + page["nextRecordsUrl"]).json()

    assert cost(pages) == 3


def test_a_composite_holds_five_queries_at_most(client: RestClient) -> None:
    query = "/services/data/v59.0/query/?q=SELECT+COUNT()+FROM+Account"
    six = [{"method": "GET", "url": query, "referenceId": f"r{n}"} for n in range(6)]
    answer = client.post("/composite", {"compositeRequest": six})
    assert (answer.status_code, answer.json()[0]["errorCode"]) == (400, "INVALID_INPUT")
    results = client.post("/composite", {"compositeRequest": six[:5]}).json()["compositeResponse"]
    assert [each["body"]["totalSize"] for each in results] == [0] * 5


def test_a_used_up_allowance_refuses_everything_until_calls_are_a_day_old(
    org: EmulatedOrg, clock: ManualClock, client: RestClient
) -> None:
    org.settings = replace(org.settings, daily_api_requests=3)
    batch = [{"method": "GET", "url": "v59.0/limits"} for _ in range(4)]
    results = client.post("/composite/batch", {"batchRequests": batch}).json()["results"]
    assert [each["statusCode"] for each in results] == [200, 200, 200, 403]
    exceeded = {"message": "TotalRequests Limit exceeded.", "errorCode": "REQUEST_LIMIT_EXCEEDED"}
    assert results[-1]["result"] == [{**exceeded}]
    for _ in range(5):
        answer = client.query("SELECT Id FROM Account")
        assert (answer.status_code, answer.json()) == (403, [exceeded])
        assert answer.headers["Sforce-Limit-Info"] == "api-usage=3/3"
    job = {"operation": "query", "object": "Account", "contentType": "JSON"}
    assert client.post("//services/async/59.0/job", job).status_code == 403
    clock.advance(DAY + HOUR)
    assert client.query("SELECT Id FROM Account").status_code == 200
