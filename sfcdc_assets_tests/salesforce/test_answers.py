"""What a session makes of an org's answers: refusals, limits, outages and what is no JSON."""

from __future__ import annotations

import pytest

from sfcdc_assets.salesforce.errors import (
    ApiLimitReached,
    OrgUnavailable,
    RequestRefused,
    UnexpectedAnswer,
)
from sfcdc_assets_tests.salesforce.scripted_org import OK, Answer, refusal


def test_503_is_tried_again_after_the_time_the_org_asks_for(org, session, slept):
    org.on("GET", "thing", refusal(503, "SERVER_UNAVAILABLE", Retry_After="40"), OK)
    assert session.request("GET", "thing") == {"fine": True}
    assert slept == [40.0]


def test_retry_after_is_capped(org, session, slept):
    org.on("GET", "thing", Answer(429, [], {"Retry-After": "86400"}), OK)
    session.request("GET", "thing")
    assert slept == [60.0]


def test_retry_after_may_be_a_date_or_nonsense(org, session, slept):
    dates = [{"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, {"Retry-After": "soon"}]
    org.on("GET", "thing", *(Answer(503, [], headers) for headers in dates), OK)
    assert session.request("GET", "thing") == {"fine": True}
    assert all(0 <= seconds <= 30 for seconds in slept)


def test_an_org_that_stays_unavailable_is_given_up_after_bounded_tries(org, session, slept):
    org.on("GET", "thing", refusal(503, "SERVER_UNAVAILABLE"))
    with pytest.raises(OrgUnavailable, match="after 6 tries"):
        session.request("GET", "thing")
    assert len(org.requests("GET", "thing")) == 6
    assert len(slept) == 5
    assert all(seconds <= 30 for seconds in slept)


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (403, "REQUEST_LIMIT_EXCEEDED", "TotalRequests Limit exceeded."),
        (400, "LIMIT_EXCEEDED", "Max bulk v2 query jobs (10000) per 24 hrs has been reached (10021)"),
    ],
)
def test_a_used_up_allowance_is_reported_and_not_tried_again(org, session, slept, status, code, message):
    org.on("GET", "thing", refusal(status, code, message))
    with pytest.raises(ApiLimitReached, match=message[:20]):
        session.request("GET", "thing")
    assert (len(org.requests("GET", "thing")), slept) == (1, [])


def test_another_limit_than_that_of_a_day_is_a_refusal(org, session):
    org.on("POST", "thing", refusal(400, "LIMIT_EXCEEDED", "an org has at most 100 channels"))
    with pytest.raises(RequestRefused, match="at most 100 channels"):
        session.request("POST", "thing", json={})


def test_another_403_is_a_refusal_with_the_orgs_own_words(org, session):
    org.on("GET", "thing", refusal(403, "API_DISABLED_FOR_ORG", "API is not enabled for this Organization"))
    with pytest.raises(RequestRefused, match="API_DISABLED_FOR_ORG") as caught:
        session.request("GET", "thing")
    assert (caught.value.status, caught.value.error_code) == (403, "API_DISABLED_FOR_ORG")


@pytest.mark.parametrize("body", [b"<html>Down for maintenance</html>", b"{", b"\xff\xfe"])
def test_an_answer_that_is_not_json_is_reported_without_quoting_it(org, session, body):
    org.on("GET", "thing", Answer(200, body, {"Content-Type": "text/html"}))
    with pytest.raises(UnexpectedAnswer, match="instead of JSON") as caught:
        session.request("GET", "thing")
    assert "maintenance" not in str(caught.value)


@pytest.mark.parametrize("body", [b"<html>no</html>", b"[]", b'"text"', b"[1]", b""])
def test_a_refusal_that_is_not_the_orgs_json_is_still_a_refusal(org, session, body):
    org.on("GET", "thing", Answer(418, body))
    with pytest.raises(RequestRefused, match="HTTP_418"):
        session.request("GET", "thing")


@pytest.mark.parametrize("body", [b"<html>no</html>", b"{}", b""])
def test_a_401_without_the_orgs_json_is_an_expired_token_too(org, session, body):
    org.on("GET", "thing", Answer(401, body), OK)
    assert session.request("GET", "thing") == {"fine": True}


@pytest.mark.parametrize("kind", ["application/json", "application/json;charset=UTF-8"])
def test_what_is_no_utf_8_in_an_answer_is_shown_as_such_and_not_taken_for_another_encoding(org, session, kind):
    body = '{"name": "Zürich ' + "é" * 40 + '"}'
    org.on("GET", "thing", Answer(200, body.encode("latin-1"), {"Content-Type": kind}))
    assert session.request("GET", "thing") == {"name": "Z\ufffdrich " + "\ufffd" * 40}
    org.on("GET", "thing", Answer(200, b"\xef\xbb\xbf" + body.encode(), {"Content-Type": kind}))
    assert session.request("GET", "thing") == {"name": "Zürich " + "é" * 40}
