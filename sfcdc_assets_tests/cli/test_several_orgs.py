"""Commands on a machine that copies several orgs: each serves the one that is named."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sfcdc_assets.cli.local_dagster.dagster_home import prepare, write_environment
from sfcdc_assets.lake.tables.organization import OrganizationLog
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.setting_values import this_org
from sfcdc_assets_tests.cli.command import refusal, sfcdc

assert this_org() is None, "a command would give this process the name of its org"
ORGANIZATIONS = {"emea": "00D000000000001EAA", "apac": "00D000000000002EAA"}


@pytest.fixture
def orgs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two, each with a warehouse that belongs to it."""
    monkeypatch.setenv("SFCDC_ORG", "")  # what a command sets is gone after the test
    monkeypatch.setenv("SFCDC_ORGS", ",".join(ORGANIZATIONS))
    for name, organization in ORGANIZATIONS.items():
        monkeypatch.setenv(f"SFCDC_{name.upper()}_WAREHOUSE", str(tmp_path / name))
        OrganizationLog(Warehouse(str(tmp_path / name))).bind(organization, clock.now_ms(), {})


@pytest.mark.usefixtures("orgs")
def test_a_command_serves_the_org_that_is_named() -> None:
    for name, organization in ORGANIZATIONS.items():
        shown = sfcdc("--org", name, "status", "--json")
        assert shown.exit_code == 0, shown.stderr
        assert organization in shown.stdout
    assert "'latam' is not one of SFCDC_ORGS (emea, apac)" in refusal(sfcdc("--org", "latam", "status"))


@pytest.mark.usefixtures("orgs")
@pytest.mark.parametrize("command", ["status", "sync", "verify"])
def test_a_command_that_no_org_is_named_for_is_refused(command: str) -> None:
    assert "Name one: `sfcdc --org emea ...`" in refusal(sfcdc(command))
    assert not Path("warehouse").exists()


def test_a_dagster_home_of_several_orgs_has_a_code_location_for_each(tmp_path: Path) -> None:
    workspace = yaml.safe_load(prepare(tmp_path / "home", list(ORGANIZATIONS)).read_text())
    found = [each["python_module"] for each in workspace["load_from"]]
    assert [(each["module_name"], each["attribute"], each["location_name"]) for each in found] == [
        ("sfcdc_assets.orgs", name, name) for name in ORGANIZATIONS
    ]


def test_another_terminal_gets_no_orgs_secret(tmp_path: Path) -> None:
    settings = {"SFCDC_ORGS": "emea", "SFCDC_EMEA_USERNAME": "me", "SFCDC_EMEA_PASSWORD": "s3cret"}
    write_environment(tmp_path / "dev.env", settings, {}, tmp_path)
    written = (tmp_path / "dev.env").read_text()
    assert "SFCDC_EMEA_USERNAME=me" in written
    assert "s3cret" not in written
