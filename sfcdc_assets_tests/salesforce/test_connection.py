"""A session whose connection is refused, cut, silent, redirected or not to be trusted."""

from __future__ import annotations

import pytest

from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.salesforce.errors import (
    CertificateNotTrusted,
    OrgUnavailable,
    OrgUnreachable,
    UnexpectedAnswer,
)
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets_tests.salesforce.scripted_org import OK, Answer, ScriptedOrg


def test_a_silent_org_is_left_after_the_time_limit(org, settings, slept, caplog):
    org.on("GET", "thing", Answer(silent=True))
    with (
        OrgSession(settings(), sleep=slept.append, timeout_s=(2.0, 0.3)) as session,
        pytest.raises(OrgUnavailable, match="no answer within the time limit") as caught,
    ):
        session.request("GET", "thing", tries=3)
    assert caught.value.timed_out
    assert len(slept) == 2
    assert [message.partition("/thing ")[2] for message in caplog.messages] == [
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
