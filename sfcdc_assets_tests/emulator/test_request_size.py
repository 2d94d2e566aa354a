"""Requests that are too long are refused before the org looks at them, as by Salesforce and by proxies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client

LIMIT = 16_384


@pytest.fixture
def client() -> Iterator[RestClient]:
    with rest_client(EmulatedOrg()) as client:
        yield client


def soql(number: int) -> dict[str, str]:
    """A query whose address has about so many bytes: in texts of which each is short enough for a condition."""
    texts = ",".join(["'" + "x" * 993 + "'"] * (number // 1_000))
    return {"q": f"SELECT Id FROM Account WHERE Name IN ({texts},'{'x' * (number % 1_000)}')"}


def test_an_address_of_16_kb_is_too_long(client: RestClient) -> None:
    refused = client.get("/query", params=soql(LIMIT))
    assert (refused.status_code, refused.headers["content-type"].partition(";")[0]) == (414, "text/html")
    assert client.get("/query", params=soql(LIMIT // 2)).status_code == 200


def test_headers_count_too(client: RestClient) -> None:
    line = client.get("/query", params=soql(LIMIT - 300))
    assert line.status_code == 431
    assert client.get("/query", params=soql(9_000), headers={"X-Long": "x" * 9_000}).status_code == 431


def test_a_body_is_not_counted(client: RestClient) -> None:
    found = client.post("/composite/sobjects/Account", {"ids": ["001000000000001AAA"] * 1_500, "fields": ["Id"]})
    assert found.status_code == 200
