"""Fixtures that tests of the command use too: an org behind its sockets, and an environment with nothing else in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from sfcdc_assets.cli import rebuild
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.pubsub.stream_timing import StreamTiming
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.orchestration import resources as spark_resource
from sfcdc_assets.orchestration.jobs import retries
from sfcdc_assets.orchestration.sensors.channel import OPEN_CHANNELS
from sfcdc_assets.settings.settings import Settings, load_settings
from sfcdc_assets_tests.environment import without_settings
from sfcdc_assets_tests.orchestration.dagster_instance import instance_in_memory
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import without_spark
from sfcdc_assets_tests.simulated_clock import SimulatedClock
from sfcdc_assets_tests.trusted_authority import trust_only_the_org

SEED = 23
SPARK_OF_TESTS = {
    "SFCDC_SPARK_MASTER": "local[2]",
    "SFCDC_SPARK_CONF_spark.sql.shuffle.partitions": "2",
    "SFCDC_SPARK_KEPT": "false",
}
"""A tick of a test's sensor starts no Spark: it would be kept until the process of the tests ends."""
ONLY_TICKS_LAND = {"SFCDC_LAND_SECONDS": "0"}
"""What is landed, a test's tick lands: what arrives between two of them has tests of its own."""


@pytest.fixture(autouse=True)
def no_settings_but_the_tests_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the developer's environment nor a `.env` file nor DAGSTER_HOME is seen by a test."""
    only_settings_of_tests(monkeypatch)
    monkeypatch.chdir(tmp_path)


def only_settings_of_tests(patch: pytest.MonkeyPatch) -> None:
    """No others, and those of all tests."""
    without_settings(patch)
    for name, value in {**SPARK_OF_TESTS, **ONLY_TICKS_LAND}.items():
        patch.setenv(name, value)


def session_of_tests() -> SparkSession:
    """What batches of the module's tests are applied with: Spark's session, or something that stands for it."""
    return spark_resource.ready_spark(load_settings())


def _no_session(settings: Settings) -> SparkSession:
    return cast(SparkSession, SimpleNamespace(is_stopped=False))


@contextmanager
def batches_in_this_process() -> Iterator[None]:
    """Batches are applied by the functions of Spark's tasks in this process, and no JVM is started: for all that does
    not depend on who runs them."""
    with pytest.MonkeyPatch.context() as patch:
        without_spark(patch, Random(SEED))
        for module in (spark_resource, rebuild):
            patch.setattr(module, "ready_spark", _no_session)
        yield


@pytest.fixture
def make_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., EmulatedPipeline]]:
    """Makes a pipeline over a new org; its settings are the environment's from then on."""
    with ExitStack() as opened:

        def make(
            *entities: str, records: int = 30, seed: int = SEED, timing: StreamTiming | None = None
        ) -> EmulatedPipeline:
            folder = tmp_path / f"org{seed}"
            return opened.enter_context(served(new_org(folder, entities, records, seed), folder, monkeypatch, timing))

        yield make


def new_org(folder: Path, entities: Sequence[str], records: int, seed: int = SEED) -> EmulatedOrg:
    """An org with so many records of each object; the objects named publish change events, or all."""
    org = opened_org(folder, entities, seed)
    org.populate(records)
    return org


def opened_org(
    folder: Path, entities: Sequence[str], seed: int = SEED, clock: SimulatedClock | None = None
) -> EmulatedOrg:
    """The org of a folder. Its clock is its client's too, and jumps over what would be waited for; by default it begins
    at the machine's time."""
    org = EmulatedOrg(folder, seed=seed, clock=clock or SimulatedClock(runs=True))
    if entities:
        org.selected_entities = list(entities)
    return org


@contextmanager
def followed(org: EmulatedOrg, server: EmulatorServer) -> Iterator[None]:
    """The client has the org's clock, and no channel stays open at the end."""
    if not isinstance(org.clock, SimulatedClock):
        raise TypeError("the org of a test has a simulated clock")
    with org.clock.followed(server):
        try:
            yield
        finally:
            OPEN_CHANNELS.close()


_CLOCK = "clock.json"
"""A file in the folder of an org that is kept for copies: its clock has jumped, and no clock goes back."""


def keep_clock(org: EmulatedOrg, folder: Path) -> None:
    """Note what time it is in the org, and how the machine's time became it: a library dates the creation of tables."""
    if not isinstance(org.clock, SimulatedClock):
        raise TypeError("the org of a test has a simulated clock")
    (folder / _CLOCK).write_text(json.dumps({"now": org.clock(), "offsets": org.clock.offsets}))


def keep(folder: Path, entities: Sequence[str], records: int) -> Path:
    """Make a new org and a warehouse that equals it in the folder, for copies: a first sync takes three times what a
    later one does."""
    org = new_org(folder, entities, records)
    with pytest.MonkeyPatch.context() as patch, batches_in_this_process():
        only_settings_of_tests(patch)
        patch.chdir(folder)
        with served(org, folder, patch) as pipeline:
            pipeline.sync()
            keep_clock(org, folder)
    return folder


@contextmanager
def copied(kept: Path, folder: Path, patch: pytest.MonkeyPatch) -> Iterator[EmulatedPipeline]:
    """A pipeline over a copy of an org and a warehouse that were kept; the Dagster instance is new and knows nothing of
    them."""
    shutil.copytree(kept, folder)
    clock = SimulatedClock(**json.loads((folder / _CLOCK).read_text()), runs=True)
    with served(opened_org(folder, (), clock=clock), folder, patch) as pipeline:
        yield pipeline


@contextmanager
def served(
    org: EmulatedOrg, folder: Path, patch: pytest.MonkeyPatch, timing: StreamTiming | None = None
) -> Iterator[EmulatedPipeline]:
    """The org behind its sockets, with the settings of its client in the environment; closed at the end."""
    warehouse = folder / "warehouse"
    try:
        server = EmulatorServer(org, directory=folder, timing=timing)
        with server, instance_in_memory() as instance, followed(org, server):
            trust_only_the_org(patch)
            patch.setattr(retries, "PAUSE_SECONDS", 0.0)  # Dagster waits by the machine's clock
            for name, value in {**server.client_environment(), "SFCDC_WAREHOUSE": str(warehouse)}.items():
                patch.setenv(name, value)
            yield EmulatedPipeline(org, server, warehouse, instance)
    finally:
        org.close()
