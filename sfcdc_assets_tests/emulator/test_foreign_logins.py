"""How clients log in that know nothing of this project: what they read, and where in the answer they look for it."""

from __future__ import annotations

import base64
import hashlib
import http.client
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import pytest
import requests

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client
from sfcdc_assets_tests.eventually import BOUND_SECONDS

NAMES_OF_USER_INFO = (
    "accessibilityMode chatterExternal currencySymbol orgAttachmentFileSizeLimit orgDefaultCurrencyIsoCode "
    "orgDefaultCurrencyLocale orgDisallowHtmlAttachments orgHasPersonAccounts organizationId organizationMultiCurrency "
    "organizationName profileId roleId sessionSecondsValid userDefaultCurrencyIsoCode userEmail userFullName userId "
    "userLanguage userLocale userName userTimeZone userType userUiSkin"
)


@pytest.fixture(scope="module")
def client() -> Iterator[RestClient]:
    with rest_client(EmulatedOrg(seed=3)) as client:
        yield client


@pytest.fixture(scope="module")
def org(client: RestClient) -> dict[str, Any]:
    return requests.get(f"{client.base_url}/emulator/state", timeout=BOUND_SECONDS).json()


def soap(client: RestClient, path: str, body: str, session: str = "") -> requests.Response:
    text = (
        "<e:Envelope xmlns:e='http://schemas.xmlsoap.org/soap/envelope/' xmlns:urn='urn:partner.soap.sforce.com'>"
        f"<e:Header><urn:SessionHeader><urn:sessionId>{session}</urn:sessionId></urn:SessionHeader></e:Header>"
        f"<e:Body>{body}</e:Body></e:Envelope>"
    )
    return requests.post(
        client.base_url + path,
        data=text,
        headers={"Content-Type": "text/xml"},
        timeout=BOUND_SECONDS,
        allow_redirects=False,
    )


def login(client: RestClient, path: str = "/services/Soap/u/57.0/") -> requests.Response:
    body = (
        "<urn:login><urn:username><![CDATA[integration@emulator.example]]></urn:username><urn:password>"
        "<![CDATA[sfcdc-emulator-passwordsfcdcEmulatorToken]]></urn:password></urn:login>"
    )
    return soap(client, path, body)


def token(client: RestClient, **form: str) -> requests.Response:
    both = {"client_id": "sfcdc-emulator-client", "client_secret": "sfcdc-emulator-client-secret"}
    return requests.post(f"{client.base_url}/services/oauth2/token", data={**both, **form}, timeout=BOUND_SECONDS)


def works(client: RestClient, access_token: str) -> bool:
    headers = {"Authorization": f"Bearer {access_token}"}
    return requests.get(f"{client.base_url}/services/data/v59.0/limits", headers=headers, timeout=BOUND_SECONDS).ok


def test_the_soap_login_can_be_read_by_position(client: RestClient, org: dict[str, Any]) -> None:
    # As PubSub.py of the vendor's samples reads it (python/InventoryAppExample in forcedotcom/pub-sub-api).
    answer = login(client)
    assert answer.status_code == 200
    result = ElementTree.fromstring(answer.content)[0][0][0]
    names = [part.tag.rpartition("}")[2] for part in result]
    assert names == [
        "metadataServerUrl", "passwordExpired", "sandbox", "serverUrl", "sessionId", "userId", "userInfo",
    ]  # fmt: skip
    assert f"{client.base_url}/services/Soap/u/57.0/{org['organization_id'][:15]}" == result[3].text
    assert works(client, result[4].text or "")
    assert [part.tag.rpartition("}")[2] for part in result[6]] == NAMES_OF_USER_INFO.split()
    assert result[6][8].text == org["organization_id"]


@pytest.mark.parametrize("tail", ["", "/", "/00D000000000001", "/00D000000000001/"])
def test_a_slash_at_the_end_of_the_soap_address_redirects_nobody(client: RestClient, tail: str) -> None:
    assert login(client, f"/services/Soap/u/57.0{tail}").status_code == 200


