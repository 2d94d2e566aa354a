"""Two orgs whose record ids are the same, in one workspace: two code locations of one Dagster, and two warehouses."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.org_assets import PREFIX_TAG
from sfcdc_assets.org_connection.same_organization import owner_of
from sfcdc_assets.settings.setting_values import PREFIX
from sfcdc_assets.settings.settings import is_secret
from sfcdc_assets_tests.pipeline.fixtures import no_settings_but_the_tests_own
from sfcdc_assets_tests.pipeline.oracle import assert_same_rows, expected_rows
from sfcdc_assets_tests.pipeline.simulation.read_tables import rows_of
from sfcdc_assets_tests.ui.dagster_server import DagsterServer

__all__ = ["no_settings_but_the_tests_own"]

pytestmark = pytest.mark.slow

NAMES = ("emea", "apac")
SECONDS = 400.0


@dataclass(frozen=True)
class Org:
    """One of the two, and the warehouse that is to be its copy."""

    name: str
    org: EmulatedOrg
    server: EmulatorServer
    warehouse: Warehouse

    @property
    def environment(self) -> dict[str, str]:
        """Its settings, which begin with its name."""
        settings = {**self.server.client_environment(), "SFCDC_WAREHOUSE": self.warehouse.root}
        own = {name.removeprefix(PREFIX): value for name, value in settings.items()}
        return {f"{PREFIX}{self.name.upper()}_{name}": value for name, value in own.items()}

    def ids(self) -> list[str]:
        return sorted(str(record["Id"]) for record in self.org.records("Account"))

    def change(self, text: str) -> None:
        with self.org.transaction() as work:
            for record_id in self.ids()[:3]:
                work.update("Account", record_id, {"Name": f"{text} of {self.name}"})

    def is_copied(self) -> bool:
        try:
            self.assert_equal()
        except (AssertionError, KeyError, OSError):
            return False
        return True

    def assert_equal(self) -> None:
        assert "Account" in self.warehouse.entities("current_state")
        rows = {row["Id"]: row for row in rows_of(self.warehouse, "current_state/Account")}
        assert_same_rows("Account", rows, expected_rows(self.org, "Account"))


@pytest.fixture
def orgs(tmp_path: Path) -> Iterator[tuple[Org, Org]]:
    """Made from one seed, so that records have the same ids; their values differ, and the organizations' ids do."""
    with ExitStack() as stack:
        found = []
        for name in NAMES:
            org = EmulatedOrg(tmp_path / name, seed=5)
            stack.callback(org.close)
            org.selected_entities = ["Account"]
            org.populate({"User": 3, "Account": 6})
            if found:
                org.change_organization_id()
            server = stack.enter_context(EmulatorServer(org, directory=tmp_path / name))
            found.append(Org(name, org, server, Warehouse(str(tmp_path / "warehouses" / name))))
            found[-1].change("first")
        first, second = found
        assert first.ids() == second.ids()
        assert first.org.organization_id != second.org.organization_id
        yield first, second


def test_each_code_location_copies_its_own_org_and_dagster_keeps_them_apart(
    orgs: tuple[Org, Org], tmp_path: Path
) -> None:
    settings = {"SFCDC_ORGS": ",".join(NAMES), "SFCDC_SETTLE_SECONDS": "1", "SFCDC_VISIBILITY_SECONDS": "0.5"}
    environment = {**orgs[0].environment, **orgs[1].environment, **settings}
    folder = tmp_path / "dev"
    server = DagsterServer(folder, ["Account"], 0, environment=environment)
    try:
        server.wait(lambda: all(each.is_copied() for each in orgs), SECONDS, "both orgs to be copied")
        for each in orgs:
            each.change("changed")
        server.wait(lambda: all(each.is_copied() for each in orgs), SECONDS, "the changes of both orgs")
    finally:
        server.stop(signal.SIGINT)
    for each in orgs:
        each.assert_equal()
        assert owner_of(each.warehouse) == each.org.organization_id
    shared = (folder / "dev.env").read_text()
    assert not [line for line in shared.splitlines() if is_secret(line.removeprefix("export ").split("=")[0], NAMES)]
    with dg.DagsterInstance.from_config(str(folder / "dagster_home_emea_apac")) as instance:
        keys = [tuple(key.path) for key in instance.all_asset_keys()]
        runs = instance.get_runs()
        for name in NAMES:
            assert ("salesforce", name, "current_state") in keys
            assert instance.get_dynamic_partitions(f"salesforce_{name}_entity") == ["Account"]
            made_by = [run.remote_job_origin for run in runs if run.tags.get(PREFIX_TAG) == f"salesforce_{name}"]
            assert {origin.location_name for origin in made_by if origin is not None} == {name}
        assert {key[:2] for key in keys} == {("salesforce", name) for name in NAMES}
        assert instance.get_dynamic_partitions("salesforce_entity") == []
        assert {run.tags.get(PREFIX_TAG) for run in runs} == {f"salesforce_{name}" for name in NAMES}
