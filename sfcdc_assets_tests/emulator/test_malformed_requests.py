"""Seeded malformed requests to what reads a body or a query: no 5xx, no traceback, and the org goes on.

Some are random, most are good requests with a part replaced, dropped or doubled, since those get further.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterator
from typing import Any

import pytest

from sfcdc_assets.emulator.clock import ManualClock
from sfcdc_assets.emulator.object_file import built_in_definitions, stock_definitions
from sfcdc_assets.emulator.org import EmulatedOrg
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client

REQUESTS = 1_000
WORDS = (
    "records", "attributes", "type", "referenceId", "Account", "Contact", "Contacts", "Id", "id", "ids", "fields",
    "Name", "allOrNone", "graphs", "method", "url", "body", "POST", "GET", "PATCH", "DELETE", "External_Key__c",
    "operation", "insert", "upsert", "query", "object", "contentType", "CSV", "JSON", "state", "UploadComplete",
    "Aborted", "Closed", "FullName", "Metadata", "label", "LATEST", "losers", "grant_type", "@{a.id}", "@{a}",
    "/services/data/v59.0/sobjects/Account", "001000000000001AAA", "", " ", "\ud800", "é\u2028", "a" * 300,
)  # fmt: skip
PLAIN_WORDS = WORDS[:-3]
ATTRIBUTES = {"type": "Contact", "referenceId": "c1"}
GOOD: dict[str, Any] = {
    "/sobjects/Account": {"Name": "a", "Phone": "1", "NumberOfEmployees": 5, "Next_Review__c": "2024-01-01T00:00:00Z"},
    "/sobjects/Account/External_Key__c/k": {"Name": "a", "Primary_Contact__r": {"Id": "003000000000001"}},
    "/composite": {
        "allOrNone": True,
        "compositeRequest": [
            {
                "method": "POST",
                "url": "/services/data/v59.0/sobjects/Account",
                "referenceId": "a",
                "body": {"Name": "a"},
            },
            {"method": "GET", "url": "/services/data/v59.0/sobjects/Account/@{a.id}", "referenceId": "b"},
        ],
    },
    "/composite/batch": {"batchRequests": [{"method": "GET", "url": "v59.0/limits"}], "haltOnError": True},
    "/composite/graph": {
        "graphs": [
            {
                "graphId": "g",
                "compositeRequest": [
                    {
                        "method": "POST",
                        "url": "/services/data/v59.0/sobjects/Lead",
                        "referenceId": "l",
                        "body": {"LastName": "l", "Company": "c"},
                    }
                ],
            }
        ]
    },
    "/composite/tree/Account": {
        "records": [
            {
                "attributes": {"type": "Account", "referenceId": "a1"},
                "Name": "t",
                "Contacts": {"records": [{"attributes": ATTRIBUTES, "LastName": "l"}]},
            }
        ]
    },
    "/composite/sobjects": {
        "allOrNone": False,
        "records": [{"attributes": ATTRIBUTES, "LastName": "x", "Account": {"External_Key__c": "k"}}],
    },
    "/composite/sobjects/Account/External_Key__c": {
        "records": [{"attributes": {"type": "Account"}, "External_Key__c": "k", "Name": "n"}]
    },
    "/composite/sobjects/Account": {"ids": ["001000000000001"], "fields": ["Id", "Name"]},
    "/jobs/ingest": {"object": "Account", "operation": "upsert", "externalIdFieldName": "External_Key__c"},
    "/jobs/query": {"operation": "query", "query": "SELECT Id FROM Account"},
    "/tooling/sobjects/ManagedEventSubscription": {
        "FullName": "M",
        "Metadata": {
            "label": "m",
            "topicName": "/data/ChangeEvents",
            "defaultReplay": "LATEST",
            "errorRecoveryReplay": "LATEST",
            "state": "RUN",
        },
    },
    "/tooling/sobjects/PlatformEventChannel": {"FullName": "S__chn", "Metadata": {"channelType": "data", "label": "s"}},
    "/tooling/sobjects/PlatformEventChannelMember": {
        "FullName": "S_m",
        "Metadata": {
            "eventChannel": "S__chn",
            "selectedEntity": "AccountChangeEvent",
            "enrichedFields": [{"name": "Name"}],
            "filterExpression": "Name = 'a' AND Id IN ('001000000000001')",
        },
    },
    "//services/async/59.0/job": {"operation": "query", "object": "Account", "contentType": "JSON"},
}
OTHER_PATHS = (
    "/sobjects/Account/Id/x", "/jobs/ingest/750000000000001AAA", "/jobs/ingest/750000000000001AAA/batches", "/query",
    "/queryAll", "/search", "/tooling/query", "/sobjects/Account/describe/layouts", "/event/eventSchema/x",
    "//services/async/59.0/job/750000000000001/batch", "//services/Soap/u/59.0", "//services/oauth2/token",
    "//services/oauth2/authorize", "//id/00D/005", "/limits",
)  # fmt: skip
QUERIES = (
    "SELECT Id , Name , ( SELECT Id FROM Contacts WHERE LastName LIKE 'a%' ORDER BY Id LIMIT 2 ) FROM Account",
    "SELECT Rating , COUNT(Id) n , MAX(CreatedDate) FROM Account GROUP BY Rating HAVING COUNT(Id) > 1",
    "SELECT Site FROM Account GROUP BY Site ORDER BY COUNT(Id) DESC NULLS LAST LIMIT 3 OFFSET 1",
    "SELECT Id FROM Contact WHERE AccountId IN ( SELECT Id FROM Account WHERE CreatedDate = TODAY ) AND Name != null",
    "SELECT toLabel(Rating) r , Owner.Name FROM Account a WHERE NOT ( Rating = 'Hot' OR a.AnnualRevenue >= 1e3 )",
    "SELECT FIELDS(ALL) FROM Account USING SCOPE mine WITH USER_MODE LIMIT 200 OFFSET 3 FOR VIEW",
    "SELECT QualifiedApiName FROM FieldDefinition WHERE EntityDefinition.QualifiedApiName = 'Account' LIMIT 1",
    "FIND {acme OR pain*} IN NAME FIELDS RETURNING Account ( Id , Name WHERE Rating = 'Hot' LIMIT 2 ) , Contact",
)  # fmt: skip
QUERIED = ("/query", "/queryAll", "/search", "/tooling/query")
METHODS = ("POST", "POST", "PATCH", "GET", "PUT", "DELETE")


@pytest.fixture(scope="module")
def client() -> Iterator[RestClient]:
    org = EmulatedOrg(clock=ManualClock(), seed=1, objects=[*built_in_definitions(), *stock_definitions()])
    org.populate({"User": 1, "Account": 5, "Contact": 5})
    with rest_client(org) as client:
        yield client


def value(dice: random.Random, depth: int = 0) -> Any:
    kind = dice.randrange(9 if depth < 4 else 6)
    if kind < 3:
        return dice.choice(WORDS)
    if kind < 6:
        return dice.choice([None, True, False, 0, -1, 2**70, 1.5, [], {}])
    if kind == 6:
        return [value(dice, depth + 1) for _ in range(dice.randrange(4))]
    return {dice.choice(WORDS): value(dice, depth + 1) for _ in range(dice.randrange(6))}


def changed(dice: random.Random, good: Any) -> Any:
    """A good body with one part of it replaced or dropped."""
    if dice.random() < 0.25 or not isinstance(good, (dict, list)) or not good:
        return value(dice)
    if isinstance(good, list):
        place = dice.randrange(len(good))
        return [*good[:place], changed(dice, good[place]), *good[place + dice.randrange(2) :]]
    key = dice.choice(list(good))
    if dice.random() < 0.2:
        return {name: each for name, each in good.items() if name != key}
    return {**good, key: changed(dice, good[key])}


def query(dice: random.Random) -> str:
    tokens = dice.choice(QUERIES).split()
    for _ in range(dice.randrange(1, 3)):
        place = dice.randrange(len(tokens))
        another = dice.choice(dice.choice(QUERIES).split())
        tokens[place : place + dice.randrange(2)] = [[another], [], [another, another]][dice.randrange(3)]
        tokens = tokens or ["x"]
    return " ".join(tokens)


def body(dice: random.Random, path: str) -> tuple[bytes, str]:
    kind = dice.randrange(10)
    if kind < 7:
        return json.dumps(changed(dice, GOOD.get(path, {}))).encode(), "application/json"
    if kind == 7:
        return dice.randbytes(dice.randrange(200)), "application/json"
    if kind == 8:
        return "\n".join(",".join(dice.choices(PLAIN_WORDS, k=3)) for _ in range(4)).encode(), "text/csv"
    names = [dice.choice(("login", "jobInfo", "operation", "e:Body", "merge")) for _ in range(3)]
    text = "".join(f"<{name}>" for name in names) + dice.choice(PLAIN_WORDS)
    closed = "".join(f"</{name}>" for name in reversed(names)) if dice.random() < 0.7 else ""
    return (text + closed).encode(), "text/xml"


def test_no_malformed_request_is_an_error_of_the_server(client: RestClient, caplog: pytest.LogCaptureFixture) -> None:
    dice = random.Random(2026)
    statuses: dict[int, int] = {}
    with caplog.at_level(logging.ERROR):
        for number in range(REQUESTS):
            method, path = dice.choice(METHODS), dice.choice((*GOOD, *GOOD, *OTHER_PATHS))
            content, kind = body(dice, path)
            asked = {"q": query(dice)} if path in QUERIED else {}
            method = "GET" if asked else method
            answer = client.send(method, path, params=asked, data=content, headers={"Content-Type": kind})
            # SOAP answers each refusal with a fault and 500.
            is_fault = "<sf:exceptionCode>" in answer.text
            assert answer.status_code < 500 or is_fault, (number, method, path, content, asked, answer.text)
            statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
    assert [record for record in caplog.records if record.exc_info] == []
    assert {400, 404, 405} <= statuses.keys()
    assert client.query("SELECT COUNT() FROM Account").status_code == 200
