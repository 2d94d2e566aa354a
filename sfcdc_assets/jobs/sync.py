"""The job `sync`: land, prepare what entities share, bring each entity with work up to date, note the cut, check.

What there is to do is known when it has landed, so nothing is planned before: an entity's step exists when it has
work, has its own log, and ends well or not on its own. It reports the materializations of its partitions; one that
fails marks those as failed, and no others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from sfcdc_assets.assets.catching_up import catch_up_of_run
from sfcdc_assets.assets.each_entity import failure_of, mark_as_failed
from sfcdc_assets.assets.keys import TABLE_KEYS
from sfcdc_assets.assets.reports import Event, RunReports
from sfcdc_assets.checks import drift
from sfcdc_assets.checks.evaluations import evaluations
from sfcdc_assets.config import load_settings
from sfcdc_assets.jobs.request import RunRequestConfig, add_partitions
from sfcdc_assets.jobs.rolling_audit import audit_some, hand_on
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.observation import WorkFound, notify
from sfcdc_assets.outcome import outcome_of
from sfcdc_assets.pipeline.applying.apply_changes import Prepared
from sfcdc_assets.pipeline.catch_up import Applied, CatchUp
from sfcdc_assets.pipeline.entities import EntityState, entity_channels
from sfcdc_assets.pipeline.following import Following
from sfcdc_assets.pipeline.landing.lander import Lander
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.resources.lake import LakeResource
from sfcdc_assets.resources.org import OrgResource
from sfcdc_assets.resources.run_scope import RunScope
from sfcdc_assets.resources.spark import SparkResource

FIRST = {"dagster/priority": "1"}
"""Tag of jobs that apply events: of the runs that wait for a slot they are started first."""

IN_MEMORY = "in_memory"


@dataclass(frozen=True)
class Landed:
    """A run under way, and the entities that have work."""

    catch_up: CatchUp
    reports: RunReports
    warehouse: Warehouse
    org: OrgConnection
    known: Mapping[str, str]
    states: Sequence[EntityState]
    following: Following | None


@dataclass(frozen=True)
class EntityWork:
    """One entity's part of it."""

    landed: Landed
    state: EntityState
    prepared: Prepared | Exception


@dg.op(out=dg.Out(Landed, io_manager_key=IN_MEMORY))
def land(
    context: dg.OpExecutionContext,
    config: RunRequestConfig,
    lake: LakeResource,
    org: OrgResource,
    spark: SparkResource,
    run_scope: RunScope,
) -> Iterator[Event | dg.AssetCheckEvaluation | dg.Output[Landed]]:
    """Land what the channels bring, and find out which entities have work."""
    warehouse, settings = lake.warehouse(), load_settings()
    connected = run_scope.keep(org.connect(warehouse))
    landing = config.lander(warehouse, connected, settings)
    run_scope.keep(landing)
    known = entity_channels(warehouse, settings.channels, settings.entities, connected.members)
    entities = config.of(known, settings)
    add_partitions(context.instance, entities)
    catch_up, reports = catch_up_of_run(
        context, warehouse, connected, landing, spark, settings, entities, known, every_entity=False
    )
    reports.log = context.log
    states = catch_up.land()
    yield from reports.take()
    if states:
        # Dagster takes an evaluation of a run for that of all its materializations: a run may go on for minutes, and
        # the checks would read "not evaluated" until its last step.
        yield from evaluations(warehouse, settings)
    notify(WorkFound(tuple(state.entity for state in states)))
    context.log.info(f"Entities with work: {', '.join(state.entity for state in states) or 'none'}.")
    following = _following(context, config, warehouse, connected, landing, entities, known)
    yield dg.Output(Landed(catch_up, reports, warehouse, connected, known, states, following))


def _following(
    context: dg.OpExecutionContext,
    config: RunRequestConfig,
    warehouse: Warehouse,
    org: OrgConnection,
    landing: Lander,
    entities: Mapping[str, str],
    known: Mapping[str, str],
) -> Following | None:
    if not config.follow_seconds:
        return None
    instance, queued = context.instance, dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED])
    return Following(
        warehouse,
        landing,
        entities,
        known,
        org.privacy,
        config.follow_seconds,
        gives_way=lambda: instance.get_runs_count(queued) > 0,
    )


