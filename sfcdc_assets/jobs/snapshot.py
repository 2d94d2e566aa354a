"""The job `snapshot`: find the entities that need one, then read each of them from the org in a step of its own."""

from collections.abc import Iterator
from dataclasses import dataclass

import dagster as dg

from sfcdc_assets.assets.each_entity import failure_of, mark_as_failed
from sfcdc_assets.assets.keys import SNAPSHOT_KEY
from sfcdc_assets.assets.reports import Event, snapshot_materialization
from sfcdc_assets.assets.taking_snapshots import SnapshotTaker
from sfcdc_assets.checks.evaluations import evaluations
from sfcdc_assets.config import load_settings
from sfcdc_assets.jobs.request import RunRequestConfig, add_partitions
from sfcdc_assets.jobs.sync import IN_MEMORY
from sfcdc_assets.observation import SnapshotsWanted, notify
from sfcdc_assets.pipeline.entities import EntityState, entity_channels
from sfcdc_assets.resources.lake import LakeResource
from sfcdc_assets.resources.org import OrgResource
from sfcdc_assets.resources.run_scope import RunScope
from sfcdc_assets.resources.spark import SparkResource

LONG = {"sfcdc/work": "long"}
"""Tag of jobs that may take long: dagster.yaml leaves slots to those that apply events."""


@dataclass(frozen=True)
class SnapshotWork:
    """An entity that is to be read."""

    taker: SnapshotTaker
    state: EntityState


@dg.op(out=dg.DynamicOut(SnapshotWork, io_manager_key=IN_MEMORY))
def choose(
    context: dg.OpExecutionContext,
    config: RunRequestConfig,
    lake: LakeResource,
    org: OrgResource,
    spark: SparkResource,
    run_scope: RunScope,
) -> Iterator[dg.DynamicOutput[SnapshotWork]]:
    """Entities that need a snapshot; those that a person names are read whether they need it or not."""
    warehouse, settings = lake.warehouse(), load_settings()
    connected = run_scope.keep(org.connect(warehouse))
    landing = config.lander(warehouse, connected, settings)
    run_scope.keep(landing)
    known = entity_channels(warehouse, settings.channels, settings.entities, connected.members)
    entities = config.of(known, settings)
    add_partitions(context.instance, entities)
    taker = SnapshotTaker(warehouse, connected, landing, spark, settings)
    wanted = [state for state in taker.states(entities) if state.needs_snapshot or config.entities]
    context.log.info(f"Entities to be read: {', '.join(state.entity for state in wanted) or 'none'}.")
    notify(SnapshotsWanted(tuple(state.entity for state in wanted)))
    for state in wanted:
        yield dg.DynamicOutput(SnapshotWork(taker, state), mapping_key=state.entity)


@dg.op(out=dg.Out(dg.Nothing))
def take(
    context: dg.OpExecutionContext, work: SnapshotWork
) -> Iterator[Event | dg.AssetCheckEvaluation | dg.Output[None]]:
    """Read one entity whole by Bulk API 2.0; an unfinished snapshot goes on where it stopped."""
    warehouse = work.taker.warehouse
    try:
        report = work.taker.take(work.state, context.log)
    except Exception as error:
        mark_as_failed(context, [SNAPSHOT_KEY], work.state.entity)
        yield from evaluations(warehouse, load_settings())
        raise failure_of(work.state.entity, error) from error
    yield snapshot_materialization(warehouse, report)
    if work.state.refused is not None:
        yield from evaluations(warehouse, load_settings())
    yield dg.Output(None)


@dg.graph(
    name="snapshot",
    description="Read entities whole from the org by Bulk API 2.0, taken at a watermark of the stream: those that need "
    "it, or those that the configuration names; the next `sync` builds the tables from it.",
)
def snapshot_graph() -> None:
    choose().map(take)


SNAPSHOT = snapshot_graph.to_job(tags=LONG, executor_def=dg.in_process_executor)
