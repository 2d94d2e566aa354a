"""The job `audit`: compare the tables with the org within a budget, evaluate the checks, hand on what differs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import dagster as dg

from sfcdc_assets.entities.entities import entity_channels, entity_states
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import NOW
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.orchestration.checks import drift
from sfcdc_assets.orchestration.checks.evaluations import evaluations
from sfcdc_assets.orchestration.jobs.retries import NIGHTLY, retried
from sfcdc_assets.orchestration.jobs.run_config import AFTER, LONG
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.resources import opened_run, scope_of, with_scope
from sfcdc_assets.reconciliation.audit import audit
from sfcdc_assets.reconciliation.verify import open_drift_suspects
from sfcdc_assets.reconciliation.verify_report import VerifyReport
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import counted


class AuditConfig(dg.Config):
    """How much an audit may cost."""

    budget: int = 1000
    """API requests; parts of entities that do not fit are named in the result and come first the next day."""
    entities: list[str] = []  # noqa: RUF012 - a field of a Dagster config
    """Only these; all when empty."""


@dataclass(frozen=True)
class Audited:
    """What was compared."""

    reports: Sequence[VerifyReport]


AUDIT, AUDIT_STEP = "audit", "compare"
"""The job, and its step that has the configuration."""


def build_audit(assets: OrgAssets) -> dg.JobDefinition:
    """Build the job."""

    @dg.op(name=assets.name("compare"), out=dg.Out(dg.Nothing), required_resource_keys=with_scope(assets))
    def compare(
        context: dg.OpExecutionContext, config: AuditConfig
    ) -> Iterator[dg.AssetCheckEvaluation | dg.Output[None]]:
        """Read the org by Bulk API 2.0, compare record sets and every value, and evaluate the checks."""
        with retried(context), opened_run(assets, context.run_id) as run:
            warehouse, settings = run.warehouse, run.settings
            known = entity_channels(warehouse, settings.channels, settings.entities, run.org.members)
            wanted = {entity: of for entity, of in known.items() if not config.entities or entity in config.entities}
            built = _built(warehouse, wanted)
            with Poller(warehouse, run.org, math.inf, NOW) as lander:
                # Other runs bring the tables up to date meanwhile, if any do; this one has no Spark.
                reports = audit(run, built, lander, config.budget, rounds=1)
        for report in reports:
            differences = counted(len(report.differences), "difference")
            context.log.info(f"{report.entity}: {counted(report.compared, 'record')} compared, {differences}")
        result = drift.result_of_audit(reports, [each for each in wanted if each not in built])
        yield from evaluations(assets, warehouse, settings, known={drift.NAME: result})
        scope_of(assets, context).hand_on(Audited(reports))
        yield dg.Output(None)

    @dg.op(name=assets.name("hand_on"), ins=AFTER, out=dg.Out(dg.Nothing), required_resource_keys=with_scope(assets))
    def hand_on(context: dg.OpExecutionContext) -> None:
        """Note what differs in the reconciliation ledger: the next `sync` reads it back."""
        now_ms = clock.now_ms()
        for report in scope_of(assets, context).handed_on(Audited).reports:
            opened = open_drift_suspects(assets.warehouse(), report, now_ms)
            if opened:
                context.log.warning(
                    f"{report.entity}: {counted(opened, 'record')} found to differ from the org, to be read back "
                    "by `sync`"
                )

    @dg.graph(
        name=assets.name(AUDIT),
        description="Compare the tables with the org within a budget of API requests, and their columns with its "
        "fields; what differs is read back by the next `sync`.",
    )
    def audit_graph() -> None:
        hand_on.alias("hand_on")(after=compare.alias(AUDIT_STEP)())

    tags = {**LONG, **NIGHTLY, **assets.one_at_a_time(AUDIT)}
    return audit_graph.to_job(tags=tags, executor_def=assets.executor)


def _built(warehouse: Warehouse, known: dict[str, str]) -> dict[str, str]:
    states = entity_states(warehouse, known)
    built = {state.entity for state in states if state.snapshot_applied and not state.channel_changed}
    return {entity: channel for entity, channel in known.items() if entity in built}
