"""A set-up in which the doctor finds nothing: an org, the environment and a folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sfcdc_assets.cli.local_dagster.dagster_ui import free_port
from sfcdc_assets.doctor import examination
from sfcdc_assets.doctor.examination import Machine, examine
from sfcdc_assets.doctor.finding import Finding
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.lake.delta import commit_probe
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce import host_check
from sfcdc_assets_tests.environment import without_settings
from sfcdc_assets_tests.trusted_authority import _authority, trust_only_the_org

ENTITIES = ["Account", "Contact"]
HOUR = 3_600_000


@dataclass(frozen=True)
class SetUp:
    """What one may break: an org, the environment, and a folder of one's own."""

    org: EmulatedOrg
    server: EmulatorServer
    patch: pytest.MonkeyPatch
    folder: Path
    undo: ExitStack

    @property
    def warehouse(self) -> Warehouse:
        """That of the settings."""
        return Warehouse(str(self.folder / "warehouse"))

    def findings(self, now_ms: Callable[[], int] = clock.now_ms) -> list[Finding]:
        """What the doctor finds."""
        return list(examine(Machine(os.environ, 0, free_port, now_ms)))


@contextmanager
def served_org() -> Iterator[tuple[EmulatedOrg, EmulatorServer]]:
    """An org of two objects for all set-ups."""
    with tempfile.TemporaryDirectory() as folder:
        org = EmulatedOrg(seed=3)
        org.populate({"User": 3, "Account": 4, "Contact": 4})
        org.selected_entities = list(ENTITIES)
        try:
            with EmulatorServer(org, directory=Path(folder)) as server:
                yield org, server
        finally:
            org.close()


@contextmanager
def set_up(org: EmulatedOrg, server: EmulatorServer, folder: Path) -> Iterator[SetUp]:
    """A healthy one, which is healthy again at the end."""
    before = org.settings
    with pytest.MonkeyPatch.context() as patch, ExitStack() as undo:
        without_settings(patch)
        trust_only_the_org(patch)
        patch.setattr(host_check, "trusted_roots", _authority)
        for number in ("WRITERS", "ROUNDS"):
            patch.setattr(commit_probe, number, 1)  # that commits meet is tested by itself, and is the dearest check
        patch.setattr(examination, "_session", lambda _: None)  # whoever says that there is a cluster
        for name, value in server.client_environment().items():
            patch.setenv(name, value)
        patch.setenv("SFCDC_WAREHOUSE", str(folder / "warehouse"))
        patch.chdir(folder)
        try:
            yield SetUp(org, server, patch, folder, undo)
        finally:
            org.settings = before
            org.view_all.give_back()
            org.selected_entities = list(ENTITIES)
            server.rest_faults.disarm()
