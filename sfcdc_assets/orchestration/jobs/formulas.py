"""The job `read_formulas`: formula fields, which no event carries, are read where their values may be others.

It is asked for by a sensor of its own, or by `sfcdc sync` when all else is done, and waits for nobody, as nobody waits
for it.
"""

import dagster as dg

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.jobs.failed_runs import seconds_after_failures
from sfcdc_assets.orchestration.jobs.lost_runs import living_runs
from sfcdc_assets.orchestration.jobs.run_config import LONG, job_of_one_step
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.resources import opened_run, with_scope
from sfcdc_assets.org_connection.run_context import RunContext
from sfcdc_assets.org_reads.formula_round import due_entities, refresh_all
from sfcdc_assets.runtime.errors import SfcdcError, counted
from sfcdc_assets.settings.settings import Settings

NAME = "read_formulas"
LOOK_SECONDS = 60
"""How often it is looked whether an entity is due."""
PAUSE_SECONDS = 300
"""After a run that failed. An entity that fails waits longer, by what is noted of it."""


def build_read_formulas(assets: OrgAssets) -> dg.JobDefinition:
    """Build the job."""

    @dg.op(name=assets.name("read_due_formulas"), required_resource_keys=with_scope(assets))
    def read_due_formulas(context: dg.OpExecutionContext) -> None:
        """Look at the entities that are due; fails at the end if formulas of one could not be read."""
        with opened_run(assets, context.run_id) as run:
            failed = refresh_all(run, context.log.info)
            context.log.info(f"This run used {counted(run.org.session.calls, 'API request')}.")
        if failed:
            said = "; ".join(f"{entity}: {str(error).rstrip('.')}" for entity, error in failed.items())
            raise dg.Failure(said, allow_retries=False)

    return job_of_one_step(
        assets,
        NAME,
        "read_due_formulas",
        read_due_formulas,
        "Read formula fields again where their values may be others: of records that changed, of those whose "
        "parents did, each day where a formula names the time, and all after some days.",
        {**LONG, **assets.one_at_a_time(NAME)},
    )


def why_not_read(
    assets: OrgAssets, instance: dg.DagsterInstance, warehouse: Warehouse, settings: Settings
) -> str | None:
    """Return why no formula is to be read now; None where an entity is due. Makes no API calls."""
    try:
        if any(living_runs(instance, warehouse, assets.name(NAME))):
            return "A run is at work."
        pause = seconds_after_failures(instance, assets.name(NAME), PAUSE_SECONDS, PAUSE_SECONDS)
        if pause > 0:
            return f"The last run failed; the next one is due in {pause:.0f} s."
        due = due_entities(RunContext(warehouse=warehouse, settings=settings))
    except SfcdcError as error:
        return str(error)
    return None if due else "No entity is due."
