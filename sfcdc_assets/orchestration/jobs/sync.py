"""The job `sync`: land, prepare what entities share, bring each entity with work up to date, note the cut, check.

What there is to do is known when it has landed, so nothing is planned before: an entity's step exists when it has
work, has its own log, and ends well or not on its own. It reports the materializations of its partitions; one that
fails marks those as failed, and no others.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import dagster as dg

from sfcdc_assets.apply.apply_changes import Ready
from sfcdc_assets.apply.catch_up import HEALING_SECONDS, CatchUp
from sfcdc_assets.apply.follow_run import FOLLOW_SECONDS, QUIET_SECONDS, Following
from sfcdc_assets.orchestration.assets.entity_failures import failure_of, mark_as_failed
from sfcdc_assets.orchestration.assets.reports import Event, RunReports
from sfcdc_assets.orchestration.checks import drift
from sfcdc_assets.orchestration.checks.evaluations import evaluations
from sfcdc_assets.orchestration.jobs.hand_over import TAKES_OVER_TAG, hand_over, has_ended, note_following, wait_for
from sfcdc_assets.orchestration.jobs.retries import retried, retry_of
from sfcdc_assets.orchestration.jobs.rolling_audit import audit_some, hand_on
from sfcdc_assets.orchestration.jobs.run_config import AFTER, SYNC, RunRequestConfig
from sfcdc_assets.orchestration.jobs.started_run import StartedRun, started_run
from sfcdc_assets.orchestration.jobs.sync_values import PreparedEntities, StepLanded
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.resources import scope_of, spark_of, with_both, with_scope
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.runtime.progress import WorkFound, notify
from sfcdc_assets.salesforce.rest_deadline import UnansweredTime, unanswered_at_most
from sfcdc_assets.spark.cluster import is_cluster

WAITS_SECONDS = 10.0
"""How long a run has been in the queue before one that follows gives way to it."""
FIRST = {"dagster/priority": "1"}
"""Tag of jobs that apply events: of the runs that wait for a slot they are started first."""


def build_sync(assets: OrgAssets) -> dg.JobDefinition:
    """Build the job."""
    land, prepare, apply = _land(assets).alias("land"), _prepare(assets).alias("prepare"), _apply(assets).alias("apply")
    cut, follow, check = _cut(assets).alias("cut"), _follow(assets).alias("follow"), _check(assets).alias("check")

    @dg.graph(
        name=assets.name(SYNC),
        description="Land what the channels bring and bring the tables of the entities that have work up to the last "
        "complete transaction, an entity a step. Safe at any time: what is already applied is not applied again.",
    )
    def sync_graph() -> None:
        prepared = prepare(after=land())
        applied = prepared.map(lambda entity: apply(after=entity)).collect()
        check(after=follow(after=cut(after=applied)))

    return sync_graph.to_job(tags={**FIRST, **assets.one_at_a_time(SYNC)}, executor_def=assets.executor)


def _land(assets: OrgAssets) -> dg.OpDefinition:
    @dg.op(name=assets.name("land"), out=dg.Out(dg.Nothing), required_resource_keys=with_both(assets))
    def land(
        context: dg.OpExecutionContext, config: RunRequestConfig
    ) -> Iterator[Event | dg.AssetCheckEvaluation | dg.Output[None]]:
        """Land what the channels bring, and find out which entities have work."""
        spark = spark_of(assets, context)
        with retried(context, spark), started_run(assets, context, config) as started:
            run = started.run
            if config.takes_over is not None:
                said = "This run takes over from run %s, and begins when that one has applied its last batch."
                context.log.info(said, config.takes_over)
                if not is_cluster(run.settings):  # whose cores the other run has
                    run.spark()
                wait_for(context.instance, run.warehouse, config.takes_over)
            reports = RunReports.of_run(assets, context, run, started.entities, with_columns=False)
            catch_up = CatchUp(
                run,
                started.landing,
                started.entities,
                started.known,
                reports,
                every_entity=False,
                waits=not config.follow_seconds,
            )
            reports.log = context.log
            states = {state.entity: state for state in catch_up.land()}
            for entity, damage in catch_up.damaged.items():
                context.log.warning(f"{entity} is left out: {damage}")
                mark_as_failed(context, assets.keys.of_tables, entity)
            yield from reports.take()
            notify(WorkFound(tuple(states)))
            context.log.info(f"Entities with work: {', '.join(states) or 'none'}.")
            following = _following(context, config, started)
            if states and following is not None and config.takes_over is None:
                # Dagster takes an evaluation of a run for that of all its materializations: the run may go on for
                # minutes, and the checks would read "not evaluated" until its last step.
                yield from evaluations(assets, run.warehouse, run.settings)
            scope_of(assets, context).hand_on(
                StepLanded(run, started.known, catch_up, reports, states, following, checks_after=config.takes_over)
            )
            yield dg.Output(None)

    return land


def _prepare(assets: OrgAssets) -> dg.OpDefinition:
    @dg.op(
        name=assets.name("prepare"), ins=AFTER, out=dg.DynamicOut(dg.Nothing), required_resource_keys=with_both(assets)
    )
    def prepare(
        context: dg.OpExecutionContext,
    ) -> Iterator[dg.DynamicOutput[None]]:
        """Do what entities share: the files of all are written in few jobs of Spark, and committed some at a time."""
        landed = scope_of(assets, context).handed_on(StepLanded)
        try:
            ready = landed.catch_up.commit(landed.catch_up.prepare(list(landed.states.values())))
        except Exception as error:
            if again := retry_of(context, error, spark_of(assets, context)):
                raise again from error
            for entity in landed.states:
                mark_as_failed(context, assets.keys.of_tables, entity)
            raise
        scope_of(assets, context).hand_on(PreparedEntities(ready))
        for entity in list(ready):
            yield dg.DynamicOutput(None, mapping_key=entity)

    return prepare


def _apply(assets: OrgAssets) -> dg.OpDefinition:
    @dg.op(name=assets.name("apply"), ins=AFTER, out=dg.Out(dg.Nothing), required_resource_keys=with_both(assets))
    def apply(
        context: dg.OpExecutionContext,
    ) -> Iterator[Event | dg.AssetCheckEvaluation | dg.Output[None]]:
        """Commit one entity's batch if that is not done, read its suspect records back, report."""
        scope = scope_of(assets, context)
        landed, prepared = scope.handed_on(StepLanded), scope.handed_on(PreparedEntities)
        landed.reports.log = context.log
        entity = context.get_mapping_key() or ""
        state = landed.states[entity]
        try:
            # What was prepared may be what failed, or may be committed by now: a retry begins with the tables as they
            # are.
            ready: dict[str, Ready] = {**landed.catch_up.prepare([state])} if context.retry_number else prepared.of
            landed.applied[entity] = landed.catch_up.bring_up_to_date(state, ready.pop(entity))
        except Exception as error:
            if again := retry_of(context, error, spark_of(assets, context)):
                raise again from error
            mark_as_failed(context, assets.keys.of_tables, entity)
            landed.failed.add(entity)
            for stopped in landed.cut_without_the_failed():
                mark_as_failed(context, assets.keys.of_tables, stopped)
            yield from landed.reports.take()
            yield from evaluations(assets, landed.run.warehouse, landed.run.settings)
            raise failure_of(entity, error) from error
        for stopped in landed.cut_without_the_failed():
            mark_as_failed(context, assets.keys.of_tables, stopped)
        yield from landed.reports.take_due() if landed.goes_on else landed.reports.take()
        yield dg.Output(None)

    return apply


