"""Whether a host of the org answers over TLS, and what time it says it is. Sends no credentials."""

from __future__ import annotations

import email.utils
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sfcdc_assets.runtime.times import epoch_ms
from sfcdc_assets.salesforce.tls import TrustedRootsAdapter, trusted_roots
from sfcdc_assets.salesforce.transport import Transport

_TIMEOUT_S = (5.0, 15.0)
_TRIES = 2
_PATH = "/services/data"
"""A resource that every org has."""


@dataclass(frozen=True)
class Answered:
    """A host answered. `date_ms`: its own time (epoch ms; in whole seconds); None when it does not say."""

    host: str
    date_ms: int | None


def reach(url: str, setting: str, ca_file: Path | None) -> Answered:
    """Ask once. Raises `OrgUnreachable`, `CertificateNotTrusted`, `OrgUnavailable`, `UnexpectedAnswer`, and
    `SettingsError` for a CA file without a certificate."""
    with Transport(TrustedRootsAdapter(trusted_roots(ca_file)), timeout_s=_TIMEOUT_S) as transport:
        response = transport.call("GET", url + _PATH, setting=setting, repeatable=True, tries=_TRIES)
    date = response.headers.get("Date")
    try:
        date_ms = epoch_ms(email.utils.parsedate_to_datetime(date)) if date else None
    except ValueError:
        date_ms = None
    return Answered(url, date_ms)


def is_this_machine(url: str) -> bool:
    """Return whether the host is this machine, as it is of an emulated org."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
