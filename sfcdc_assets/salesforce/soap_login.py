"""The SOAP `login` call: username, password and security token without a connected app (docs/salesforce-streams.md,
"Logging in").

OAuth's password grant needs a connected app; who has only a user logs in as simple-salesforce and the data loaders do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from pydantic import SecretStr

from sfcdc_assets.salesforce.api_version import NEWEST_TESTED
from sfcdc_assets.salesforce.errors import LoginRefused, UnexpectedAnswer
from sfcdc_assets.salesforce.login import Login, checked_login, redacted
from sfcdc_assets.salesforce.record_id import eighteen_characters, is_salesforce_id
from sfcdc_assets.salesforce.retry import RETRIED_STATUSES
from sfcdc_assets.salesforce.transport import Transport

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
        secrets = (self.password.get_secret_value(), self.security_token.get_secret_value())
        url = f"{self.login_url}/services/Soap/u/{NEWEST_TESTED:.1f}"
        response = transport.call(
            "POST",
            url,
            setting="SFCDC_LOGIN_URL",
            repeatable=True,
            retried=RETRIED_STATUSES - {500},  # a refused login is a SOAP fault, and those come with HTTP 500
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