@dg.op(out=dg.DynamicOut(EntityWork, io_manager_key=IN_MEMORY))
def prepare(context: dg.OpExecutionContext, landed: Landed) -> Iterator[dg.DynamicOutput[EntityWork]]:
    """Do what entities share: the files of all are written in few jobs of Spark, and no table knows them yet."""
    try:
        prepared = landed.catch_up.prepare(landed.states)
    except Exception:
        for state in landed.states:
            mark_as_failed(context, TABLE_KEYS, state.entity)
        raise
    for state in landed.states:
        yield dg.DynamicOutput(EntityWork(landed, state, prepared[state.entity]), mapping_key=state.entity)


@dg.op(out=dg.Out(Applied, io_manager_key=IN_MEMORY))
def apply(
    context: dg.OpExecutionContext, work: EntityWork
) -> Iterator[Event | dg.AssetCheckEvaluation | dg.Output[Applied]]:
    """Commit one entity's batch, read its suspect records back, apply what was read, report."""
    landed, entity = work.landed, work.state.entity
    landed.reports.log = context.log
    try:
        applied = landed.catch_up.bring_up_to_date(work.state, work.prepared)
    except Exception as error:
        mark_as_failed(context, TABLE_KEYS, entity)
        yield from evaluations(landed.warehouse, load_settings())
        raise failure_of(entity, error) from error
    yield from landed.reports.take()
    yield dg.Output(applied)


@dg.op(out=dg.Out(Landed, io_manager_key=IN_MEMORY))
def cut(context: dg.OpExecutionContext, landed: Landed, applied: list[Applied]) -> Iterator[Event | dg.Output[Landed]]:
    """When all entities are done: apply what followed records that were read back, and note the consistent cut."""
    landed.reports.log = context.log
    landed.catch_up.finish(applied)
    yield from landed.reports.take()
    yield dg.Output(landed)


@dg.op(out=dg.Out(Landed, io_manager_key=IN_MEMORY))
def follow(context: dg.OpExecutionContext, landed: Landed) -> Iterator[Event | dg.Output[Landed]]:
    """Go on for a while with what the sensor lands: to start a run takes longer than to apply a second's changes."""
    landed.reports.log = context.log
    for failed in landed.catch_up.follow(landed.following) if landed.following else ():
        yield from landed.reports.take()
        for entity in failed:
            mark_as_failed(context, TABLE_KEYS, entity)
        for entity, error in failed.items():
            raise failure_of(entity, error) from error
    yield dg.Output(landed)


@dg.op(out=dg.Out(dg.Nothing))
def check(
    context: dg.OpExecutionContext, landed: Landed, applied: list[Applied]
) -> Iterator[dg.AssetCheckEvaluation | dg.Output[None]]:
    """Compare some records with the org, have what differs read back by the next run, and evaluate the checks."""
    warehouse, settings = landed.warehouse, load_settings()
    found = outcome_of(audit_some, warehouse, landed.org, landed.known, landed.catch_up.told_until_ms, applied)
    known = {}
    if isinstance(found, Exception):
        context.log.warning(f"No records were compared with the org: {found}")
    else:
        known[drift.NAME] = drift.result_of_look(warehouse, found.report, list(found.entities))
        for difference in found.report.differences:
            context.log.warning(f"{difference}; it is read back by the next run")
        hand_on(warehouse, found)
    for evaluation in evaluations(warehouse, settings, known=known):
        if not evaluation.passed:
            context.log.warning(f"The check {evaluation.check_name} fails.")
        yield evaluation
    yield dg.Output(None)


@dg.graph(
    name="sync",
    description="Land what the channels bring and bring the tables of the entities that have work up to the last "
    "complete transaction, an entity a step. Safe at any time: what is already applied is not applied again.",
)
def sync_graph() -> None:
    landed = land()
    applied = prepare(landed).map(apply).collect()
    check(follow(cut(landed, applied)), applied)


SYNC = sync_graph.to_job(tags=FIRST, executor_def=dg.in_process_executor)
