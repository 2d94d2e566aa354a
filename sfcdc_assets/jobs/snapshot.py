"""The job `snapshot`: find the entities that need one, then read each of them from the org in a step of its own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import dagster as dg

from sfcdc_assets.assets.each_entity import failure_of, mark_as_failed
from sfcdc_assets.assets.keys import SNAPSHOT_KEY
from sfcdc_assets.assets.reports import Event, snapshot_materialization
from sfcdc_assets.assets.taking_snapshots import SnapshotTaker
from sfcdc_assets.checks.evaluations import evaluations
from sfcdc_assets.config import load_settings
from sfcdc_assets.jobs.request import RunRequestConfig, one_at_a_time
from sfcdc_assets.jobs.retries import retried, retry_of
from sfcdc_assets.jobs.started_run import started_run
from sfcdc_assets.jobs.sync import AFTER
from sfcdc_assets.observation import SnapshotsWanted, notify
from sfcdc_assets.pipeline.entities import EntityState
from sfcdc_assets.resources.lake import LakeResource
from sfcdc_assets.resources.org import OrgResource
from sfcdc_assets.resources.run_scope import RunScope
from sfcdc_assets.resources.spark import SparkResource

LONG = {"sfcdc/work": "long"}
"""Tag of jobs that may take long: dagster.yaml leaves slots to those that apply events."""


@dataclass(frozen=True)
class SnapshotWork:
    """The entities that are to be read, and who reads them."""

    taker: SnapshotTaker
    states: Mapping[str, EntityState]


@dg.op(out=dg.DynamicOut(dg.Nothing))
def choose(
    context: dg.OpExecutionContext,
    config: RunRequestConfig,
    lake: LakeResource,
    org: OrgResource,
    spark: SparkResource,
    run_scope: RunScope,
) -> Iterator[dg.DynamicOutput[None]]:
    """Entities that need a snapshot; those that a person names are read whether they need it or not."""
    with retried(context), started_run(context, config, lake, org, run_scope) as run:
        taker = SnapshotTaker(run.warehouse, run.org, run.landing, spark, run.settings)
        states = taker.states(run.entities)
        wanted = {state.entity: state for state in states if state.needs_snapshot or config.entities}
        context.log.info(f"Entities to be read: {', '.join(wanted) or 'none'}.")
        notify(SnapshotsWanted(tuple(wanted)))
        run_scope.hand_on(SnapshotWork(taker, wanted))
        for entity in wanted:
            yield dg.DynamicOutput(None, mapping_key=entity)


@dg.op(ins=AFTER, out=dg.Out(dg.Nothing))
def take(
    context: dg.OpExecutionContext, spark: SparkResource, run_scope: RunScope
) -> Iterator[Event | dg.AssetCheckEvaluation | dg.Output[None]]:
    """Read one entity whole by Bulk API 2.0; an unfinished snapshot goes on where it stopped."""
    work, entity = run_scope.handed_on(SnapshotWork), context.get_mapping_key() or ""
    warehouse, state = work.taker.warehouse, work.states[entity]
    try:
        report = work.taker.take(state, context.log)
    except Exception as error:
        if again := retry_of(context, error, spark):
            raise again from error
        mark_as_failed(context, [SNAPSHOT_KEY], entity)
        yield from evaluations(warehouse, load_settings())
        raise failure_of(entity, error) from error
    yield snapshot_materialization(warehouse, report)
    if state.refused is not None:
        yield from evaluations(warehouse, load_settings())
    yield dg.Output(None)


@dg.graph(
    name="snapshot",
    description="Read entities whole from the org by Bulk API 2.0, taken at a watermark of the stream: those that need "
    "it, or those that the configuration names; the next `sync` builds the tables from it.",
)
def snapshot_graph() -> None:
    choose().map(lambda entity: take(after=entity))


SNAPSHOT = snapshot_graph.to_job(tags={**LONG, **one_at_a_time("snapshot")}, executor_def=dg.in_process_executor)
