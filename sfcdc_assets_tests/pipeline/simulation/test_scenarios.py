"""Every scenario ends with tables that equal the org: one org in which they happen one after another, and a pipeline
that follows it without Dagster and Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from sfcdc_assets.apply.catch_up import ApplyListener, CatchUp
from sfcdc_assets.emulator.definitions.object_file import built_in_definitions, stock_definitions
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.emulator.scenarios.scenario import scenarios
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.entities.entities import entity_channels, entity_states
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.org_connection.org_connection import OrgConnection, connect
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.org_reads.take_snapshot import ToCopy, take_snapshot
from sfcdc_assets.org_reads.watermark import Watermarks
from sfcdc_assets.reconciliation.audit import audit
from sfcdc_assets.reconciliation.verify import open_drift_suspects
from sfcdc_assets.settings.settings import Settings, load_settings
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL
from sfcdc_assets_tests.pipeline.oracle import assert_same_rows, expected_rows
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import (
    with_roots_read_once,
    with_schemas_read_once,
    without_spark,
)
from sfcdc_assets_tests.pipeline.simulation.history_plan import SETTLE
from sfcdc_assets_tests.pipeline.simulation.read_tables import rows_of
from sfcdc_assets_tests.pipeline.simulation.simulated_history import BEGUN
from sfcdc_assets_tests.run_contexts import run_on
from sfcdc_assets_tests.simulated_clock import SimulatedClock

pytestmark = pytest.mark.slow

SALES = "/data/SalesEvents__chn"
ROUNDS = 8
"""The most runs it takes until nothing is suspect: a failed read pauses, and so does what waits for it."""


class Follower:
    """A warehouse that follows one channel of an org."""

    def __init__(
        self,
        org: EmulatedOrg,
        server: EmulatorServer,
        clock: SimulatedClock,
        folder: Path,
        channel: str,
        settings: Settings,
    ) -> None:
        self.org = org
        self.server = server
        self.clock = clock
        self.warehouse = Warehouse(str(folder))
        self.channel = channel
        self.settings = settings

    def catch_up(self) -> None:
        """What ticks and their runs do until nothing is suspect."""
        with connect(self.settings) as org, Poller(self.warehouse, org, SETTLE) as poller:
            run = self._run(org)
            watermarks = Watermarks(run, poller)
            for _ in range(ROUNDS):
                self.clock.advance(1_000)
                poller.land(self.channel)
                known = entity_channels(self.warehouse, [self.channel], (), org.members)
                for state in entity_states(self.warehouse, known, self.clock()):
                    if state.needs_snapshot:
                        take_snapshot(
                            replace(run, settings=self.settings),
                            ToCopy(state.entity, state.channel),
                            lambda position: watermarks.of(self.channel, position),
                        )
                CatchUp(run, poller, known, known, ApplyListener(), every_entity=False).run()
                states = entity_states(self.warehouse, known, self.clock())
                if not any(state.suspects_open or state.needs_snapshot for state in states):
                    return
                self.clock.advance(4_000_000)
        raise AssertionError("it does not come to an end")

    def _run(self, org: OrgConnection) -> OrgRunContext:
        changed = self.settings.model_copy(update={"visibility_seconds": 0.0, "describe_seconds": 0.0})
        return replace(run_on(self.warehouse, org), settings=changed)

    def audit(self) -> int:
        """Compare tables with the org; how many differences there are, which the next run heals."""
        with connect(self.settings) as org, Poller(self.warehouse, org, SETTLE) as poller:
            known = entity_channels(self.warehouse, [self.channel], (), org.members)
            reports = audit(self._run(org), known, poller, rounds=0)
            return sum(open_drift_suspects(self.warehouse, report, self.clock()) for report in reports)

    def assert_equal_to_the_org(self) -> None:
        """Those that are gone for good stay in the tables as deleted ones."""
        for entity in self.warehouse.entities("current_state"):
            found = {row["Id"]: row for row in rows_of(self.warehouse, f"current_state/{entity}")}
            expected = expected_rows(self.org, entity)
            gone = found.keys() - expected.keys()
            assert all(found[record_id]["_is_deleted"] for record_id in gone), entity
            assert_same_rows(entity, {key: row for key, row in found.items() if key not in gone}, expected)


@contextmanager
def following(folder: Path, authority: Path) -> Iterator[Follower]:
    clock = SimulatedClock(BEGUN)
    objects = [*built_in_definitions(), *(each for each in stock_definitions() if each.name.startswith("Event"))]
    org = EmulatedOrg(clock=clock, seed=5, objects=objects, settings=OrgSettings(late_last_events=True))
    try:
        org.selected_entities = [name for name in org.definitions if name not in ("Case", "Invoice_Statement__c")]
        org.populate(dict.fromkeys(org.selected_entities, 4))
        server = EmulatorServer(org, directory=authority)
        with server, clock.followed(server), pytest.MonkeyPatch.context() as patch:
            with_roots_read_once(patch)
            with_schemas_read_once(patch)
            without_spark(patch, Random(5))
            for name, value in server.client_environment().items():
                patch.setenv(name, value)
            yield Follower(org, server, clock, folder, CHANNEL, load_settings())
    finally:
        org.close()


@pytest.fixture(scope="module")
def follower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Follower]:
    folder = tmp_path_factory.mktemp("scenarios")
    with following(folder / "warehouse", folder) as follower:
        follower.catch_up()
        follower.assert_equal_to_the_org()
        yield follower


def test_tables_equal_the_org_after_all_scenarios_at_once(follower: Follower) -> None:
    """The event that is lost is one of an object that is read again later, for others that were not in full."""
    for name in scenarios():
        follower.server.scenarios.play(name)
    follower.catch_up()
    follower.assert_equal_to_the_org()


@pytest.mark.soak
@pytest.mark.parametrize("name", scenarios())
def test_tables_equal_the_org_after_each_scenario(follower: Follower, name: str) -> None:
    follower.server.scenarios.play(name)
    follower.catch_up()
    if name in ("lost-event", "archived-activities"):
        assert follower.audit() == (name == "lost-event")
        follower.catch_up()
    follower.assert_equal_to_the_org()


def test_tables_of_a_channel_with_enriched_events_equal_the_org(follower: Follower, tmp_path: Path) -> None:
    follower.server.scenarios.play("enrichment")
    on_channel = Follower(follower.org, follower.server, follower.clock, tmp_path, SALES, follower.settings)
    on_channel.catch_up()
    on_channel.assert_equal_to_the_org()
    follower.server.scenarios.play("enrichment")
    on_channel.catch_up()
    on_channel.assert_equal_to_the_org()
    assert on_channel.warehouse.entities("current_state") == ("Account",)
