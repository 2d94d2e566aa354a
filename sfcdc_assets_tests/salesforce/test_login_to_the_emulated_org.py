"""The OAuth grants against the emulated org, which checks what it is given."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import Credentials, OrgSettings
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.salesforce.errors import LoginRefused, SessionExpired
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.settings.settings import Settings


@pytest.fixture(scope="module")
def emulated(tmp_path_factory):
    """The org, its server, and a file with the private key of its connected app."""
    directory = tmp_path_factory.mktemp("org")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    key_file = directory / "app.pem"
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    public_key = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    org = EmulatedOrg(seed=1, settings=OrgSettings(credentials=replace(Credentials(), public_key=public_key.decode())))
    with EmulatorServer(org, directory=directory) as server:
        yield org, server, key_file
    org.close()


def settings(server: EmulatorServer, **fields: object) -> Settings:
    reach = {"instance_url": server.rest_url, "login_url": server.rest_url, "ca_file": server.ca_file}
    return Settings(_env_file=None, **reach, **fields)


def ways(emulated) -> dict[str, dict[str, object]]:
    org, server, key_file = emulated
    known = org.settings.credentials
    app = {"client_id": known.client_id, "client_secret": known.client_secret}
    user = {"username": known.username, "password": known.password, "security_token": known.security_token}
    key = {"client_id": known.client_id, "username": known.username, "private_key_file": key_file}
    token = {"access_token": server.sessions.issue(org.users.integration)}
    return {"client credentials": app, "password": app | user, "JWT bearer": key, "access token": token}


@pytest.mark.parametrize("way", ["client credentials", "password", "JWT bearer", "access token"])
def test_every_way_to_log_in_opens_the_org(emulated, way):
    org, server, _ = emulated
    with OrgSession(settings(server, **ways(emulated)[way])) as session:
        assert session.organization_id == org.organization_id
        assert session.request("GET", "limits/")


@pytest.mark.parametrize(
    ("way", "wrong", "error"),
    [
        ("client credentials", {"client_secret": "wrong"}, "invalid_client"),
        ("client credentials", {"client_id": "wrong"}, "invalid_client_id"),
        ("password", {"security_token": "wrong"}, "invalid_grant"),
        ("JWT bearer", {"username": "else@example.com"}, "invalid_grant"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_orgs_reason(emulated, way, wrong, error):
    _, server, _ = emulated
    with (
        OrgSession(settings(server, **ways(emulated)[way] | wrong)) as session,
        pytest.raises(LoginRefused, match=rf"{error} \(.+Check SFCDC_"),
    ):
        session.token()


def test_a_wrong_access_token_is_reported(emulated):
    _, server, _ = emulated
    with (
        OrgSession(settings(server, access_token="wrong")) as session,
        pytest.raises(SessionExpired, match="SFCDC_ACCESS_TOKEN"),
    ):
        session.request("GET", "limits/")
