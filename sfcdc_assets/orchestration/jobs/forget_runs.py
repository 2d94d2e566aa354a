"""The job `forget_runs`: delete what Dagster keeps of runs, past SFCDC_RUN_RETENTION_DAYS. No table of ours changes."""

from collections.abc import Iterable
from datetime import timedelta

import dagster as dg

from sfcdc_assets.orchestration.jobs.event_log import Ours, forget
from sfcdc_assets.orchestration.jobs.retries import NIGHTLY
from sfcdc_assets.orchestration.jobs.run_config import LONG, job_of_one_step
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.resources import with_scope
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import counted

NAME = "forget_runs"


def build_forget_runs(assets: OrgAssets, jobs: Iterable[str]) -> dg.JobDefinition:
    """Build the job; `jobs`: the short names of all jobs, whose runs it forgets."""
    ours = Ours(assets.prefix, frozenset(map(assets.name, jobs)))

    @dg.op(name=assets.name("forget_old_runs"), required_resource_keys=with_scope(assets))
    def forget_old_runs(context: dg.OpExecutionContext) -> None:
        """Delete old runs and events; what a page shows as the latest of a partition is kept, and all of other code
        locations."""
        days = assets.settings().run_retention_days
        before = clock.now() - timedelta(days=days)
        done = forget(context.instance, before, ours)
        context.log.info(
            f"{counted(done.runs, 'run')} and {counted(done.events, 'event')} of ticks older than "
            f"{counted(days, 'day')} deleted, {counted(done.kept, 'run')} of that age kept for the latest event of a "
            "partition"
        )

    return job_of_one_step(
        assets,
        NAME,
        "forget_old_runs",
        forget_old_runs,
        "Delete the runs and events of these jobs and assets that are older than SFCDC_RUN_RETENTION_DAYS. What a "
        "partition or a check shows as its latest stays. No table changes.",
        {**LONG, **NIGHTLY, **assets.one_at_a_time(NAME)},
    )
