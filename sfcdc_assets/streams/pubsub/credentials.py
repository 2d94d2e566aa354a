"""Who is calling: the three headers that every call of the Pub/Sub API carries (docs/salesforce-streams.md, "Endpoint
and headers")."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from sfcdc_assets.runtime.errors import SfcdcError

_HEADER_VALUE = re.compile(r"[\x21-\x7e]+")


class GetCredentials(Protocol):
    """Whoever knows the current token."""

    def __call__(self, *, refresh: bool) -> Credentials:
        """Return the current token, or a fresh one with `refresh`."""


class CredentialsMalformed(SfcdcError):
    """A credential cannot be sent as a header. Names it, never shows it."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"The {name} is empty or has a character that no header may carry (a space, a line break, a letter outside "
            "of ASCII). Copy it again, without quotes or line breaks."
        )


@dataclass(frozen=True)
class Credentials:
    """An access token (no `Bearer`), the org's own URL, and the org id of 15 or 18 characters.

    `instance_url` is reduced to scheme and host, as the service wants it. Raises `CredentialsMalformed`: gRPC's own
    error for a bad header would print them all.
    """

    access_token: str = field(repr=False)
    instance_url: str
    tenant_id: str

    def __post_init__(self) -> None:
        url = urlsplit(self.instance_url.strip())
        object.__setattr__(self, "instance_url", f"{url.scheme}://{url.netloc}" if url.netloc else self.instance_url)
        for name, value in (
            ("access token", self.access_token),
            ("instance URL", self.instance_url),
            ("org id", self.tenant_id),
        ):
            if not _HEADER_VALUE.fullmatch(value):
                raise CredentialsMalformed(name)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the headers of one call."""
        return (
            ("accesstoken", self.access_token),
            ("instanceurl", self.instance_url),
            ("tenantid", self.tenant_id),
        )