def test_soap_tells_who_is_logged_in_and_logs_out(client: RestClient, org: dict[str, Any]) -> None:
    session = ElementTree.fromstring(login(client).content)[0][0][0][4].text or ""
    answered = soap(client, "/services/Soap/u/59.0", "<urn:getUserInfo/>", session).text
    assert f"<organizationId>{org['organization_id']}</organizationId>" in answered
    assert "<timestamp>" in soap(client, "/services/Soap/u/59.0", "<urn:getServerTimestamp/>", session).text
    assert soap(client, "/services/Soap/u/59.0", "<urn:logout/>", session).status_code == 200
    assert not works(client, session)


def test_a_refresh_token_gives_access_tokens_until_it_is_revoked(client: RestClient) -> None:
    kept = {"grant_type": "refresh_token", "refresh_token": "sfcdcEmulatorRefreshToken"}
    first = token(client, **kept).json()
    assert works(client, first["access_token"])
    assert first["instance_url"] == client.base_url
    assert "refresh_token" not in first, "Salesforce gives the same one no second time"
    assert token(client, **{**kept, "refresh_token": "another"}).json() == {
        "error": "invalid_grant",
        "error_description": "expired access/refresh token",
    }
    given = by_code(client)["refresh_token"]
    assert works(client, token(client, grant_type="refresh_token", refresh_token=given).json()["access_token"])
    assert requests.post(f"{client.base_url}/services/oauth2/revoke", data={"token": given}, timeout=BOUND_SECONDS).ok
    assert token(client, grant_type="refresh_token", refresh_token=given).status_code == 400
    assert token(client, **kept).ok


def by_code(client: RestClient, **changes: str) -> dict[str, Any]:
    """What the web server flow with PKCE ends with."""
    verifier = "v" * 64
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    back = requests.get(
        f"{client.base_url}/services/oauth2/authorize",
        params={
            "response_type": "code",
            "client_id": "sfcdc-emulator-client",
            "redirect_uri": "http://localhost:1717/OauthRedirect",
            "state": "s1",
            "code_challenge": challenge,
        },
        allow_redirects=False,
        timeout=BOUND_SECONDS,
    )
    assert back.status_code == 302
    answer = parse_qs(urlsplit(back.headers["Location"]).query)
    assert answer["state"] == ["s1"]
    form = {
        "grant_type": "authorization_code",
        "code": answer["code"][0],
        "redirect_uri": "http://localhost:1717/OauthRedirect",
        "code_verifier": verifier,
    }
    return token(client, **{**form, **changes}).json()


def test_the_web_server_flow_gives_both_tokens(client: RestClient) -> None:
    given = by_code(client)
    assert works(client, given["access_token"])
    assert set(given["scope"].split()) >= {"api", "refresh_token"}
    for wrong in ({"code": "x"}, {"code_verifier": "w" * 64}, {"redirect_uri": "http://localhost/"}):
        assert by_code(client, **wrong)["error"] == "invalid_grant"


def test_the_identity_url_of_a_token_tells_whose_it_is(client: RestClient, org: dict[str, Any]) -> None:
    given = token(client, grant_type="client_credentials").json()
    for facts in (
        requests.get(
            given["id"], params={"format": "json", "oauth_token": given["access_token"]}, timeout=BOUND_SECONDS
        ).json(),
        requests.get(
            given["id"], headers={"Authorization": f"Bearer {given['access_token']}"}, timeout=BOUND_SECONDS
        ).json(),
    ):
        assert facts["id"] == given["id"]
        assert facts["organization_id"] == org["organization_id"]
        assert facts["username"] == "integration@emulator.example"
        assert facts["urls"]["rest"] == client.base_url + "/services/data/v{version}/"
    assert client.get("").json()["identity"] == given["id"]
    other = given["id"].replace(org["organization_id"], "00D000000000001AAA")
    refusals = [
        (given["id"], {}, 403, "Missing_OAuth_Token"),
        (given["id"], {"oauth_token": "x"}, 403, "Bad_OAuth_Token"),
        (other, {"oauth_token": given["access_token"]}, 403, "Wrong_Org"),
        (given["id"][:-3] + "%20", {"oauth_token": given["access_token"]}, 404, "Bad_Id"),
    ]
    for url, query, status, reason in refusals:
        answer = requests.get(url, params=query, timeout=BOUND_SECONDS)
        assert (answer.status_code, answer.text) == (status, reason)


