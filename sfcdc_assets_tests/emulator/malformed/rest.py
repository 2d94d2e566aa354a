"""Malformed requests to REST, with SOQL, SOSL, Tooling, both Bulk APIs, SOAP, logging in and the control resource."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sfcdc_assets_tests.emulator.malformed.values import changed, json_bytes

WORDS = (
    "records", "attributes", "type", "referenceId", "Account", "Contact", "Contacts", "Id", "id", "ids", "fields",
    "Name", "allOrNone", "graphs", "method", "url", "body", "POST", "GET", "PATCH", "DELETE", "External_Key__c",
    "operation", "insert", "upsert", "query", "object", "contentType", "CSV", "JSON", "state", "UploadComplete",
    "Aborted", "Closed", "FullName", "Metadata", "label", "LATEST", "losers", "grant_type", "@{a.id}", "@{a}",
    "/services/data/v59.0/sobjects/Account", "001000000000001AAA", "", " ", "\ud800", "é\u2028", "a" * 300,
)  # fmt: skip
PLAIN_WORDS = WORDS[:-3]
ATTRIBUTES = {"type": "Contact", "referenceId": "c1"}
_PART = {
    "method": "POST", "url": "/services/data/v59.0/sobjects/Lead", "referenceId": "l",
    "body": {"LastName": "l", "Company": "c"},
}  # fmt: skip
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
    "/composite/graph": {"graphs": [{"graphId": "g", "compositeRequest": [_PART]}]},
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
    "/sobjects/PushTopic": {"Name": "P", "Query": "SELECT Id, Name FROM Account", "ApiVersion": 59.0},
    "/sobjects/StreamingChannel": {"Name": "/u/x", "Description": "d"},
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
    "//emulator/faults": {"fault": "rest_busy", "count": 0},
    "//emulator/scenarios/x": {},
}
OTHER_PATHS = (
    "/sobjects/Account/Id/x", "/jobs/ingest/750000000000001AAA", "/jobs/ingest/750000000000001AAA/batches", "/query",
    "/sobjects/Account/{record}", "/sobjects/Account/{record}", "/jobs/ingest/{ingest}/batches",
    "/jobs/ingest/{ingest}", "/jobs/ingest/{ingest}/failedResults", "/jobs/query/{query}",
    "/jobs/query/{query}/results?maxRecords=x&locator=y",
    "/jobs/query/{query}/results?maxRecords=-1", "//services/async/59.0/job/{async}", "/tooling/sobjects/{record}/x",
    "//services/async/59.0/job/{async}/batch", "//services/async/59.0/job/{async}/batch/x/result/y",
    "/queryAll", "/search", "/tooling/query", "/sobjects/Account/describe/layouts", "/event/eventSchema/x",
    "//services/async/59.0/job/750000000000001/batch", "//services/Soap/u/59.0", "//services/oauth2/token",
    "//services/oauth2/authorize", "//id/00D/005", "/limits", "/sobjects/Account/updated?start=x&end=y",
    "/sobjects/Account/deleted?start=2024-01-01T00:00:00Z&end=2023-01-01T00:00:00Z", "/query/0r8000000000001AAA-x",
    "/sobjects/%00/..%2f", "/sobjects/Account/" + "1" * 3000, "//services/data/v99999999999.0/limits", "//%ff/%e2",
    "/sobjects/Account/001000000000001AAA?fields=" + "Id," * 900,
)  # fmt: skip
QUERIES = (
    "SELECT Id , Name , ( SELECT Id FROM Contacts WHERE LastName LIKE 'a%' ORDER BY Id LIMIT 2 ) FROM Account",
    "SELECT Rating , COUNT(Id) n , MAX(CreatedDate) FROM Account GROUP BY Rating HAVING COUNT(Id) > 1",
    "SELECT Site FROM Account GROUP BY Site ORDER BY COUNT(Id) DESC NULLS LAST LIMIT 3 OFFSET 1",
    "SELECT Id FROM Contact WHERE AccountId IN ( SELECT Id FROM Account WHERE CreatedDate = TODAY ) AND Name != null",
    "SELECT toLabel(Rating) r , Owner.Name FROM Account a WHERE NOT ( Rating = 'Hot' OR a.AnnualRevenue >= 1e3 )",
    "SELECT FIELDS(ALL) FROM Account USING SCOPE mine WITH USER_MODE LIMIT 200 OFFSET 3 FOR VIEW",
    "SELECT CALENDAR_YEAR(CreatedDate) , FORMAT(SUM(AnnualRevenue)) FROM Account GROUP BY CALENDAR_YEAR(CreatedDate)",
    "SELECT TYPEOF What WHEN Account THEN Phone ELSE Name END FROM Task WHERE ActivityDate = LAST_N_DAYS:3 ALL ROWS",
    "SELECT Id FROM Account WHERE Regions__c INCLUDES ( 'North;East' ) AND Next_Review__c < 9999-12-31T23:59:59Z",
    "SELECT QualifiedApiName FROM FieldDefinition WHERE EntityDefinition.QualifiedApiName = 'Account' LIMIT 1",
    "FIND {acme OR pain*} IN NAME FIELDS RETURNING Account ( Id , Name WHERE Rating = 'Hot' LIMIT 2 ) , Contact",
)  # fmt: skip
LARGE_QUERIES = (
    f"SELECT Id FROM Account WHERE {'NOT (' * 15_000}Id = null{')' * 15_000}",
    f"SELECT Id FROM Account WHERE NumberOfEmployees IN ({','.join(['1'] * 45_000)})",
    f"SELECT Id FROM Account WHERE {' OR '.join(['Id=null'] * 9_000)}",
    f"SELECT Id FROM Account WHERE Name LIKE '{'%a_' * 30_000}'",
    f"SELECT {', '.join(['COUNT(Id)'] * 3_000)} FROM Account",
    f"SELECT Id FROM Account WHERE {'Parent.' * 9_000}Name = 'x'",
    f"SELECT Id FROM Account ORDER BY {', '.join(['Name'] * 9_000)}",
    f"SELECT {'(SELECT Id, ' * 5_000}Id",
    "SELECT Id FROM Account WHERE Name = '" + "\\'" * 40_000,
    "SELECT Id FROM Account LIMIT " + "9" * 9_000,
    "SELECT Id FROM Account WHERE CreatedDate = LAST_N_YEARS:99999",
)
QUERIED = ("/query", "/queryAll", "/search", "/tooling/query")
METHODS = ("POST", "POST", "PATCH", "GET", "PUT", "DELETE")
HEADERS = (
    ("Sforce-Query-Options", "batchSize=x"), ("Sforce-Query-Options", "batchSize=" + "9" * 400),
    ("Sforce-Call-Options", "client=" + "x" * 5000), ("Authorization", "Bearer "), ("Authorization", "OAuth \xff"),
    ("Content-Encoding", "gzip"), ("Accept", "x/y"), ("Accept-Encoding", "br"), ("Sforce-Duplicate-Rule-Header", "a=b"),
    ("Content-Type", "application/json; charset=x"), ("Content-Type", "multipart/form-data"), ("X-SFDC-Session", "y"),
    ("If-Modified-Since", "never"), ("Cookie", "sid=\x7f; ;=;"), ("SOAPAction", '"'), ("Sforce-Auto-Assign", "{}"),
)  # fmt: skip
LAUGHS = (
    b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a0 "ha">'
    + b"".join(b'<!ENTITY a%d "%s">' % (n, b"&a%d;" % (n - 1) * 10) for n in range(1, 12))
    + b"]><a>&a11;</a>"
)
"""The "billion laughs": an XML text of a few hundred bytes that stands for gigabytes."""


@dataclass(frozen=True)
class RestRequest:
    method: str
    path: str
    content: bytes
    headers: dict[str, str]
    asked: dict[str, str] = field(default_factory=dict)


def rest_request(dice: random.Random, ids: Mapping[str, str]) -> RestRequest:
    """One request; paths are relative to the data path unless they begin with two slashes. `ids`: what there really
    is, by the names in the paths."""
    if dice.random() < 0.01:
        large = json.dumps({"operation": "query", "query": dice.choice(LARGE_QUERIES)})
        return RestRequest("POST", "/jobs/query", large.encode(), {"Content-Type": "application/json"})
    path = dice.choice((*GOOD, *OTHER_PATHS))
    for name, found in ids.items():
        path = path.replace(f"{{{name}}}", found)
    usual = "POST" if path in GOOD else "PUT" if path.endswith("/batches") else "GET"
    method = usual if dice.random() < 0.6 else dice.choice(METHODS)
    content, kind = _body(dice, path)
    headers = {"Content-Type": kind}
    if dice.random() < 0.1:
        name, given = dice.choice(HEADERS)
        headers[name] = given
    asked = {"q": _query(dice)} if path in QUERIED else {}
    return RestRequest("GET" if asked else method, path, content, headers, asked)


def _query(dice: random.Random) -> str:
    tokens = dice.choice(QUERIES).split()
    for _ in range(dice.randrange(1, 3)):
        place = dice.randrange(len(tokens))
        another = dice.choice(dice.choice(QUERIES).split())
        tokens[place : place + dice.randrange(2)] = [[another], [], [another, another]][dice.randrange(3)]
        tokens = tokens or ["x"]
    return " ".join(tokens)


def _body(dice: random.Random, path: str) -> tuple[bytes, str]:
    kind = dice.randrange(10)
    good = GOOD.get(path, {})
    if "PushTopic" in path or "jobs/query" in path:
        good = {name: _query(dice) if name.lower() == "query" else each for name, each in good.items()}
    if kind < 7:
        return json_bytes(dice, changed(dice, WORDS, good)), "application/json"
    if kind == 7:
        return dice.randbytes(dice.randrange(200)), "application/json"
    if kind == 8:
        return "\n".join(",".join(dice.choices(PLAIN_WORDS, k=3)) for _ in range(4)).encode(), "text/csv"
    if dice.random() < 0.05:
        return LAUGHS, "text/xml"
    names = [dice.choice(("login", "jobInfo", "operation", "e:Body", "merge")) for _ in range(3)]
    text = "".join(f"<{name}>" for name in names) * dice.choice((1, 1, 1, 3_000)) + dice.choice(PLAIN_WORDS)
    closed = "".join(f"</{name}>" for name in reversed(names)) if dice.random() < 0.7 else ""
    return (text + closed).encode(), "text/xml"
