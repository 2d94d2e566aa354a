"""TLS of every connection to the org: the machine's usual roots, and the extra one of `SFCDC_CA_FILE` beside them."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache
from pathlib import Path
from typing import Any

import certifi
from requests.adapters import HTTPAdapter

from sfcdc_assets.runtime.errors import SettingsError


def trusted_roots(ca_file: Path | None) -> ssl.SSLContext:
    """Context that trusts the system's roots, certifi's roots, and those in `ca_file` (PEM).

    Raises `SettingsError` naming SFCDC_CA_FILE when the file holds no certificate.
    """
    system = ssl.get_default_verify_paths().cafile
    files = [certifi.where(), *(str(each) for each in (system, ca_file) if each is not None)]
    return _context(ca_file, tuple((each, _state(each)) for each in files))


@lru_cache(maxsize=8)
def _context(ca_file: Path | None, _files: tuple[tuple[str, object], ...]) -> ssl.SSLContext:
    """Return the context of files as they are now. Reading some hundred roots takes 25 ms, which each connection of a
    process would pay again; a file that was renewed is read again."""
    context = ssl.create_default_context()
    context.load_verify_locations(cafile=certifi.where())
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=str(ca_file))
        except (ssl.SSLError, OSError) as error:
            raise SettingsError(
                "SFCDC_CA_FILE",
                f"{ca_file} holds no certificate in PEM form",
                "Name a file that starts with -----BEGIN CERTIFICATE-----",
            ) from error
    return context


def _state(path: str) -> tuple[int, int, int] | None:
    """Return what differs once a file is another one; None: there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


class TrustedRootsAdapter(HTTPAdapter):
    """The adapter of requests with our context.

    A context instead of `Session.verify = <bundle file>`: that would replace the usual roots by the one file, and a
    combined bundle would be a temporary file that outlives nobody.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        super().__init__(max_retries=0)  # tries are counted in one place only, see transport.py

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """See `HTTPAdapter`; with the context of the trusted roots."""
        super().init_poolmanager(*args, ssl_context=self.context, **kwargs)

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        """See `HTTPAdapter`; with the context of the trusted roots."""
        return super().proxy_manager_for(proxy, ssl_context=self.context, **kwargs)

    def cert_verify(self, conn: Any, url: str, verify: bool | str, cert: Any) -> None:  # noqa: FBT001 - its form
        """See `HTTPAdapter`; the context holds the roots."""
        super().cert_verify(conn, url, verify, cert)  # type: ignore[no-untyped-call]
        if verify is True:
            # The context holds certifi's roots already; requests would have them parsed again for each connection.
            conn.ca_certs = None