def test_names_of_response_headers_are_written_as_salesforce_writes_them(client: RestClient) -> None:
    parts = urlsplit(client.base_url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 0, timeout=BOUND_SECONDS)
    try:
        for path, expected in (
            ("/services/data/v59.0/limits", {"Sforce-Limit-Info", "Content-Type", "Date"}),
            (
                "/services/data/v59.0/sobjects/Account/describe",
                {"Sforce-Limit-Info", "Content-Encoding", "Last-Modified"},
            ),
            ("/services/data", {"Content-Type", "Content-Length", "Date"}),
            ("/services/data/v59.0/none", {"Content-Type"}),
        ):
            headers = {"Authorization": str(client.session.headers["Authorization"]), "Accept-Encoding": "gzip"}
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            answer.read()
            names = [name for name, _ in answer.getheaders()]
            assert expected <= set(names)
            assert [name for name in names if name != "-".join(p.capitalize() for p in name.split("-"))] == []
            assert len(names) == len(set(names))
    finally:
        connection.close()


def test_the_enterprise_api_logs_in_in_its_own_namespace(client: RestClient, org: dict[str, Any]) -> None:
    # As `salesforce-api` and SalesforcePy do.
    text = (
        "<e:Envelope xmlns:e='http://schemas.xmlsoap.org/soap/envelope/' xmlns='urn:enterprise.soap.sforce.com'>"
        "<e:Body><login><username>integration@emulator.example</username>"
        "<password>{}sfcdcEmulatorToken</password></login></e:Body></e:Envelope>"
    )
    url = f"{client.base_url}/services/Soap/c/60.0/"
    right = requests.post(url, data=text.format("sfcdc-emulator-password"), timeout=20)
    name = "{urn:enterprise.soap.sforce.com}"
    result = ElementTree.fromstring(right.content).find(f".//{name}loginResponse/{name}result")
    assert result is not None
    assert works(client, result.findtext(f"{name}sessionId", ""))
    assert result.findtext(f"{name}serverUrl") == (
        f"{client.base_url}/services/Soap/c/60.0/{org['organization_id'][:15]}"
    )
    wrong = requests.post(url, data=text.format("wrong"), timeout=20)
    assert wrong.status_code == 500
    assert "urn:fault.enterprise.soap.sforce.com" in wrong.text
    assert "<faultcode>sf:INVALID_LOGIN</faultcode>" in wrong.text


@pytest.mark.parametrize(("letter", "name"), [("m", "Metadata API"), ("T", "Tooling API"), ("s", "Apex API")])
def test_a_soap_api_that_the_org_has_not_is_refused_by_a_fault(client: RestClient, letter: str, name: str) -> None:
    answer = soap(client, f"/services/Soap/{letter}/60.0/00DAa0000000000", "<urn:describeMetadata/>")
    assert answer.status_code == 500
    fault = ElementTree.fromstring(answer.content).findtext(".//faultstring", "")
    assert fault.startswith("UNSUPPORTED_API: this org has no ")
    assert name in fault


def test_a_client_can_ask_what_its_token_is_worth(client: RestClient) -> None:
    # As aio-sf does after each login, to know when the token ends (RFC 7662).
    both = {"client_id": "sfcdc-emulator-client", "client_secret": "sfcdc-emulator-client-secret"}

    def worth(given: str, **other: str) -> requests.Response:
        form = {**both, "token": given, **other}
        return requests.post(f"{client.base_url}/services/oauth2/introspect", data=form, timeout=20)

    answer = token(client, grant_type="client_credentials").json()
    answered = worth(answer["access_token"]).json()
    assert (answered["active"], answered["token_type"], answered["sub"]) == (True, "access_token", answer["id"])
    assert answered["exp"] - answered["iat"] == 7_200
    assert worth("sfcdcEmulatorRefreshToken").json()["token_type"] == "refresh_token"
    requests.post(f"{client.base_url}/services/oauth2/revoke", data={"token": answer["access_token"]}, timeout=20)
    assert worth(answer["access_token"]).json() == worth("nonsense").json() == {"active": False}
    assert worth("nonsense", client_secret="wrong").json()["error"] == "invalid_client"
