"""The job `snapshot`: find the entities that need one, then read each of them from the org in a step of its own.

The copies themselves are made beside the steps, several at a time, the small ones first; a step waits for its entity's
and reports it. A run that a sensor asked for ends after a while, whatever is left: a copy pauses between two pages, the
next run goes on with it, and begins with what is small and new by then."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import dagster as dg

from sfcdc_assets.entities.entities import EntityState
from sfcdc_assets.lake.tables.snapshot_plan import note_plan
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.assets.copies import Copies, CopyPaused
from sfcdc_assets.orchestration.assets.entity_failures import failure_of, mark_as_failed
from sfcdc_assets.orchestration.assets.keys import SNAPSHOT_KEY
from sfcdc_assets.orchestration.assets.reports import Event, snapshot_materialization
from sfcdc_assets.orchestration.assets.snapshots import SnapshotTaker
from sfcdc_assets.orchestration.checks.evaluations import evaluations
from sfcdc_assets.orchestration.jobs.retries import retried, retry_of
from sfcdc_assets.orchestration.jobs.run_config import RunRequestConfig, one_at_a_time
from sfcdc_assets.orchestration.jobs.started_run import started_run
from sfcdc_assets.orchestration.jobs.sync import AFTER
from sfcdc_assets.orchestration.resources import LakeResource, OrgResource, SparkResource
from sfcdc_assets.orchestration.run_scope import RunScope
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.progress import SnapshotsWanted, notify
from sfcdc_assets.settings.settings import load_settings

LONG = {"sfcdc/work": "long"}
"""Tag of jobs that may take long: dagster.yaml leaves slots to those that apply events."""


MOST_ENTITIES = 100
"""Of one run that a sensor asked for, the smallest: the next one goes on with the others, while their events and rows
are applied."""


@dataclass(frozen=True)
class SnapshotWork:
    """The entities that are to be read, and their copies, which go on beside the steps."""

    warehouse: Warehouse
    copies: Copies
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
    """Entities that need a snapshot, the small ones first; those that a person names are read whether they need it or
    not. Their copies begin, some at a time."""
    with (
        retried(context),
        started_run(context, config, lake, org, spark, run_scope) as started,
        run_scope.kept_if_done() as opened,
    ):
        run = started.run
        taker = SnapshotTaker(run, started.landing)
        states = taker.states(started.entities)
        wanted = {state.entity: state for state in states if state.needs_snapshot or config.entities}
        records = taker.in_order(list(wanted.values()))
        if len(records) > 1 and not config.entities:
            note_plan(run.warehouse, records, clock.now_ms())
        now = list(records)[: MOST_ENTITIES if config.for_seconds else None]
        context.log.info(f"Entities to be read: {', '.join(now) or 'none'}.")
        if later := len(records) - len(now):
            context.log.info(f"{later} larger ones are left to the runs that follow.")
        notify(SnapshotsWanted(tuple(now)))
        copies = taker.copies([wanted[entity] for entity in now], config.for_seconds)
        run_scope.hand_on(SnapshotWork(run.warehouse, opened.enter_context(copies), wanted))
        for place, entity in enumerate(now, start=1):
            known = {"records": records[entity]} if records[entity] is not None else {}
            yield dg.DynamicOutput(None, mapping_key=entity, metadata={"place": place, **known})


@dg.op(ins=AFTER, out=dg.Out(dg.Nothing))
def take(
    context: dg.OpExecutionContext, spark: SparkResource, run_scope: RunScope
) -> Iterator[Event | dg.AssetCheckEvaluation | dg.Output[None]]:
    """Read one entity whole by Bulk API 2.0; an unfinished snapshot goes on where it stopped."""
    work, entity = run_scope.handed_on(SnapshotWork), context.get_mapping_key() or ""
    warehouse, state = work.warehouse, work.states[entity]
    if context.retry_number:
        work.copies.begin_again(entity)
    try:
        report = work.copies.result(entity, context.log)
    except CopyPaused as paused:
        context.log.info(str(paused))
        yield dg.Output(None, metadata={"rows": paused.rows, "paused": paused.reason})
        return
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
    """Compose the steps of the job `snapshot`."""
    choose().map(lambda entity: take(after=entity))


SNAPSHOT = snapshot_graph.to_job(tags={**LONG, **one_at_a_time("snapshot")}, executor_def=dg.in_process_executor)
