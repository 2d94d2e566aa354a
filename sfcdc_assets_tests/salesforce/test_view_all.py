"""What the user is shown of an org, from its permission sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.salesforce.view_all import Sight, ViewAll, ViewAllMissing
from sfcdc_assets.settings.settings import load_settings


@pytest.fixture
def org() -> Iterator[EmulatedOrg]:
    org = EmulatedOrg(seed=3)
    yield org
    org.close()


@pytest.fixture
def session(org: EmulatedOrg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OrgSession]:
    with EmulatorServer(org, directory=tmp_path) as server:
        for name, value in server.client_environment().items():
            monkeypatch.setenv(name, value)
        with OrgSession(load_settings()) as session:
            yield session


def test_view_all_data_shows_all_and_is_asked_for_once(session: OrgSession) -> None:
    view_all = ViewAll(session)
    assert view_all.of("Account") is Sight.ALL
    calls = session.calls
    assert view_all.check("Case", "a snapshot") is Sight.ALL
    assert session.calls == calls


def test_without_view_all_data_each_object_counts(org: EmulatedOrg, session: OrgSession) -> None:
    org.view_all.withdraw("Account")
    view_all = ViewAll(session)
    assert (view_all.of("Account"), view_all.of("Contact")) == (Sight.SHARED, Sight.ALL)
    with pytest.raises(
        ViewAllMissing, match=r"Account: .* View All Records on Account, so an audit .* Nothing was read"
    ):
        view_all.check("Account", "an audit")


def test_an_object_that_permission_sets_do_not_list_is_unknown(org: EmulatedOrg, session: OrgSession) -> None:
    org.view_all.withdraw()
    view_all = ViewAll(session)
    assert view_all.of("User") is Sight.UNKNOWN
    assert view_all.check("User", "a snapshot") is Sight.UNKNOWN
    assert view_all.of("Account") is Sight.SHARED


@pytest.mark.parametrize("hidden", ["PermissionSetAssignment", "PermissionSet", "ObjectPermissions"])
def test_an_org_that_does_not_tell_refuses_nothing(org: EmulatedOrg, session: OrgSession, hidden: str) -> None:
    org.view_all.withdraw()
    org.hidden_objects.add(hidden)
    assert ViewAll(session).check("Account", "a snapshot") is Sight.UNKNOWN
