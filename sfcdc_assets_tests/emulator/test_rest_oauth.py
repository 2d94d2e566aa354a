from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jwt
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import Credentials, OrgSettings
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client
from sfcdc_assets_tests.eventually import BOUND_SECONDS

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PRIVATE = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
PUBLIC = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
CREDENTIALS = Credentials(public_key=PUBLIC)
CLOCK = ManualClock()
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@pytest.fixture(scope="module")
def client() -> Iterator[RestClient]:
    org = EmulatedOrg(clock=CLOCK, settings=OrgSettings(credentials=CREDENTIALS, token_lifetime=60_000))
    with rest_client(org) as client:
        yield client


def ask(client: RestClient, *, auth: tuple[str, str] | None = None, **form: str) -> requests.Response:
    return requests.post(f"{client.base_url}/services/oauth2/token", data=form, auth=auth, timeout=BOUND_SECONDS)


def assertion(**changes: Any) -> str:
    claims = {
        "iss": CREDENTIALS.client_id,
        "sub": CREDENTIALS.username,
        "aud": "https://login.salesforce.com",
        "exp": str(CLOCK() // 1000 + 180),  # text, as simple-salesforce sends it
    }
    return jwt.encode({**claims, **changes}, PRIVATE, algorithm="RS256")


def works(client: RestClient, token: str) -> bool:
    url = f"{client.base_url}/services/data/v59.0/limits"
    return requests.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=BOUND_SECONDS).status_code == 200


def test_every_flow_gives_a_token_that_opens_the_org(client: RestClient) -> None:
    both = {"client_id": CREDENTIALS.client_id, "client_secret": CREDENTIALS.client_secret}
    password = CREDENTIALS.password + CREDENTIALS.security_token
    answers = [
        ask(client, grant_type="client_credentials", **both),
        ask(client, grant_type="client_credentials", auth=(CREDENTIALS.client_id, CREDENTIALS.client_secret)),
        ask(client, grant_type="password", username=CREDENTIALS.username, password=password, **both),
        ask(client, grant_type=JWT_BEARER, assertion=assertion()),
        ask(client, grant_type=JWT_BEARER, assertion=assertion(aud=client.base_url)),
    ]
    for answer in answers:
        token = answer.json()
        assert answer.status_code == 200
        assert token["token_type"] == "Bearer"
        assert token["instance_url"] == client.base_url
        assert "refresh_token" not in token
        assert works(client, token["access_token"])


@pytest.mark.parametrize(
    ("form", "error", "description"),
    [
        ({"grant_type": "device"}, "unsupported_grant_type", "grant type not supported"),
        ({"grant_type": "client_credentials"}, "invalid_client_id", "client identifier invalid"),
        (
            {"grant_type": "client_credentials", "client_id": CREDENTIALS.client_id, "client_secret": "wrong"},
            "invalid_client",
            "invalid client credentials",
        ),
        (
            {
                "grant_type": "password",
                "client_id": CREDENTIALS.client_id,
                "client_secret": CREDENTIALS.client_secret,
                "username": CREDENTIALS.username,
                "password": CREDENTIALS.password,
            },
            "invalid_grant",
            "authentication failure",
        ),
        ({"grant_type": JWT_BEARER, "assertion": "x.y.z"}, "invalid_grant", "invalid assertion"),
    ],
)
def test_a_refusal_names_its_error_and_no_secret(
    client: RestClient, form: dict[str, str], error: str, description: str
) -> None:
    answer = ask(client, **form)
    assert answer.status_code == 400
    assert answer.json() == {"error": error, "error_description": description}


@pytest.mark.parametrize(
    ("changes", "description"),
    [
        ({"iss": "someone"}, "client identifier invalid"),
        ({"aud": "https://example.com"}, "audience is invalid"),
        ({"sub": "nobody@example.com"}, "user hasn't approved this consumer"),
        ({"exp": 1}, "expired authorization code"),
    ],
)
def test_a_signed_assertion_with_wrong_claims_is_refused(
    client: RestClient, changes: dict[str, Any], description: str
) -> None:
    answer = ask(client, grant_type=JWT_BEARER, assertion=assertion(**changes))
    assert (answer.status_code, answer.json()["error_description"]) == (400, description)


def test_an_assertion_seems_expired_to_an_org_whose_clock_is_ahead() -> None:
    org = EmulatedOrg(clock=CLOCK, settings=OrgSettings(credentials=CREDENTIALS))
    org.faults.arm(Fault.CLOCK_SKEW, ahead=181)
    with rest_client(org) as client:
        answer = ask(client, grant_type=JWT_BEARER, assertion=assertion())
        assert answer.json()["error_description"] == "expired authorization code"
        org.faults.arm(Fault.CLOCK_SKEW, ahead=170)
        assert ask(client, grant_type=JWT_BEARER, assertion=assertion()).status_code == 200
    org.close()


def test_an_assertion_signed_with_another_key_or_method_is_refused(client: RestClient) -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    claims = jwt.decode(assertion(), options={"verify_signature": False})
    pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    for forged in (jwt.encode(claims, pem, algorithm="RS256"), jwt.encode(claims, None, algorithm="none")):
        assert ask(client, grant_type=JWT_BEARER, assertion=forged).status_code == 400


def test_a_token_expires_by_the_clock_and_can_be_revoked(client: RestClient) -> None:
    auth = (CREDENTIALS.client_id, CREDENTIALS.client_secret)
    first = ask(client, grant_type="client_credentials", auth=auth).json()["access_token"]
    assert (
        requests.post(
            f"{client.base_url}/services/oauth2/revoke", data={"token": first}, timeout=BOUND_SECONDS
        ).status_code
        == 200
    )
    assert not works(client, first)
    second = ask(client, grant_type="client_credentials", auth=auth).json()["access_token"]
    CLOCK.advance(59_999)
    assert works(client, second)
    CLOCK.advance(1)
    answer = requests.get(
        f"{client.base_url}/services/data/v59.0/limits",
        headers={"Authorization": f"Bearer {second}"},
        timeout=BOUND_SECONDS,
    )
    assert answer.status_code == 401
    assert answer.json() == [{"message": "Session expired or invalid", "errorCode": "INVALID_SESSION_ID"}]


def test_userinfo_names_the_org_and_the_user(client: RestClient) -> None:
    token = ask(client, grant_type="client_credentials", auth=(CREDENTIALS.client_id, CREDENTIALS.client_secret)).json()
    headers = {"Authorization": f"Bearer {token['access_token']}"}
    info = requests.get(f"{client.base_url}/services/oauth2/userinfo", headers=headers, timeout=BOUND_SECONDS).json()
    assert token["id"].endswith(f"/{info['organization_id']}/{info['user_id']}")
    assert info["preferred_username"] == CREDENTIALS.username
    assert len(info["organization_id"]) == 18


def test_no_secret_is_in_the_repr_of_settings() -> None:
    shown = repr(replace(OrgSettings(), credentials=CREDENTIALS))
    for secret in (CREDENTIALS.client_secret, CREDENTIALS.password, CREDENTIALS.security_token, PUBLIC):
        assert secret not in shown