def _cut(assets: OrgAssets) -> dg.OpDefinition:
    @dg.op(name=assets.name("cut"), ins=AFTER, out=dg.Out(dg.Nothing), required_resource_keys=with_both(assets))
    def cut(context: dg.OpExecutionContext) -> Iterator[Event | dg.Output[None]]:
        """Cut when all entities are done: apply what was read back of suspect records, of all entities at once, then
        what followed it, and note the consistent cut."""
        landed = scope_of(assets, context).handed_on(StepLanded)
        landed.reports.log = context.log
        spark = spark_of(assets, context)
        with retried(context, spark):
            stopped = landed.apply_reads()
            for error in stopped.values():
                if again := retry_of(context, error, spark):
                    raise again from error
            landed.catch_up.finish(list(landed.applied.values()), stopped)
        yield from landed.reports.take_due() if landed.goes_on and not stopped else landed.reports.take()
        for entity in stopped:
            mark_as_failed(context, assets.keys.of_tables, entity)
        for entity, error in stopped.items():
            raise failure_of(entity, error) from error
        yield dg.Output(None)

    return cut


def _follow(assets: OrgAssets) -> dg.OpDefinition:
    @dg.op(name=assets.name("follow"), ins=AFTER, out=dg.Out(dg.Nothing), required_resource_keys=with_scope(assets))
    def follow(context: dg.OpExecutionContext) -> Iterator[Event | dg.AssetCheckEvaluation | dg.Output[None]]:
        """Go on for a while with what the sensor lands: to start a run takes longer than to apply a second's changes.
        What fails is not tried again here: the next run does that."""
        landed = scope_of(assets, context).handed_on(StepLanded)
        landed.reports.log = context.log
        if landed.following:
            note_following(context.instance, context.run_id, landed.following.seconds_left)
            context.log.info(
                f"The run goes on with what the sensor lands, for up to {FOLLOW_SECONDS / 60:.0f} minutes, and ends "
                f"when nothing has come for {QUIET_SECONDS:.0f} s or another run waits: to start a run takes longer "
                "than to apply a second's changes."
            )
        checks_after = landed.checks_after
        for failed in landed.catch_up.follow(landed.following) if landed.following else ():
            yield from landed.reports.take() if failed else landed.reports.take_due()
            if checks_after is not None and has_ended(context.instance, checks_after):
                checks_after = None  # what that one has evaluated last is newer than what this one did before
                yield from evaluations(assets, landed.run.warehouse, landed.run.settings)
            for entity in failed:
                mark_as_failed(context, assets.keys.of_tables, entity)
            for entity, error in failed.items():
                raise failure_of(entity, error) from error
        if landed.following:
            hand_over(context.instance, context.run_id)
        yield from landed.reports.take(is_calm=landed.following is None or not landed.following.is_over)
        yield dg.Output(None)

    return follow


