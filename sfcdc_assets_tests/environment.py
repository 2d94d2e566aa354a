"""The environment of a test: nothing in it is the developer's."""

from __future__ import annotations

import os

import pytest

BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""`requests` reads one for each connection."""


def without_settings(patch: pytest.MonkeyPatch) -> None:
    """No setting of the project, of Dagster or of TLS."""
    for name in list(os.environ):
        if name.startswith(("SFCDC_", "DAGSTER_")) or name in BUNDLES:
            patch.delenv(name)
