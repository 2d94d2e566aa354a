"""The grants: OAuth at `{login}/services/oauth2/token`, and the SOAP `login` call (docs/salesforce-streams.md,
"Logging in")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import jwt
import requests
from pydantic import SecretStr

from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.salesforce.answers import MOST_LOGIN_BYTES, NO_JSON, parsed
from sfcdc_assets.salesforce.api_version import NEWEST_TESTED
from sfcdc_assets.salesforce.errors import LoginRefused, UnexpectedAnswer
from sfcdc_assets.salesforce.login import Login, checked_login, redacted
from sfcdc_assets.salesforce.record_id import eighteen_characters, is_salesforce_id
from sfcdc_assets.salesforce.retry import RETRIED_STATUSES
from sfcdc_assets.salesforce.transport import Answer, Transport

JWT_LIFETIME_S = 180
"""Salesforce refuses assertions that live longer than five minutes; three leave room for a clock that is off."""


@dataclass(frozen=True)
class AccessToken:
    """A token that was handed over (SFCDC_ACCESS_TOKEN): taken as it is, never renewed."""

    access_token: SecretStr
    instance_url: str
    name: str = field(default="an access token", init=False)
    renewable: bool = field(default=False, init=False)

    def login(self, _transport: Transport) -> Login:
        """See `Grant.login`; there is nothing to ask."""
        return Login(self.access_token.get_secret_value(), self.instance_url, None)


@dataclass(frozen=True)
class ClientCredentials:
    """The connected app itself logs in; only a My Domain host takes this grant."""

    login_url: str
    client_id: str
    client_secret: SecretStr
    name: str = field(default="client credentials", init=False)
    renewable: bool = field(default=True, init=False)

    def login(self, transport: Transport) -> Login:
        """See `Grant.login`."""
        form = {
            "grant_type": "client_credentials",
            "client_id": self.client_id,
            "client_secret": self.client_secret.get_secret_value(),
        }
        settings = ("SFCDC_CLIENT_ID", "SFCDC_CLIENT_SECRET", "SFCDC_LOGIN_URL (it must be the My Domain host)")
        return _ask_token(transport, self.login_url, form, grant=self.name, settings=settings)


@dataclass(frozen=True)
class JwtBearer:
    """An assertion signed with the private key of the connected app's certificate (RS256)."""

    login_url: str
    client_id: str
    username: str
    private_key_file: Path
    now_s: Callable[[], float] = field(repr=False)
    name: str = field(default="JWT bearer", init=False)
    renewable: bool = field(default=True, init=False)

    def login(self, transport: Transport) -> Login:
        """See `Grant.login`."""
        form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": self._assertion()}
        settings = (
            "SFCDC_CLIENT_ID",
            "SFCDC_USERNAME",
            "SFCDC_PRIVATE_KEY_FILE (its certificate must be the connected app's)",
            "SFCDC_LOGIN_URL",
        )
        return _ask_token(transport, self.login_url, form, grant=self.name, settings=settings)

    def _assertion(self) -> str:
        claims = {
            "iss": self.client_id,
            "sub": self.username,
            "aud": self.login_url,
            "exp": int(self.now_s()) + JWT_LIFETIME_S,
        }
        try:
            return jwt.encode(claims, self.private_key_file.read_bytes(), algorithm="RS256")
        except (jwt.PyJWTError, ValueError, TypeError, OSError) as error:
            # The error's own text is left out: it may quote the key.
            raise SettingsError(
                "SFCDC_PRIVATE_KEY_FILE",
                f"{self.private_key_file} holds no usable RSA private key ({type(error).__name__})",
                "Name a file with an RSA key in PEM form and without a passphrase",
            ) from None


@dataclass(frozen=True)
class Password:
    """Username, password and security token through a connected app."""

    login_url: str
    client_id: str
    client_secret: SecretStr
    username: str
    password: SecretStr
    security_token: SecretStr
    name: str = field(default="username and password", init=False)
    renewable: bool = field(default=True, init=False)

    def login(self, transport: Transport) -> Login:
        """See `Grant.login`."""
        form = {
            "grant_type": "password",
            "client_id": self.client_id,
            "client_secret": self.client_secret.get_secret_value(),
            "username": self.username,
            "password": self.password.get_secret_value() + self.security_token.get_secret_value(),
        }
        settings = (
            "SFCDC_USERNAME",
            "SFCDC_PASSWORD",
            "SFCDC_SECURITY_TOKEN",
            "SFCDC_CLIENT_ID",
            "SFCDC_CLIENT_SECRET",
            "SFCDC_LOGIN_URL",
        )
        parts = (self.password.get_secret_value(), self.security_token.get_secret_value())
        return _ask_token(transport, self.login_url, form, grant=self.name, settings=settings, other_secrets=parts)


