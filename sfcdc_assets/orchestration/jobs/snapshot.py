"""The job `snapshot`: find the entities that need one, then read each of them from the org in a step of its own.

The copies themselves are made beside the steps, several at a time, the small ones first; a step waits for its entity's
and reports it. A run that a sensor asked for ends after a while, whatever is left: a copy pauses between two pages, the
next run goes on with it, and begins with what is small and new by then."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

import dagster as dg

from sfcdc_assets.entities.entity_state import EntityState
from sfcdc_assets.lake.tables.snapshot_plan import note_plan
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.assets.copies import Copies, CopyPaused
from sfcdc_assets.orchestration.assets.entity_failures import failure_of, mark_as_failed
from sfcdc_assets.orchestration.assets.materializations import snapshot_materialization
from sfcdc_assets.orchestration.assets.reports import Event
from sfcdc_assets.orchestration.assets.snapshots import SnapshotTaker
from sfcdc_assets.orchestration.checks.evaluations import evaluations
from sfcdc_assets.orchestration.jobs.retries import retried, retry_of
from sfcdc_assets.orchestration.jobs.run_config import AFTER, LONG, SNAPSHOT, RunRequestConfig
from sfcdc_assets.orchestration.jobs.started_run import started_run
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.resources import scope_of, spark_of, with_both
from sfcdc_assets.org_reads.take_snapshot import ObjectLeftOut
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.progress import SnapshotsWanted, notify

MOST_ENTITIES = 100
"""Of one run that a sensor asked for, the smallest: the next one goes on with the others, while their events and rows
are applied."""


@dataclass(frozen=True)
class SnapshotWork:
    """The entities that are to be read, and their copies, which go on beside the steps."""

    warehouse: Warehouse
    copies: Copies
    states: Mapping[str, EntityState]


def build_snapshot_job(assets: OrgAssets) -> dg.JobDefinition:
    """Build the job."""

    @dg.op(name=assets.name("choose"), out=dg.DynamicOut(dg.Nothing), required_resource_keys=with_both(assets))
    def choose(context: dg.OpExecutionContext, config: RunRequestConfig) -> Iterator[dg.DynamicOutput[None]]:
        """Entities that need a snapshot, the small ones first; those that a person names are read whether they need it
        or not. Their copies begin, some at a time."""
        run_scope = scope_of(assets, context)
        with (
            retried(context),
            started_run(assets, context, config) as started,
            run_scope.kept_if_done() as opened,
        ):
            run = started.run
            taker = opened.enter_context(closing(SnapshotTaker(run, started.landing)))
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

    @dg.op(name=assets.name("take"), ins=AFTER, out=dg.Out(dg.Nothing), required_resource_keys=with_both(assets))
    def take(
        context: dg.OpExecutionContext,
    ) -> Iterator[Event | dg.AssetCheckEvaluation | dg.Output[None]]:
        """Read one entity whole by Bulk API 2.0; an unfinished snapshot goes on where it stopped."""
        work, entity = scope_of(assets, context).handed_on(SnapshotWork), context.get_mapping_key() or ""
        warehouse, state = work.warehouse, work.states[entity]
        if context.retry_number:
            work.copies.begin_again(entity)
        try:
            report = work.copies.result(entity, context.log)
        except CopyPaused as paused:
            context.log.info(str(paused))
            yield dg.Output(None, metadata={"rows": paused.rows, "paused": paused.reason})
            return
        except ObjectLeftOut as left_out:
            context.log.warning(str(left_out))
            yield dg.Output(None, metadata={"left out": left_out.refusal.reason})
            return
        except Exception as error:
            if again := retry_of(context, error, spark_of(assets, context)):
                raise again from error
            mark_as_failed(context, [assets.keys.snapshot], entity)
            yield from evaluations(assets, warehouse, assets.settings())
            raise failure_of(entity, error) from error
        yield snapshot_materialization(assets, warehouse, report)
        if state.refused is not None:
            yield from evaluations(assets, warehouse, assets.settings())
        yield dg.Output(None)

    @dg.graph(
        name=assets.name(SNAPSHOT),
        description="Read entities whole from the org by Bulk API 2.0, taken at a watermark of the stream: those that "
        "need it, or those that the configuration names; the next `sync` builds the tables from it.",
    )
    def snapshot_graph() -> None:
        choose.alias("choose")().map(lambda entity: take.alias("take")(after=entity))

    return snapshot_graph.to_job(tags={**LONG, **assets.one_at_a_time(SNAPSHOT)}, executor_def=assets.executor)
