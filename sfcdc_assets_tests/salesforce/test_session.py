"""The session against a server that expires tokens, limits, breaks, hangs and talks nonsense."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest

from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.clock import using
from sfcdc_assets.runtime.errors import SettingsError, SfcdcError
from sfcdc_assets.salesforce.errors import (
    ApiLimitReached,
    CertificateNotTrusted,
    LoginRefused,
    OrganizationReplaced,
    OrgUnavailable,
    OrgUnreachable,
    RequestRefused,
    SessionExpired,
    UnexpectedAnswer,
)
from sfcdc_assets.salesforce.paused_logins import FIRST_SECONDS, LONGEST_SECONDS
from sfcdc_assets.salesforce.session import RENEWED_EVERY_SECONDS, OrgSession
from sfcdc_assets.salesforce.simple_salesforce_client import simple_salesforce_client
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.salesforce.scripted_org import EXPIRED, ORGANIZATION_ID, Answer, ScriptedOrg, refusal
from sfcdc_assets_tests.simulated_clock import SimulatedClock

OK = Answer(200, {"fine": True})


def test_nothing_is_sent_before_the_first_use(org, session):
    assert org.seen == []


def test_a_request_carries_the_token_and_the_negotiated_version(org, session):
    org.on("GET", "thing", OK)
    assert session.request("GET", "thing") == {"fine": True}
    assert org.requests("GET", "thing")[0].token == session.token()
    assert session.version == "64.0"
    assert session.instance_url == org.url


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


def test_a_silent_org_is_left_after_the_time_limit(org, settings, slept, caplog):
    org.on("GET", "thing", Answer(silent=True))
    with (
        OrgSession(settings(), sleep=slept.append, timeout_s=(2.0, 0.3)) as session,
        pytest.raises(OrgUnavailable, match="no answer within the time limit") as caught,
    ):
        session.request("GET", "thing", tries=3)
    assert caught.value.timed_out
    assert len(slept) == 2
    assert [told.partition("/thing ")[2] for told in caplog.messages] == [
        f"(no answer within the time limit); try {number} follows." for number in (2, 3)
    ]


def test_an_answer_that_breaks_in_the_middle_is_asked_for_again(org, session):
    org.on("GET", "thing", Answer(200, b'{"fi', cut=True), OK)
    assert session.request("GET", "thing") == {"fine": True}


def test_a_stream_that_breaks_in_the_middle_starts_again(org, session):
    org.on("GET", "big", Answer(200, b"half", cut=True), Answer(200, b"the whole"))
    received: list[bytes] = []

    def receive(response) -> None:
        received.clear()
        received.extend(response.iter_content(4))

    session.stream("big", receive)
    assert b"".join(received) == b"the whole"


def test_a_write_is_not_sent_twice_when_its_answer_is_lost(org, session, slept):
    org.on("POST", "sobjects/Account/", Answer(201, b"{", cut=True))
    with pytest.raises(OrgUnavailable, match="after 1 try "):
        session.request("POST", "sobjects/Account/", json={"Name": "Acme"})
    assert (len(org.requests("POST", "sobjects/Account/")), slept) == (1, [])


def test_a_redirect_to_another_host_is_not_followed(org, session, tmp_path):
    other = ScriptedOrg(tmp_path)
    try:
        org.on("GET", "thing", Answer(302, b"", {"Location": f"{other.url}/thing"}))
        with pytest.raises(UnexpectedAnswer, match="sends on to another host"):
            session.request("GET", "thing")
        assert other.seen == []
    finally:
        other.stop()


def test_a_redirect_within_the_host_is_followed_with_the_token(org, session):
    org.on("GET", "old", Answer(302, b"", {"Location": "/new"}))
    org.on("GET", "/new", OK)
    assert session.request("GET", "old") == {"fine": True}
    assert org.requests("GET", "/new")[0].token == session.token()


def test_a_netrc_file_does_not_replace_the_token(org, session, tmp_path, monkeypatch):
    (tmp_path / ".netrc").write_text("machine localhost login someone password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    org.on("GET", "thing", OK)
    session.request("GET", "thing")
    assert org.requests("GET", "thing")[0].token == session.token()


def test_calls_counts_every_try_that_the_org_counts(org, session):
    org.on("GET", "thing", refusal(503, "SERVER_UNAVAILABLE"), OK)
    session.request("GET", "thing")
    assert session.calls == 2  # neither the login nor the list of versions


def test_a_certificate_nobody_vouches_for_names_the_setting(settings):
    with (
        OrgSession(settings(ca_file=None)) as session,
        pytest.raises(CertificateNotTrusted, match=r"SFCDC_CA_FILE.*SFCDC_LOGIN_URL"),
    ):
        session.token()


def test_a_certificate_of_another_host_is_not_trusted(org, settings):
    with (
        OrgSession(settings(login_url=f"https://127.0.0.1:{org.port}")) as session,
        pytest.raises(CertificateNotTrusted, match=r"127\.0\.0\.1"),
    ):
        session.token()


def test_a_ca_file_without_a_certificate_is_a_wrong_setting(settings, tmp_path):
    (tmp_path / "empty.pem").write_text("nothing")
    with pytest.raises(SettingsError, match=r"SFCDC_CA_FILE.*no certificate in PEM form"):
        OrgSession(settings(ca_file=tmp_path / "empty.pem"))


def test_a_refused_connection_names_the_setting_after_two_tries(org, settings, slept):
    org.stop()
    with (
        OrgSession(settings(), sleep=slept.append) as session,
        pytest.raises(OrgUnreachable, match=r"the connection was refused.*SFCDC_LOGIN_URL"),
    ):
        session.token()
    assert len(slept) == 1


def test_a_host_that_does_not_exist_names_the_setting(settings, slept):
    fields = {"client_id": None, "access_token": "handed-over", "instance_url": "https://acme.invalid"}
    with (
        OrgSession(settings(**fields), sleep=slept.append) as session,
        pytest.raises(OrgUnreachable, match=r"https://acme\.invalid cannot be reached.*SFCDC_INSTANCE_URL"),
    ):
        session.request("GET", "thing")


def test_an_org_that_vanishes_in_the_middle_is_an_outage_not_a_wrong_setting(org, session, slept):
    org.on("GET", "thing", OK)
    session.request("GET", "thing")
    org.stop()
    session.close()
    with pytest.raises(OrgUnavailable, match="the connection was refused"):
        session.request("GET", "thing")


@pytest.mark.parametrize(
    ("offered", "spoken"), [(["59.0", "60.0"], "60.0"), (["64.0", "71.0"], "64.0"), (["20.0", "62.0", "65.0"], "62.0")]
)
def test_the_newest_tested_version_is_spoken(org, session, offered, spoken):
    org.on("GET", "/services/data", Answer(200, [{"version": version} for version in offered]))
    assert session.version == spoken


@pytest.mark.parametrize("offered", [[], [{"version": "58.0"}], [{"version": "latest"}, 7], {"not": "a list"}])
def test_an_org_without_a_usable_version_is_reported(org, session, offered):
    org.on("GET", "/services/data", Answer(200, offered))
    with pytest.raises(UnexpectedAnswer, match=r"no REST version from 59\.0 to 64\.0"):
        _ = session.version


def test_an_organization_id_of_another_org_is_a_wrong_setting(settings):
    with (
        OrgSession(settings(org_id="00D000000000000EAA")) as session,
        pytest.raises(SettingsError, match=f"SFCDC_ORG_ID.*{ORGANIZATION_ID}"),
    ):
        session.token()


def test_an_organization_id_is_completed(settings):
    assert OrgSession(settings(org_id=ORGANIZATION_ID[:15])).organization_id == ORGANIZATION_ID


def test_simple_salesforce_lives_on_the_session_and_its_renewals(org, session):
    page = {"totalSize": 1, "done": True, "records": [{"Id": "001"}]}
    org.on("GET", "query/", EXPIRED, refusal(503, "SERVER_UNAVAILABLE"), Answer(200, page))
    client = simple_salesforce_client(session)
    assert [row["Id"] for row in client.query_all_iter("SELECT Id FROM Account")] == ["001"]
    assert len(org.requests("POST", "/services/oauth2/token")) == 2


def test_simple_salesforce_that_is_refused_for_good_does_not_recurse(org, session):
    org.on("GET", "sobjects/Account/describe", EXPIRED)
    client = simple_salesforce_client(session)
    with pytest.raises(SessionExpired):
        client.Account.describe()
    assert len(org.requests("GET", "sobjects/Account/describe")) == 2


def test_no_secret_is_in_any_text(org, settings, slept):
    """Every way to fail, with a server that echoes all it was sent."""
    secrets = ["the-client-secret", "handed-over-token", ORGANIZATION_ID[:15] + "!token-1"]
    texts: list[str] = []

    def tried(answer: Answer, **fields: object) -> None:
        org.on("GET", "thing", answer)
        with OrgSession(settings(**fields), sleep=slept.append, timeout_s=(2.0, 2.0)) as session:
            try:
                session.request("GET", "thing", tries=1)
            except SfcdcError as error:
                texts.extend((str(error), repr(error), repr(error.__cause__), repr(vars(error))))
            texts.extend((repr(session), repr(session._login), repr(session._grant)))

    handed_over = {"client_id": None, "access_token": "handed-over-token", "instance_url": org.url}
    for answer in (
        EXPIRED,
        Answer(503, b"handed-over-token"),
        Answer(200, b"<html>handed-over-token"),
        Answer(302, b"", {"Location": "https://elsewhere.invalid/?handed-over-token"}),
        Answer(200, b"x", cut=True),
    ):
        tried(answer, **handed_over)
        tried(answer)
    echo = Answer(400, {"error": "invalid_client", "error_description": "no such secret the-client-secret"})
    org.on("POST", "/services/oauth2/token", echo)
    with pytest.raises(LoginRefused) as caught:
        OrgSession(settings()).token()
    texts.extend((str(caught.value), repr(caught.value), repr(vars(caught.value))))
    assert len(texts) > 40
    assert not [text for text in texts for secret in secrets if secret in text]
