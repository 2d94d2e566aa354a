"""A scripted org, and sessions with it that never really sleep."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets_tests.environment import without_settings
from sfcdc_assets_tests.salesforce.scripted_org import ScriptedOrg
from sfcdc_assets_tests.trusted_authority import trust_only_the_org

CLIENT_SECRET = "the-client-secret"


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    without_settings(monkeypatch)
    trust_only_the_org(monkeypatch)


@pytest.fixture
def org(tmp_path) -> Iterator[ScriptedOrg]:
    server = ScriptedOrg(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def settings(org: ScriptedOrg) -> Callable[..., Settings]:
    """Settings for the scripted org with client credentials; any field may be replaced."""

    def make(**fields: object) -> Settings:
        usual = {"ca_file": org.ca_file, "login_url": org.url, "client_id": "an-app", "client_secret": CLIENT_SECRET}
        return Settings(_env_file=None, **{**usual, **fields})

    return make


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def session(settings: Callable[..., Settings], slept: list[float]) -> Iterator[OrgSession]:
    with OrgSession(settings(), sleep=slept.append, timeout_s=(2.0, 2.0)) as made:
        yield made
