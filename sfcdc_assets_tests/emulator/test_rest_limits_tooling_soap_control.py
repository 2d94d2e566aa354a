from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import DAY, OrgSettings
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client


@pytest.fixture
def org() -> EmulatedOrg:
    return EmulatedOrg(clock=ManualClock(), settings=OrgSettings(daily_api_requests=5, token_lifetime=9 * DAY))


@pytest.fixture
def client(org: EmulatedOrg) -> Iterator[RestClient]:
    with rest_client(org, measured_limits=lambda: {"DailyDeliveredPlatformEvents": (50_000, -3)}) as client:
        yield client


def test_requests_are_counted_and_limited_over_24_hours(org: EmulatedOrg, client: RestClient) -> None:
    answer = client.get("/limits")
    assert answer.headers["Sforce-Limit-Info"] == "api-usage=1/5"
    assert answer.json()["DailyApiRequests"] == {"Max": 5, "Remaining": 4}
    assert answer.json()["DailyDeliveredPlatformEvents"] == {"Max": 50_000, "Remaining": -3}
    assert [client.get("/limits").status_code for _ in range(5)] == [200] * 4 + [403]
    assert client.get("/limits").json() == [
        {"message": "TotalRequests Limit exceeded.", "errorCode": "REQUEST_LIMIT_EXCEEDED"}
    ]
    assert isinstance(org.clock, ManualClock)
    org.clock.advance(25 * 3_600_000)
    assert client.get("/limits").status_code == 200


def test_versions_need_no_token_but_their_resources_do(client: RestClient) -> None:
    del client.session.headers["Authorization"]
    versions = client.get("//services/data").json()
    assert {"label": "API 59", "url": "/services/data/v59.0", "version": "59.0"} in versions
    answer = client.get("/")
    assert (answer.status_code, answer.json()[0]["errorCode"]) == (401, "INVALID_SESSION_ID")


def test_the_channels_members_are_the_selected_entities(org: EmulatedOrg, client: RestClient) -> None:
    org.selected_entities = ["Account", "Invoice_Statement__c"]
    soql = "SELECT Id, SelectedEntity FROM PlatformEventChannelMember WHERE EventChannel = 'ChangeEvents'"
    answer = client.get("/tooling/query/", params={"q": soql}).json()
    assert [record["SelectedEntity"] for record in answer["records"]] == [
        "AccountChangeEvent",
        "Invoice_Statement__ChangeEvent",
    ]
    assert answer["totalSize"] == 2
    assert client.get("/tooling/query", params={"q": "SELECT Id FROM ApexClass"}).status_code == 400


def undelete(client: RestClient, token: str, *ids: str) -> tuple[int, str]:
    body = (
        '<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/" xmlns:p="urn:partner.soap.sforce.com">'
        f"<e:Header><p:SessionHeader><p:sessionId>{token}</p:sessionId></p:SessionHeader></e:Header>"
        f"<e:Body><p:undelete>{''.join(f'<p:ids>{i}</p:ids>' for i in ids)}</p:undelete></e:Body></e:Envelope>"
    )
    answer = client.send("POST", "//services/Soap/u/59.0", data=body, headers={"Content-Type": "text/xml"})
    return answer.status_code, answer.text


def test_the_soap_call_undelete_restores_records(org: EmulatedOrg, client: RestClient) -> None:
    with org.transaction() as work:
        record_id = work.create("Account", {"Name": "Acme"})
    with org.transaction() as work:
        work.delete("Account", record_id)
    token = str(client.session.headers["Authorization"]).removeprefix("Bearer ")
    status, text = undelete(client, token, record_id, "001000000000001")
    assert status == 200
    assert f"<id>{record_id}</id><success>true</success>" in text
    assert text.count("<success>false</success>") == 1
    last = list(org.transactions())[-1]
    assert (last.changes[0].change_type, last.change_origin) == ("UNDELETE", "com/salesforce/api/soap/59.0")
    assert undelete(client, "wrong", record_id)[0] == 500
    assert "INVALID_SESSION_ID" in undelete(client, "wrong", record_id)[1]


def test_the_control_resource_pages_through_the_oracle(org: EmulatedOrg, client: RestClient) -> None:
    for name in "abcde":
        with org.transaction() as work:
            work.create("Account", {"Name": name})
    seen, after = [], 0
    for _ in range(4):
        page = client.get(f"//emulator/transactions?limit=2&after={after}").json()
        seen += [transaction["changes"][0]["after"]["Name"] for transaction in page["transactions"]]
        after = page["next_after"]
    assert seen == list("abcde")
    assert after == org.last_commit_number
    state = client.get("//emulator/state").json()
    assert state["objects"]["Account"] == {"live": 5, "all": 5}
    assert state["organization_id"] == org.organization_id


def test_an_interceptor_answers_in_the_orgs_place() -> None:
    def unavailable(request: Request) -> Response | None:
        if request.url.path.endswith("/query"):
            return JSONResponse([{"message": "busy", "errorCode": "SERVER_UNAVAILABLE"}], status_code=503)
        return None

    with rest_client(EmulatedOrg(), intercept=unavailable) as client:
        assert client.query("SELECT Id FROM Account").status_code == 503
        assert client.get("/limits").status_code == 200
