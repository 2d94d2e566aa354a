"""The job `checks`: evaluate the checks also where no run does, and use what is left of the audit's budget."""

from collections.abc import Iterator

import dagster as dg

from sfcdc_assets.entities.entities import entity_channels
from sfcdc_assets.orchestration.checks import drift
from sfcdc_assets.orchestration.checks.evaluations import evaluations
from sfcdc_assets.orchestration.jobs.retries import retried
from sfcdc_assets.orchestration.jobs.rolling_audit import audit_some
from sfcdc_assets.orchestration.jobs.run_config import one_at_a_time
from sfcdc_assets.orchestration.resources import LakeResource, OrgResource, opened_run
from sfcdc_assets.settings.setting_values import as_set_here

MOST_LOOKS = 500
"""In one run; the budget of an hour is less."""


@dg.op(out=dg.Out(dg.Nothing))
def check_all(
    context: dg.OpExecutionContext, lake: LakeResource, org: OrgResource
) -> Iterator[dg.AssetCheckEvaluation | dg.Output[None]]:
    """Compare records with the org as far as the hour's budget goes, and evaluate the checks."""
    with retried(context), opened_run(context.run_id, lake, org) as run:
        warehouse, settings = run.warehouse, run.settings
        known = entity_channels(warehouse, settings.channels, settings.entities, run.org.members)
        found = audit_some(run, known, {}, (), MOST_LOOKS)
    result = drift.result_of_look(warehouse, found.report, list(found.entities))
    for evaluation in evaluations(warehouse, settings, known={drift.NAME: result}):
        context.log.info(f"{evaluation.check_name}: {'passed' if evaluation.passed else 'failed'}")
        yield evaluation
    yield dg.Output(None)


@dg.graph(
    name="checks",
    description=as_set_here(
        "Evaluate the checks of current_state, and compare records with the org as far as the hourly share of "
        "SFCDC_AUDIT_PERCENT goes. What differs is looked at again, and handed on, by the next `sync`."
    ),
)
def check_graph() -> None:
    """Compose the steps of the job `checks`."""
    check_all()


CHECK = check_graph.to_job(tags=one_at_a_time("checks"), executor_def=dg.in_process_executor)
