"""One org for all tests of a module, copied, changed and copied again; batches are applied in this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sfcdc_assets.emulator.traffic.traffic import FULL_MIX, TrafficGenerator
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.fixtures import batches_in_this_process, new_org, only_settings_of_tests, served

ENTITIES = ("Account", "Case", "User")


@dataclass(frozen=True)
class Asked:
    """A pipeline that lived through some changes; between the first and the last of them is `then`."""

    pipeline: EmulatedPipeline
    then: datetime

    @property
    def root(self) -> str:
        """Of the warehouse."""
        return str(self.pipeline.warehouse)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """Tables with live, deleted, changed and suspect records."""
    folder = tmp_path_factory.mktemp("asked's") / "org"
    org = new_org(folder, ENTITIES, records=12)
    with pytest.MonkeyPatch.context() as patch, batches_in_this_process():
        only_settings_of_tests(patch)
        patch.chdir(folder)
        with served(org, folder, patch) as pipeline:
            pipeline.sync()
            traffic = TrafficGenerator(org, 5, FULL_MIX, bus=pipeline.server.bus)
            traffic.run(events=40)
            then = datetime.fromtimestamp(org.clock() / 1000, UTC)
            org.clock.advance(60_000)
            traffic.run(events=40)
            with org.transaction() as one:
                for record in list(org.records("Account"))[:2]:
                    one.delete("Account", str(record["Id"]))
            pipeline.sync()
            yield Asked(pipeline, then)


@pytest.fixture
def tables_of_the_org(asked: Asked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Asked:
    """The settings of the module's warehouse, in a folder of the test's own."""
    only_settings_of_tests(monkeypatch)
    monkeypatch.setenv("SFCDC_WAREHOUSE", asked.root)
    monkeypatch.chdir(tmp_path)
    return asked
