"""TLS of clients in tests: they trust the authority of the emulated org and nobody else."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from sfcdc_assets.salesforce import session
from sfcdc_assets.salesforce.tls import trusted_roots


def trust_only_the_org(patch: pytest.MonkeyPatch) -> None:
    """The public roots have no part in it, and take 0.1 s to read for each session."""
    patch.setattr(session, "trusted_roots", _authority)


def _authority(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file) if ca_file else trusted_roots(ca_file)
    except (ssl.SSLError, OSError):
        return trusted_roots(ca_file)  # which says what is wrong with the file