def _check(assets: OrgAssets) -> dg.OpDefinition:
    @dg.op(name=assets.name("check"), ins=AFTER, out=dg.Out(dg.Nothing), required_resource_keys=with_scope(assets))
    def check(context: dg.OpExecutionContext) -> Iterator[dg.AssetCheckEvaluation | dg.Output[None]]:
        """Compare some records with the org, have what differs read back by the next run, and evaluate the checks."""
        landed = scope_of(assets, context).handed_on(StepLanded)
        run, applied, until_ms = landed.run, list(landed.applied.values()), landed.catch_up.landed_until_ms
        with unanswered_at_most(UnansweredTime(HEALING_SECONDS)):  # the sensor waits for this run
            found = outcome_of(audit_some, run, landed.known, until_ms, applied)
        known = {}
        if isinstance(found, Exception):
            context.log.warning(f"No records were compared with the org: {found}")
        else:
            known[drift.NAME] = drift.result_of_look(run.warehouse, found.report, list(found.entities))
            for difference in found.report.differences:
                context.log.warning(f"{difference.place}; it is read back by the next run")
            hand_on(run.warehouse, found)
        for evaluation in evaluations(assets, run.warehouse, run.settings, known=known):
            if not evaluation.passed:
                context.log.warning(f"The check {evaluation.check_name} fails.")
            yield evaluation
        used = {"api_requests": run.org.session.calls, "deliveries": landed.reports.deliveries}
        requests = counted(used["api_requests"], "API request")
        context.log.info(f"This run used {requests} and {counted(used['deliveries'], 'delivery')}.")
        yield dg.Output(None, metadata=used)
        # Last: what had landed is done.
        for entity, damage in landed.catch_up.damaged.items():
            raise failure_of(entity, damage) from damage
        for error in landed.catch_up.not_drained.values():
            raise error

    return check


def _following(context: dg.OpExecutionContext, config: RunRequestConfig, started: StartedRun) -> Following | None:
    if not config.follow_seconds:
        return None
    instance = context.instance
    return Following(
        started.run,
        started.landing,
        started.entities,
        started.known,
        config.follow_seconds,
        gives_way=lambda: a_run_waits(instance, datetime.now(UTC)),
    )


def a_run_waits(instance: dg.DagsterInstance, now: datetime) -> bool:
    """Whether a run waits that a slot is lacking for: the queue is looked at every second, so that each run is in it
    for a moment. One that takes over from another waits for that one's slot."""
    queued = dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED], created_before=now - timedelta(seconds=WAITS_SECONDS))
    return any(TAKES_OVER_TAG not in run.tags for run in instance.get_runs(queued))
