"""The session's tokens, and the org that they are of: handed over, expired, refused, of another org."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest

from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.clock import using
from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.salesforce.errors import (
    OrganizationReplaced,
    OrgUnavailable,
    SessionExpired,
    UnexpectedAnswer,
)
from sfcdc_assets.salesforce.paused_logins import FIRST_SECONDS, LONGEST_SECONDS
from sfcdc_assets.salesforce.session import RENEWED_EVERY_SECONDS, OrgSession
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.salesforce.scripted_org import EXPIRED, OK, ORGANIZATION_ID, Answer, refusal
from sfcdc_assets_tests.simulated_clock import SimulatedClock


def test_the_organization_id_comes_from_the_login_without_another_request(org, session):
    assert session.organization_id == ORGANIZATION_ID
    assert len(org.seen) == 1


def test_userinfo_tells_the_organization_of_a_token_that_was_handed_over(org, settings):
    org.on("GET", "/services/oauth2/userinfo", Answer(200, {"organization_id": ORGANIZATION_ID[:15]}))
    with OrgSession(settings(client_id=None, access_token="handed-over", instance_url=org.url)) as session:
        assert session.organization_id == ORGANIZATION_ID


ANOTHER = "00DAb0000000002MAA"


def test_a_session_that_began_without_a_login_goes_on_with_the_org_that_it_was_taken_for(org, session):
    session.take_for_granted(ORGANIZATION_ID)
    assert session.organization_id == ORGANIZATION_ID
    assert org.seen == []
    org.on("GET", "thing", OK)
    assert session.request("GET", "thing") == {"fine": True}


def test_a_login_to_another_org_than_a_session_was_taken_for_is_refused_each_time(org, session):
    session.take_for_granted(ANOTHER)
    for _ in range(2):
        with pytest.raises(OrganizationReplaced, match=ORGANIZATION_ID):
            session.request("GET", "thing")
    assert org.requests("GET", "thing") == []


def test_a_token_that_was_handed_over_is_sent_only_after_its_org_was_asked_for(org, settings):
    org.on("GET", "/services/oauth2/userinfo", *[Answer(200, {"organization_id": ORGANIZATION_ID[:15]})] * 3)
    with OrgSession(settings(client_id=None, access_token="handed-over", instance_url=org.url)) as session:
        session.take_for_granted(ANOTHER)
        for _ in range(2):
            with pytest.raises(OrganizationReplaced, match=ORGANIZATION_ID):
                session.request("GET", "thing")
        assert org.requests("GET", "thing") == []
        session.take_for_granted(ORGANIZATION_ID)
        org.on("GET", "thing", OK)
        assert session.request("GET", "thing") == {"fine": True}


def test_an_expired_token_is_renewed_once_and_the_request_goes_on(org, session, slept):
    org.on("GET", "thing", EXPIRED, OK)
    first = session.token()
    assert session.request("GET", "thing") == {"fine": True}
    tokens = [seen.token for seen in org.requests("GET", "thing")]
    assert tokens == [first, session.token()]
    assert tokens[0] != tokens[1]
    assert slept == []


def test_a_fresh_token_that_is_refused_too_ends_the_matter(org, session):
    org.on("GET", "thing", EXPIRED)
    with pytest.raises(SessionExpired, match="even a fresh access token"):
        session.request("GET", "thing")
    assert len(org.requests("GET", "thing")) == 2


def test_a_resource_that_refuses_every_token_costs_a_login_a_minute_and_the_others_are_asked_as_ever(org, session):
    with clock.using(SimulatedClock(0)):
        org.on("GET", "refusing", EXPIRED)
        org.on("GET", "thing", OK)
        for _ in range(5):
            with pytest.raises(SessionExpired, match="even a fresh access token"):
                session.request("GET", "refusing")
            assert session.request("GET", "thing") == {"fine": True}
        assert len(org.requests("POST", "/services/oauth2/token")) == 2
        clock.sleep(RENEWED_EVERY_SECONDS)
        with pytest.raises(SessionExpired):
            session.request("GET", "refusing")
        assert len(org.requests("POST", "/services/oauth2/token")) == 3


def test_a_token_that_was_handed_over_cannot_be_renewed(org, settings):
    org.on("GET", "thing", EXPIRED)
    with (
        OrgSession(settings(client_id=None, access_token="handed-over", instance_url=org.url)) as session,
        pytest.raises(SessionExpired, match="SFCDC_ACCESS_TOKEN"),
    ):
        session.request("GET", "thing")
    assert len(org.requests("GET", "thing")) == 1


def test_threads_that_meet_one_expired_token_ask_for_one_fresh_token(org, session):
    org.refused_tokens.add(session.token())
    org.on("GET", "thing", OK)
    everyone = threading.Barrier(4)
    answers: list[object] = []

    def ask() -> None:
        everyone.wait(BOUND_SECONDS)
        answers.append(session.request("GET", "thing"))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND_SECONDS)
    assert answers == [{"fine": True}] * 4
    assert len(org.requests("POST", "/services/oauth2/token")) == 2


@pytest.mark.parametrize("answer", [refusal(503, "SERVER_UNAVAILABLE"), Answer(200, b"<html>")])
def test_a_login_host_that_gives_no_answer_is_asked_after_pauses_that_double(org, session, answer):
    now = SimulatedClock(0)
    org.on("POST", "/services/oauth2/token", answer)
    with using(now):
        asked_at = []
        for _ in range(3_600):
            with pytest.raises((OrgUnavailable, UnexpectedAnswer)):
                session.request("GET", "thing")
            before = len(org.requests("POST", "/services/oauth2/token"))
            if not asked_at or before > asked_at[-1][0]:
                asked_at.append((before, now.monotonic()))
            now.advance(1_000)
    assert len(asked_at) < 14
    pauses = [later - earlier for (_, earlier), (_, later) in pairwise(asked_at)]
    assert pauses == sorted(pauses)
    assert pauses[0] == FIRST_SECONDS
    assert pauses[-1] == LONGEST_SECONDS


def test_an_organization_id_of_another_org_is_a_wrong_setting(settings):
    with (
        OrgSession(settings(org_id="00D000000000000EAA")) as session,
        pytest.raises(SettingsError, match=f"SFCDC_ORG_ID.*{ORGANIZATION_ID}"),
    ):
        session.token()


def test_an_organization_id_is_completed(settings):
    assert OrgSession(settings(org_id=ORGANIZATION_ID[:15])).organization_id == ORGANIZATION_ID
