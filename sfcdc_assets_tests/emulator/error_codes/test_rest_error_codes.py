"""Every errorCode of REST that clients distinguish is one that the emulated org sends, with the vendor's status.

Codes: https://developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/errorcodes.htm, those of Bulk API 2.0
https://developer.salesforce.com/docs/atlas.en-us.api_asynch.meta/api_asynch/asynch_api_reference_errors.htm, and those
that this package's own client decides by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import requests

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import REFUSALS, RestFault
from sfcdc_assets.emulator.org.settings import DAY, OrgSettings
from sfcdc_assets_tests.emulator.wire import Wire, wire

VENDORS = {
    "API_DISABLED_FOR_ORG": 403,
    "API_ERROR": 400,
    "DUPLICATE_VALUE": 400,
    "ENTITY_IS_DELETED": 404,
    "EXCEEDED_ID_LIMIT": 400,
    "FeatureNotEnabled": 400,
    "INSUFFICIENT_ACCESS": 403,
    "INVALIDENTITY": 400,
    "INVALIDJOBSTATE": 400,
    "INVALID_FIELD": 400,
    "INVALID_OPERATION": 400,
    "INVALID_QUERY_LOCATOR": 400,
    "INVALID_REPLICATION_DATE": 400,
    "INVALID_SESSION_ID": 401,
    "INVALID_TYPE": 400,
    "JSON_PARSER_ERROR": 400,
    "LIMIT_EXCEEDED": 403,
    "MALFORMED_ID": 400,
    "MALFORMED_QUERY": 400,
    "METHOD_NOT_ALLOWED": 405,
    "NOT_FOUND": 404,
    "OPERATION_TOO_LARGE": 400,
    "PLATFORM_EVENT_PUBLISHING_UNAVAILABLE": 503,
    "PROCESSING_HALTED": 400,
    "QUERY_TIMEOUT": 400,
    "REQUEST_LIMIT_EXCEEDED": 403,
    "REQUIRED_FIELD_MISSING": 400,
    "SERVER_UNAVAILABLE": 503,
    "STRING_TOO_LONG": 400,
    "UNKNOWN_EXCEPTION": 500,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "VERSION_MISMATCH": 409,
}
"""errorCode -> status."""
LEFT_OUT = {
    "INVALIDENTITY": "Bulk API 2.0 says it of objects that it does not serve, and here it serves all that SOQL does",
    "INVALID_OPERATION": "a code of SOAP and of Apex that no resource of this org has a use for",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with wire(tmp_path_factory.mktemp("org"), records=250) as opened:
        yield opened


@pytest.fixture
def org(served: Wire) -> Iterator[Wire]:
    yield served
    served.reset()


def armed(fault: RestFault) -> Callable[[Wire], requests.Response]:
    def bring_about(org: Wire) -> requests.Response:
        org.server.rest_faults.arm(fault)
        return org.rest("GET", "/limits")

    return bring_about


def by_token(org: Wire) -> requests.Response:
    org.token = "x"
    return org.rest("GET", "/limits")


def by_allowance(org: Wire) -> requests.Response:
    org.org.settings = OrgSettings(daily_api_requests=0)
    return org.rest("GET", "/limits")


def by_permission(org: Wire) -> requests.Response:
    org.org.unreadable_objects.add("Contact")
    return org.rest("POST", "/composite/sobjects/Contact", json={"ids": [], "fields": ["Id"]})


def by_deleted_record(org: Wire) -> requests.Response:
    record = org.create()
    with org.org.transaction() as work:
        work.delete("Account", record)
    return org.rest("GET", f"/sobjects/Account/{record}")


def by_old_locator(org: Wire) -> requests.Response:
    headers = {"Sforce-Query-Options": "batchSize=200"}
    first = org.rest("GET", "/query", params={"q": "SELECT Id FROM Account"}, headers=headers).json()
    org.clock.advance(3 * DAY)
    org.log_in()
    return org.rest("GET", first["nextRecordsUrl"])


def by_outage_of_publishing(org: Wire) -> requests.Response:
    org.faults.arm(Fault.PUBLISH_FAILED)
    return org.rest("POST", "/sobjects/Order_Event__e", json={})


def by_hourly_limit(org: Wire) -> requests.Response:
    org.org.settings = OrgSettings(hourly_published_events=0)
    return org.rest("POST", "/sobjects/Order_Event__e", json={})


def bulk_job(org: Wire) -> str:
    body = {"operation": "query", "query": "SELECT Id FROM Account"}
    return str(org.rest("POST", "/jobs/query", json=body).json()["id"])


def by_another_version(org: Wire) -> requests.Response:
    job = bulk_job(org)
    return org.rest("GET", f"/jobs/query/{job}/results", version="59.0")


def by_first_bulk_api(org: Wire) -> requests.Response:
    org.org.settings = OrgSettings(has_bulk_v1=False)
    headers = {"X-SFDC-Session": org.token}
    return org.rest("POST", "/services/async/60.0/job", json={}, headers=headers)


def by_a_halted_graph(org: Wire) -> requests.Response:
    """The subrequest beside the one that failed, as a response of its own would be."""
    url = "/services/data/v60.0/sobjects/Account"
    subrequests = [
        {"method": "POST", "url": url, "referenceId": name, "body": body}
        for name, body in (("a", {"Name": "a"}), ("b", {"Nonsense": 1}))
    ]
    answer = org.rest("POST", "/composite", json={"allOrNone": True, "compositeRequest": subrequests})
    halted = answer.json()["compositeResponse"][0]
    alone = requests.Response()
    alone.status_code = halted["httpStatusCode"]
    alone.json = lambda: halted["body"]  # type: ignore[method-assign]
    return alone


def creating(values: object) -> Callable[[Wire], requests.Response]:
    return lambda org: org.rest("POST", "/sobjects/Account", json=values)


def by_channel_that_is_there(org: Wire) -> requests.Response:
    body = {"Name": "/u/Twice"}
    org.rest("POST", "/sobjects/StreamingChannel", json=body)
    return org.rest("POST", "/sobjects/StreamingChannel", json=body)


def updated(start: str, end: str) -> Callable[[Wire], requests.Response]:
    return lambda org: org.rest("GET", "/sobjects/Account/updated", params={"start": start, "end": end})


BROUGHT_ABOUT: dict[str, Callable[[Wire], requests.Response]] = {
    "API_ERROR": lambda org: org.rest("POST", "/jobs/query", json={"operation": "nonsense"}),
    "DUPLICATE_VALUE": by_channel_that_is_there,
    "ENTITY_IS_DELETED": by_deleted_record,
    "FeatureNotEnabled": by_first_bulk_api,
    "INSUFFICIENT_ACCESS": by_permission,
    "INVALIDJOBSTATE": lambda org: org.rest("GET", f"/jobs/query/{bulk_job(org)}/results"),
    "INVALID_FIELD": lambda org: org.query("SELECT Nonsense FROM Account"),
    "INVALID_QUERY_LOCATOR": by_old_locator,
    "INVALID_REPLICATION_DATE": updated("yesterday", "today"),
    "INVALID_SESSION_ID": by_token,
    "INVALID_TYPE": lambda org: org.query("SELECT Id FROM Nonsense"),
    "JSON_PARSER_ERROR": lambda org: org.rest(
        "POST", "/sobjects/Account", data="{", headers={"Content-Type": "application/json"}
    ),
    "LIMIT_EXCEEDED": by_hourly_limit,
    "MALFORMED_ID": creating({"Name": "a", "OwnerId": "nonsense"}),
    "MALFORMED_QUERY": lambda org: org.query("SELECT FROM"),
    "METHOD_NOT_ALLOWED": lambda org: org.rest("DELETE", "/limits"),
    "NOT_FOUND": lambda org: org.rest("GET", "/sobjects/Nonsense"),
    "PLATFORM_EVENT_PUBLISHING_UNAVAILABLE": by_outage_of_publishing,
    "PROCESSING_HALTED": by_a_halted_graph,
    "REQUEST_LIMIT_EXCEEDED": by_allowance,
    "REQUIRED_FIELD_MISSING": creating({}),
    "SERVER_UNAVAILABLE": armed(RestFault.UNAVAILABLE),
    "STRING_TOO_LONG": creating({"Name": "x" * 300}),
    "UNKNOWN_EXCEPTION": armed(RestFault.SERVER_ERROR),
    "UNSUPPORTED_MEDIA_TYPE": lambda org: org.rest(
        "POST", "/sobjects/Account", data="x", headers={"Content-Type": "application/octet-stream"}
    ),
    "VERSION_MISMATCH": by_another_version,
}


@pytest.mark.parametrize("code", BROUGHT_ABOUT)
def test_a_request_or_a_condition_brings_the_code_about(org: Wire, code: str) -> None:
    answer = BROUGHT_ABOUT[code](org)
    found = answer.json()
    first = found[0] if isinstance(found, list) else found
    assert (first.get("errorCode") or first.get("exceptionCode"), answer.status_code) == (code, VENDORS[code])


@pytest.mark.parametrize("code", REFUSALS)
def test_a_fault_brings_the_code_about(org: Wire, code: str) -> None:
    org.server.rest_faults.arm(RestFault.REFUSED, code=code, path="/query")
    answer = org.query("SELECT Id FROM Account")
    assert (answer.json()[0]["errorCode"], answer.status_code) == (code, VENDORS[code])
    assert org.query("SELECT Id FROM Account").status_code == 200


def test_every_code_is_sent_or_left_out_with_a_reason() -> None:
    assert set(VENDORS) == {*BROUGHT_ABOUT, *REFUSALS, *LEFT_OUT}
