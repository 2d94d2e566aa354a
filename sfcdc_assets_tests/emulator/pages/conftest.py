"""An org with its pages, and a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets_tests.emulator.pages.browser import Browser


@pytest.fixture(scope="module")
def org() -> Iterator[EmulatedOrg]:
    org = EmulatedOrg(clock=ManualClock(), seed=6)
    org.populate(5)
    yield org
    org.close()


@pytest.fixture(scope="module")
def server(org: EmulatedOrg, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorServer]:
    with EmulatorServer(org, directory=tmp_path_factory.mktemp("org")) as server:
        yield server


@pytest.fixture
def browser(server: EmulatorServer) -> Iterator[Browser]:
    browser = Browser(server)
    yield browser
    browser.session.close()
    server.faults.disarm()
    server.rest_faults.disarm()
    server.traffic.set(0)


@pytest.fixture
def account(org: EmulatedOrg) -> str:
    with org.transaction() as unit_of_work:
        return unit_of_work.create("Account", {"Name": "Press Works", "Phone": "1", "Description": "one\r\ntwo"})
