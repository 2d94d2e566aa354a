"""Each way to log in: what is sent, what comes back, and what is said when settings are missing or wrong."""

from __future__ import annotations

import json
import re
from urllib.parse import quote, quote_plus

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.salesforce.errors import InstanceNotTrusted, LoginRefused, UnexpectedAnswer
from sfcdc_assets.salesforce.login import checked_login, redacted
from sfcdc_assets.salesforce.login_choice import chosen_grant
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets_tests.salesforce.scripted_org import ORGANIZATION_ID, Answer

TOKEN = "/services/oauth2/token"
SOAP = "/services/Soap/u/64.0"
USER = {"username": "u@example.com", "password": "p<&>w", "security_token": "sectok"}
NO_APP = {"client_id": None, "client_secret": None}


@pytest.fixture(scope="module")
def private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def key_file(private_key, tmp_path):
    path = tmp_path / "key.pem"
    path.write_bytes(
        private_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return path


def test_client_credentials_are_posted_to_the_login_host(org, session):
    assert session.token().startswith(ORGANIZATION_ID[:15])
    form = org.requests("POST", TOKEN)[0].form
    assert form == {"grant_type": "client_credentials", "client_id": "an-app", "client_secret": "the-client-secret"}


def test_client_credentials_go_to_the_instance_when_no_login_host_is_set(org):
    fields = {"instance_url": org.url, "client_id": "an-app", "client_secret": "s", "ca_file": org.ca_file}
    OrgSession(Settings(_env_file=None, **fields)).token()
    assert len(org.requests("POST", TOKEN)) == 1


def test_a_jwt_is_signed_for_the_login_host_and_lives_three_minutes(org, settings, private_key, key_file):
    fields = {"client_secret": None, "username": "u@example.com", "private_key_file": key_file}
    OrgSession(settings(**fields), now_s=lambda: 1_700_000_000.7).token()
    form = org.requests("POST", TOKEN)[0].form
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    claims = jwt.decode(
        form["assertion"], private_key.public_key(), ["RS256"], audience=org.url, options={"verify_exp": False}
    )
    assert claims == {"iss": "an-app", "sub": "u@example.com", "aud": org.url, "exp": 1_700_000_180}


def test_username_and_password_with_an_app_are_the_password_grant(org, settings):
    OrgSession(settings(**USER)).token()
    form = org.requests("POST", TOKEN)[0].form
    assert (form["grant_type"], form["username"], form["password"]) == ("password", "u@example.com", "p<&>wsectok")


def test_username_and_password_without_an_app_are_the_soap_login(org, settings):
    envelope = (
        '<?xml version="1.0"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" '
        'xmlns="urn:partner.soap.sforce.com"><soapenv:Body><loginResponse><result>'
        f"<serverUrl>{org.url}/services/Soap/u/64.0/{ORGANIZATION_ID[:15]}</serverUrl><sessionId>00D!session</sessionId>"
        f"<userInfo><organizationId>{ORGANIZATION_ID}</organizationId></userInfo>"
        "</result></loginResponse></soapenv:Body></soapenv:Envelope>"
    )
    org.on("POST", SOAP, Answer(200, envelope.encode(), {"Content-Type": "text/xml"}))
    session = OrgSession(settings(**NO_APP, **USER))
    assert (session.token(), session.instance_url, session.organization_id) == ("00D!session", org.url, ORGANIZATION_ID)
    assert b"<n1:password>p&lt;&amp;&gt;wsectok</n1:password>" in org.requests("POST", SOAP)[0].body


def test_a_soap_fault_is_a_refused_login_and_not_an_outage(org, settings, slept):
    fault = (
        '<E xmlns:sf="urn:fault.partner.soap.sforce.com"><sf:exceptionCode>INVALID_LOGIN</sf:exceptionCode>'
        "<sf:exceptionMessage>Invalid username or password: p&lt;&amp;&gt;wsectok</sf:exceptionMessage></E>"
    )
    org.on("POST", SOAP, Answer(500, fault.encode()))
    with pytest.raises(LoginRefused, match=r"INVALID_LOGIN.*SFCDC_USERNAME, SFCDC_PASSWORD") as caught:
        OrgSession(settings(**NO_APP, **USER), sleep=slept.append).token()
    assert slept == []
    assert "sectok" not in str(caught.value) + repr(vars(caught.value))


@pytest.mark.parametrize(
    ("fields", "checked"),
    [
        ({}, "SFCDC_CLIENT_ID, SFCDC_CLIENT_SECRET, SFCDC_LOGIN_URL"),
        (USER, "SFCDC_USERNAME, SFCDC_PASSWORD, SFCDC_SECURITY_TOKEN"),
    ],
)
def test_a_refused_login_names_the_servers_reason_and_the_settings_to_check(org, settings, fields, checked):
    org.on("POST", TOKEN, Answer(400, {"error": "invalid_grant", "error_description": "authentication failure"}))
    with pytest.raises(LoginRefused, match=rf"invalid_grant \(authentication failure\).*{checked}"):
        OrgSession(settings(**fields)).token()
    assert len(org.requests("POST", TOKEN)) == 1


def test_a_login_at_an_outage_is_tried_again(org, settings, slept):
    good = Answer(200, {"access_token": "t", "instance_url": org.url})
    org.on("POST", TOKEN, Answer(503, b"busy"), good)
    assert OrgSession(settings(), sleep=slept.append).token() == "t"


@pytest.mark.parametrize(
    "body",
    [
        b"<html>login page</html>",
        b"[]",
        b"{}",
        b'{"access_token": "a\\nb", "instance_url": "https://x"}',
        b'{"access_token": "t", "instance_url": "http://x"}',
        b'{"access_token": "t"}',
        b'{"access_token": 7, "instance_url": "https://x"}',
    ],
)
def test_a_login_answer_that_is_no_login_is_reported(org, settings, body):
    org.on("POST", TOKEN, Answer(200, body))
    with pytest.raises(UnexpectedAnswer, match="SFCDC_LOGIN_URL"):
        OrgSession(settings()).token()


@pytest.mark.parametrize(
    "content", [b"", b"not a key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_an_unusable_private_key_names_the_setting_and_shows_nothing_of_it(settings, tmp_path, content):
    path = tmp_path / "bad.pem"
    path.write_bytes(content)
    fields = {"client_secret": None, "username": "u@example.com", "private_key_file": path}
    with pytest.raises(SettingsError, match=r"SFCDC_PRIVATE_KEY_FILE.*no usable RSA private key") as caught:
        OrgSession(settings(**fields)).token()
    assert "AAAA" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "no login to the org is set. Set SFCDC_CLIENT_ID + SFCDC_CLIENT_SECRET and SFCDC_INSTANCE_URL"),
        ({"client_id": "c"}, "SFCDC_CLIENT_SECRET: needed to log in by client credentials, and not set"),
        ({"client_secret": "c"}, "SFCDC_CLIENT_ID: needed to log in by client credentials, and not set"),
        ({"client_id": "c", "username": "u"}, "SFCDC_PRIVATE_KEY_FILE: needed to log in by JWT bearer, and not set"),
        ({"username": "u", "password": "p"}, "SFCDC_SECURITY_TOKEN: needed to log in by username and password"),
        ({"username": "u"}, "SFCDC_PASSWORD and SFCDC_SECURITY_TOKEN: needed to log in by username and password"),
        ({"access_token": "t"}, "SFCDC_INSTANCE_URL: needed with SFCDC_ACCESS_TOKEN, and not set"),
        (
            {"access_token": "t", "client_id": "c", "client_secret": "s"},
            "SFCDC_ACCESS_TOKEN / SFCDC_CLIENT_SECRET: 2 ways to log in are set at once",
        ),
        ({"access_token": "a b", "instance_url": "https://x"}, "SFCDC_ACCESS_TOKEN: holds a space, a line break"),
        ({"access_token": "a\n", "instance_url": "https://x"}, "SFCDC_ACCESS_TOKEN: holds a space, a line break"),
        ({"access_token": "ä", "instance_url": "https://x"}, "SFCDC_ACCESS_TOKEN: holds a space, a line break"),
        ({"client_id": "c", "client_secret": ""}, "SFCDC_CLIENT_ID / SFCDC_CLIENT_SECRET: one of them is empty"),
    ],
)
def test_settings_that_are_not_one_complete_login_are_named(fields, text):
    with pytest.raises(SettingsError) as caught:
        chosen_grant(Settings(_env_file=None, **fields), lambda: 0.0)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("instance", "is_trusted"),
    [
        ("https://acme.my.salesforce.com", True),
        ("https://acme--sand.sandbox.my.salesforce.com", True),
        ("https://na1.force.com", True),
        ("https://login.example", True),
        ("https://evil.example", False),
        ("https://acme.my.salesforce.com.evil.example", False),
        ("https://evilsalesforce.com", False),
        ("https://user:acme.my.salesforce.com@evil.example/", False),
        ("https://evil.example/.salesforce.com", False),
    ],
)
def test_a_token_is_sent_to_a_host_of_salesforce_or_to_the_one_that_gave_it_and_nowhere_else(instance, is_trusted):
    login = checked_login("https://login.example/services/oauth2/token", "token", instance, None)
    if is_trusted:
        assert login.trusted_instance() == instance
        return
    with pytest.raises(InstanceNotTrusted, match="SFCDC_INSTANCE_URL"):
        login.trusted_instance()


@given(secret=st.text(min_size=4))
def test_a_secret_that_is_echoed_is_redacted_in_every_form_it_was_sent_in(secret):
    for echo in (secret, quote(secret), quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1]):
        assert redacted(echo, (secret,)) == "***"
        assert redacted(re.sub("%..", lambda code: code[0].lower(), echo), (secret,)).count("%") <= secret.count("%")
