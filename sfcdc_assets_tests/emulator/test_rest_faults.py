"""Faults of REST: what the client meets on the wire, where, how often."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests

from sfcdc_assets.emulator.faults.rest_faults import RestFault, RestFaults
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client
from sfcdc_assets_tests.eventually import BOUND_SECONDS

SOQL = {"q": "SELECT Id FROM Account"}


@pytest.fixture
def faults() -> RestFaults:
    return RestFaults()


@pytest.fixture
def client(faults: RestFaults) -> Iterator[RestClient]:
    with rest_client(EmulatedOrg(settings=OrgSettings(most_ids_in_retrieve=3)), faults=faults) as client:
        yield client


@pytest.mark.parametrize(
    ("fault", "status", "error_code"),
    [
        (RestFault.UNAUTHORIZED, 401, "INVALID_SESSION_ID"),
        (RestFault.REQUEST_LIMIT, 403, "REQUEST_LIMIT_EXCEEDED"),
        (RestFault.TOO_MANY_REQUESTS, 429, "REQUEST_LIMIT_EXCEEDED"),
        (RestFault.UNAVAILABLE, 503, "SERVER_UNAVAILABLE"),
        (RestFault.SERVER_ERROR, 500, "UNKNOWN_EXCEPTION"),
    ],
)
def test_a_refusal_comes_as_often_as_armed(
    faults: RestFaults, client: RestClient, fault: RestFault, status: int, error_code: str
) -> None:
    faults.arm(fault, 2, retry_after=7)
    for _ in range(2):
        answer = client.get("/query", params=SOQL)
        assert (answer.status_code, answer.json()[0]["errorCode"]) == (status, error_code)
        assert answer.headers["Retry-After"] == "7"
    assert client.get("/query", params=SOQL).status_code == 200
    assert faults.armed() == []


def test_a_fault_strikes_only_its_path_and_method(faults: RestFaults, client: RestClient) -> None:
    faults.arm(RestFault.UNAVAILABLE, path="/composite/sobjects", method="POST")
    faults.arm(RestFault.UNAVAILABLE, path="/services/oauth2/token")
    assert client.get("/limits").status_code == 200
    assert client.get("/composite/sobjects/Account", params={"ids": "", "fields": "Id"}).status_code == 200
    assert client.get("//emulator/state").status_code == 200
    assert client.post("/composite/sobjects/Account", {"ids": [], "fields": ["Id"]}).status_code == 503
    assert client.post("/composite/sobjects/Account", {"ids": [], "fields": ["Id"]}).status_code == 200
    assert client.post("//services/oauth2/token").status_code == 503


def test_garbage_is_no_json(faults: RestFaults, client: RestClient) -> None:
    faults.arm(RestFault.GARBAGE)
    answer = client.get("/query", params=SOQL)
    assert answer.status_code == 200
    with pytest.raises(ValueError):
        answer.json()


def test_an_answer_may_end_in_its_midst(faults: RestFaults, client: RestClient) -> None:
    faults.arm(RestFault.CUT_OFF)
    with pytest.raises(requests.RequestException):
        client.get("/query", params=SOQL)
    assert client.get("/query", params=SOQL).status_code == 200


def test_a_request_may_hang_until_the_client_gives_up(faults: RestFaults, client: RestClient) -> None:
    faults.arm(RestFault.TIMEOUT)
    url = f"{client.base_url}/services/data/v59.0/query"
    with pytest.raises(requests.Timeout):
        client.session.get(url, params=SOQL, timeout=(BOUND_SECONDS, 0.3))  # it has sent the request by then
    assert client.get("/query", params=SOQL).status_code == 200
    faults.arm(RestFault.TIMEOUT, seconds=0.05)
    assert client.get("/query", params=SOQL).status_code == 503


def test_a_proxy_refuses_long_urls_and_retrieves_of_too_many_ids(faults: RestFaults, client: RestClient) -> None:
    faults.arm(RestFault.URI_TOO_LONG, path="/query")
    assert client.get("/query", params=SOQL).status_code == 414
    ids = [f"001Aa000000CaR{n}" for n in range(4)]
    assert client.post("/composite/sobjects/Account", {"ids": ids, "fields": ["Id"]}).status_code == 414
    assert client.post("/composite/sobjects/Account", {"ids": ids[:3], "fields": ["Id"]}).json() == [None] * 3


def test_disarming_forgets_all(faults: RestFaults, client: RestClient) -> None:
    faults.arm(RestFault.UNAVAILABLE, 5)
    faults.disarm()
    assert client.get("/limits").status_code == 200
