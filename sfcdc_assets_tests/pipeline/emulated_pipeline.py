"""A whole pipeline of a test's own: an emulated org behind real sockets, a warehouse, a Dagster instance.

What the tables should hold is in `oracle`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult
from dagster._core.storage.partition_status_cache import build_failed_and_in_progress_partition_subset
from deltalake import DeltaTable

from sfcdc_assets.cli.local_dagster.channel_turn import Turn, look_and_run
from sfcdc_assets.cli.local_dagster.drive import sync_channels
from sfcdc_assets.definitions import ASSETS, defs
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.pubsub.subscription import Subscription
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.lake.tables.all_versions import open_history
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import TICK, PollTimeouts, until_settled
from sfcdc_assets.orchestration.jobs.run_config import config_of
from sfcdc_assets.orchestration.sensors.channel import OPEN_CHANNELS
from sfcdc_assets.orchestration.sensors.readings import ChannelRead
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.pipeline.oracle import Rows, assert_same_rows, expected_rows, with_last_values

__all__ = ["CHANNEL", "QUIET", "EmulatedPipeline", "Rows", "assert_same_rows", "expected_rows", "ids"]

CHANNEL = "/data/ChangeEvents"
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


class EmulatedPipeline:
    """What one test works with. `instance` may be replaced: nothing depends on its memory."""

    def __init__(self, org: EmulatedOrg, server: EmulatorServer, warehouse: Path, instance: dg.DagsterInstance) -> None:
        self.org = org
        self.server = server
        self.warehouse = warehouse
        self.instance = instance
        self.said: list[str] = []

    # -- doing

    def sync(self) -> list[Turn]:
        """`sfcdc sync --until-caught-up` in this process, of whose end the org has heard: before that, it sends and
        charges on."""
        of_others = self._open_streams()
        turns = sync_channels(self.instance, until_caught_up=True, report=self.said.append)
        eventually(lambda: self._open_streams() <= of_others, "the org to end the streams of a sync")
        return turns

    def _open_streams(self) -> set[Subscription]:
        return {each for each in self.server.service.streams if each.ended_at is None}

    def tick(self) -> Turn:
        """One tick that waits for the end of the last transaction, and its runs. The channel stays open, as between
        the ticks of a sensor. Raises `RunFailed`."""
        return self._tick(until_settled(load_settings().settle_seconds))

    def quick_tick(self) -> Turn:
        """One tick of the sensor, which does not wait, and its runs. Raises `RunFailed`."""
        return self._tick(TICK)

    def settled_tick(self) -> Turn:
        """A quick tick that lands what there is, and one when the settling time is over."""
        self.quick_tick()
        clock.sleep(load_settings().settle_seconds)
        return self.quick_tick()

    def _tick(self, timeouts: PollTimeouts) -> Turn:
        settings = load_settings()
        warehouse = Warehouse(settings.warehouse)
        opened = OPEN_CHANNELS.of(CHANNEL, warehouse, settings, partial(ASSETS.connect, warehouse))
        with opened.in_use():
            read = ChannelRead(CHANNEL, timeouts, (opened, opened.read(timeouts)))
        turn = look_and_run(self.instance, read)
        self.said.append(f"{CHANNEL}: {turn.said}")
        if turn.failures:
            raise turn.failures[0]
        return turn

    def sensor_tick(self) -> SensorExecutionData:
        """One evaluation of the channel's sensor as Dagster's daemon makes it; no run is launched."""
        with dg.build_sensor_context(self.instance, definitions=defs) as context:
            return defs.resolve_sensor_def(ASSETS.name("poll_ChangeEvents")).evaluate_tick(context)

    def launch(self, job: str, *entities: str, run_config: Mapping[str, Any] | None = None) -> ExecuteInProcessResult:
        """A run of a job as a person launches it from the UI, over all entities or those that its configuration
        names."""
        config = dict(run_config or {})
        if entities:
            config |= config_of(job, entities=list(entities))
        return defs.resolve_job_def(ASSETS.name(job)).execute_in_process(
            instance=self.instance, raise_on_error=False, run_config={**QUIET, **config}
        )

    def materialize(self, assets: Sequence[str], *entities: str) -> ExecuteInProcessResult:
        """Assets as a person materializes them: a partition, or a range of them (first and last)."""
        chosen = {}
        if len(entities) > 1:
            chosen |= {
                "dagster/asset_partition_range_start": entities[0],
                "dagster/asset_partition_range_end": entities[-1],
            }
        keys = {dg.AssetKey(["salesforce", name]) for name in assets}
        job = defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection=keys, asset_check_selection=set())
        return job.execute_in_process(
            instance=self.instance,
            partition_key=entities[0] if len(entities) == 1 else None,
            tags=chosen,
            raise_on_error=False,
            run_config=QUIET,
        )

    # -- looking

    def table(self, name: str) -> DeltaTable:
        """A table of the warehouse, as any other program opens it."""
        return DeltaTable(str(self.warehouse / name))

    def scan(self, name: str) -> list[dict[str, Any]]:
        """All rows of a table."""
        return pa.table(self.table(name).scan()).to_pylist()

    def all_versions(self, entity: str) -> list[dict[str, Any]]:
        """All versions of an entity's records, `_valid_to` null for the current ones."""
        return open_history(str(self.warehouse), entity).to_pylist()

    def rows(self, entity: str) -> Rows:
        """`current_state` of an entity by Id; an Id that stands twice fails the test. Without the batch, which
        is another one after a rebuild."""
        found = [{**row, "_batch": None, "_first_batch": None} for row in self.scan(f"current_state/{entity}")]
        by_id = {row["Id"]: row for row in found}
        assert len(by_id) == len(found), f"{entity}: an Id has more than one row"
        return by_id

    def versions(self) -> dict[str, int]:
        """Delta version of each entity's current_state."""
        folder = self.warehouse / "current_state"
        return {path.name: self.table(f"current_state/{path.name}").version() for path in sorted(folder.iterdir())}

    def partitions(self) -> list[str]:
        """The entities Dagster has as partitions, in the order they were added."""
        return list(self.instance.get_dynamic_partitions("salesforce_entity"))

    def failed_partitions(self, key: dg.AssetKey) -> set[str]:
        """Partitions that the asset's page shows red."""
        with partition_loading_context(dynamic_partitions_store=self.instance):
            failed, _, _ = build_failed_and_in_progress_partition_subset(self.instance, key, ASSETS.entities, 2**62)
            return set(failed.get_partition_keys())

    def last_run(self) -> str:
        """Id of the newest run."""
        return self.instance.get_run_records(limit=1)[0].dagster_run.run_id

    def failure(self, run: ExecuteInProcessResult) -> str:
        """Why a run failed, as the run's own page says it."""
        for event in run.all_events:
            if event.is_step_failure:
                data = event.step_failure_data
                cause = data.error.cause or data.error if data.error else None
                description = data.user_failure_data.description if data.user_failure_data else None
                return description or (cause.message if cause else "")
        return ""

    # -- comparing

    def assert_equal_to_the_org(self, entities: Iterable[str] | None = None) -> None:
        """Every table holds what the org's oracle holds, field by field; deleted records keep their last values."""
        for entity in entities if entities is not None else self.org.selected_entities:
            found, expected = self.rows(entity), expected_rows(self.org, entity)
            assert_same_rows(entity, found, with_last_values(self.org, entity, expected, found))


def ids(org: EmulatedOrg, entity: str) -> Sequence[str]:
    """Ids of the live records, in order."""
    return [str(record["Id"]) for record in org.records(entity)]
