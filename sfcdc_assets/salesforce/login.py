"""What a login is: a grant asks for a token, and a token comes with the org it is for."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote, quote_plus, urlsplit
from xml.sax.saxutils import escape

from sfcdc_assets.salesforce.errors import InstanceNotTrusted, UnexpectedAnswer
from sfcdc_assets.salesforce.transport import Transport

_TOKEN = re.compile(r"[\x21-\x7e]+")
_SALESFORCE = ("salesforce.com", "force.com", "salesforce.mil", "sfcrmproducts.cn")
"""Domains of Salesforce's instances ("My Domain URL Formats", Salesforce Help), with the government's and China's."""


@dataclass(frozen=True)
class Login:
    """What a login gives. The token is kept out of the repr."""

    access_token: str = field(repr=False)
    instance_url: str | None
    organization_id: str | None
    """18 characters; None when the answer does not say."""
    asked: str | None = None
    """The address that gave it; None for a token that was handed over."""

    def trusted_instance(self) -> str:
        """Return the instance, which the token may be sent to: a host of Salesforce, or the one that gave the token.
        Raises `InstanceNotTrusted`: whoever answers in the login's place could have tokens sent anywhere."""
        host, own = (urlsplit(each or "").hostname or "" for each in (self.instance_url, self.asked))
        if self.asked and host != own and not host.endswith(tuple(f".{domain}" for domain in _SALESFORCE)):
            raise InstanceNotTrusted(self.instance_url or "", own)
        return self.instance_url or ""


class Grant(Protocol):
    """One way to get a token."""

    @property
    def name(self) -> str:
        """As people call it, for errors."""

    @property
    def renewable(self) -> bool:
        """False for a token that was handed over: when it expires, there is no other."""

    def login(self, transport: Transport) -> Login:
        """Get a fresh token. Raises LoginRefused, SettingsError and the transport's errors."""


def is_sendable(token: str) -> bool:
    """Return whether the token can stand in a header. Anything else, requests would quote in its error text."""
    return _TOKEN.fullmatch(token) is not None


def checked_login(where: str, access_token: object, instance_url: object, organization_id: str | None) -> Login:
    """Return a `Login` of a server's answer, or `UnexpectedAnswer` when it holds no token or no https instance."""
    if not isinstance(access_token, str) or not is_sendable(access_token):
        raise UnexpectedAnswer(where, "the login answer holds no access token", "SFCDC_LOGIN_URL")
    if not isinstance(instance_url, str) or urlsplit(instance_url).scheme != "https":
        raise UnexpectedAnswer(where, "the login answer names no https:// instance", "SFCDC_LOGIN_URL")
    return Login(access_token, instance_url.rstrip("/"), organization_id, where)


def redacted(text: str, secrets: tuple[str, ...]) -> str:
    """`text` without any of `secrets`: a server may echo what it was sent, as it was sent in a form, in JSON or XML."""
    written: set[str] = set()
    for secret in filter(None, secrets):
        in_urls = {quote(secret), quote(secret, safe=""), quote_plus(secret)}
        written |= {secret, *in_urls, json.dumps(secret)[1:-1], escape(secret)}
    for each in sorted(written, key=len, reverse=True):
        text = re.sub(re.escape(each), "***", text, flags=re.IGNORECASE if "%" in each else 0)
    return text
