"""One served org for a module of tests of platform events; each test leaves it without faults and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from sfcdc_assets_tests.emulator.platform_event_client import EventClient, event_client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EventClient]:
    with event_client(tmp_path_factory.mktemp("org")) as client:
        yield client


@pytest.fixture(autouse=True)
def disarmed(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "client" in request.fixturenames:
        served = request.getfixturevalue("client")
        served.server.faults.disarm()
        served.org.hidden_objects.clear()
        served.org.unreadable_objects.clear()
        settings = replace(served.org.settings, hourly_published_events=50_000, daily_generic_deliveries=1_000_000)
        served.org.settings = settings
