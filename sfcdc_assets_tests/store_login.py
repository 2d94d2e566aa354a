"""Whose object store this process may use: a test reaches the one that it has started, and no real bucket."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from sfcdc_assets.lake.store.object_stores import STORES


def forget_logins(patch: pytest.MonkeyPatch) -> None:
    """No setting of any store is in the environment."""
    for name in [each for each in os.environ if each.startswith(tuple(STORES))]:
        patch.delenv(name)


def log_in(environment: Mapping[str, str], patch: pytest.MonkeyPatch) -> None:
    """A store's settings are in the environment, and no other's."""
    forget_logins(patch)
    for name, value in environment.items():
        patch.setenv(name, value)
