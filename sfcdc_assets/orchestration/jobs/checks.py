"""The job `checks`: evaluate the checks also where no run does, and use what is left of the audit's budget."""

from collections.abc import Iterator

import dagster as dg

from sfcdc_assets.entities.entities import entity_channels
from sfcdc_assets.orchestration.checks import drift
from sfcdc_assets.orchestration.checks.evaluations import evaluations
from sfcdc_assets.orchestration.jobs.retries import retried
from sfcdc_assets.orchestration.jobs.rolling_audit import audit_some
from sfcdc_assets.orchestration.jobs.run_config import job_of_one_step
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.resources import opened_run, with_scope

MOST_LOOKS = 500
"""In one run; the budget of an hour is less."""


CHECKS = "checks"


def build_check(assets: OrgAssets) -> dg.JobDefinition:
    """Build the job."""

    @dg.op(name=assets.name("check_all"), out=dg.Out(dg.Nothing), required_resource_keys=with_scope(assets))
    def check_all(
        context: dg.OpExecutionContext,
    ) -> Iterator[dg.AssetCheckEvaluation | dg.Output[None]]:
        """Compare records with the org as far as the hour's budget goes, and evaluate the checks."""
        with retried(context), opened_run(assets, context.run_id) as run:
            warehouse, settings = run.warehouse, run.settings
            known = entity_channels(warehouse, settings.channels, settings.entities, run.org.members)
            found = audit_some(run, known, {}, (), MOST_LOOKS)
        result = drift.result_of_look(warehouse, found.report, list(found.entities))
        for evaluation in evaluations(assets, warehouse, settings, known={drift.NAME: result}):
            context.log.info(f"{evaluation.check_name}: {'passed' if evaluation.passed else 'failed'}")
            yield evaluation
        yield dg.Output(None)

    return job_of_one_step(
        assets,
        CHECKS,
        "check_all",
        check_all,
        "Evaluate the checks of current_state, and compare records with the org as far as the hourly share of "
        "SFCDC_AUDIT_PERCENT goes. What differs is looked at again, and handed on, by the next `sync`.",
        assets.one_at_a_time(CHECKS),
    )