_PUBLIC_FORM_FIELDS = frozenset({"grant_type", "client_id", "username"})


def _ask_token(
    transport: Transport,
    login_url: str,
    form: dict[str, str],
    *,
    grant: str,
    settings: tuple[str, ...],
    other_secrets: tuple[str, ...] = (),
) -> Login:
    url = f"{login_url}/services/oauth2/token"
    response = transport.call(
        "POST", url, setting="SFCDC_LOGIN_URL", repeatable=True, answer=Answer(most_bytes=MOST_LOGIN_BYTES), data=form
    )
    answer = _json_object(response, url)
    if not response.ok:
        secrets = (*(value for name, value in form.items() if name not in _PUBLIC_FORM_FIELDS), *other_secrets)
        error = redacted(str(answer.get("error", f"HTTP {response.status_code}")), secrets)
        description = redacted(str(answer.get("error_description", "")), secrets)
        raise LoginRefused(grant, login_url, error, description, settings)
    return checked_login(
        url, answer.get("access_token"), answer.get("instance_url"), _organization_of(answer.get("id"))
    )


def _json_object(response: requests.Response, url: str) -> dict[str, Any]:
    try:
        answer = parsed(response)
    except NO_JSON:
        answer = None  # reported below, without the text: a login answer may hold a token
    if not isinstance(answer, dict):
        problem = f"the login answer (HTTP {response.status_code}) is not a JSON object"
        raise UnexpectedAnswer(url, problem, "SFCDC_LOGIN_URL")
    return answer


def _organization_of(id_url: object) -> str | None:
    """Return the org's id in the identity URL `https://login.../id/<org>/<user>`."""
    parts = urlsplit(id_url).path.split("/") if isinstance(id_url, str) else []
    if len(parts) == 4 and parts[1] == "id" and is_salesforce_id(parts[2]):
        return eighteen_characters(parts[2])
    return None


_ENVELOPE = (
    '<?xml version="1.0" encoding="utf-8"?>'
    '<env:Envelope xmlns:env="http://schemas.xmlsoap.org/soap/envelope/" xmlns:n1="urn:partner.soap.sforce.com">'
    "<env:Body><n1:login><n1:username>{username}</n1:username><n1:password>{password}</n1:password></n1:login>"
    "</env:Body></env:Envelope>"
)


@dataclass(frozen=True)
class SoapLogin:
    """A session id of the SOAP login; the REST resources and the Pub/Sub API take it as an access token."""

    login_url: str
    username: str
    password: SecretStr
    security_token: SecretStr
    name: str = field(default="username and password", init=False)
    renewable: bool = field(default=True, init=False)

    def login(self, transport: Transport) -> Login:
        """See `Grant.login`."""
        secrets = (self.password.get_secret_value(), self.security_token.get_secret_value())
        url = f"{self.login_url}/services/Soap/u/{NEWEST_TESTED:.1f}"
        response = transport.call(
            "POST",
            url,
            setting="SFCDC_LOGIN_URL",
            repeatable=True,
            # A refused login is a SOAP fault, and those come with HTTP 500.
            answer=Answer(most_bytes=MOST_LOGIN_BYTES, retried=RETRIED_STATUSES - {500}),
            data=_ENVELOPE.format(username=escape(self.username), password=escape("".join(secrets))).encode(),
            headers={"Content-Type": "text/xml; charset=UTF-8", "SOAPAction": "login"},
        )
        values = _range_texts(response.content, url)
        if not response.ok:
            code = values.get("exceptionCode") or values.get("faultcode") or f"HTTP {response.status_code}"
            message = values.get("exceptionMessage") or values.get("faultstring") or ""
            settings = ("SFCDC_USERNAME", "SFCDC_PASSWORD", "SFCDC_SECURITY_TOKEN", "SFCDC_LOGIN_URL")
            raise LoginRefused(self.name, self.login_url, redacted(code, secrets), redacted(message, secrets), settings)
        server = urlsplit(values.get("serverUrl", ""))
        organization_id = values.get("organizationId", "")
        return checked_login(
            url,
            values.get("sessionId"),
            f"{server.scheme}://{server.netloc}",
            eighteen_characters(organization_id) if is_salesforce_id(organization_id) else None,
        )


def _range_texts(body: bytes, url: str) -> dict[str, str]:
    """Local element name -> text, first one wins: the answer is flat enough for that, and prefixes vary."""
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError:
        raise UnexpectedAnswer(url, "the login answer is not XML", "SFCDC_LOGIN_URL") from None
    texts: dict[str, str] = {}
    for element in root.iter():
        if element.text and element.text.strip():
            texts.setdefault(element.tag.rpartition("}")[2], element.text.strip())
    return texts
