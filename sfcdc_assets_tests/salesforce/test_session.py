"""A session with an org: what it sends, which version it speaks, and what it never says."""

from __future__ import annotations

import pytest

from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.errors import (
    LoginRefused,
    SessionExpired,
    UnexpectedAnswer,
)
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.salesforce.simple_salesforce_client import simple_salesforce_client
from sfcdc_assets_tests.salesforce.scripted_org import EXPIRED, OK, ORGANIZATION_ID, Answer, refusal


def test_nothing_is_sent_before_the_first_use(org, session):
    assert org.seen == []


def test_a_request_carries_the_token_and_the_negotiated_version(org, session):
    org.on("GET", "thing", OK)
    assert session.request("GET", "thing") == {"fine": True}
    assert org.requests("GET", "thing")[0].token == session.token()
    assert session.version == "64.0"
    assert session.instance_url == org.url


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
