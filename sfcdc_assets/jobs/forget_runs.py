"""The job `forget_runs`: delete what Dagster keeps of runs, past SFCDC_RUN_RETENTION_DAYS. No table of ours changes."""

from datetime import UTC, datetime, timedelta

import dagster as dg

from sfcdc_assets import clock
from sfcdc_assets.config import load_settings
from sfcdc_assets.jobs.event_log import forget
from sfcdc_assets.jobs.request import one_at_a_time
from sfcdc_assets.jobs.retries import NIGHTLY
from sfcdc_assets.jobs.snapshot import LONG


@dg.op
def forget_old_runs(context: dg.OpExecutionContext) -> None:
    """Delete old runs and events; what a page shows as the latest of a partition is kept."""
    days = load_settings().run_retention_days
    done = forget(context.instance, datetime.fromtimestamp(clock.now_ms() / 1000, UTC) - timedelta(days=days))
    context.log.info(
        f"{done.runs} runs and {done.events} events of ticks older than {days} days deleted, "
        f"{done.kept} runs of that age kept because they have the latest event of a partition"
    )


FORGET_RUNS = dg.GraphDefinition(
    name="forget_runs",
    node_defs=[forget_old_runs],
    description="Delete Dagster's runs and events that are older than SFCDC_RUN_RETENTION_DAYS. What a partition or a "
    "check shows as its latest stays. No table changes.",
).to_job(tags={**LONG, **NIGHTLY, **one_at_a_time("forget_runs")})
