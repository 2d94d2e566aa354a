"""A CometD service for each test, and one with a subscribed client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from sfcdc_assets_tests.emulator.cometd_service.emulated import Emulated


@pytest.fixture
def emulated() -> Iterator[Emulated]:
    with closing(Emulated()) as emulated:
        yield emulated


@pytest.fixture
def subscribed(emulated: Emulated) -> Emulated:
    """A client as the guide has it: handshake, subscription, and the first connect, which is answered at once."""
    emulated.handshake()
    assert emulated.subscribe()["successful"]
    emulated.connect()
    return emulated
