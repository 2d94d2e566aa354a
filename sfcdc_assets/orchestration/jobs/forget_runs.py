"""The job `forget_runs`: delete what Dagster keeps of runs, past SFCDC_RUN_RETENTION_DAYS. No table of ours changes."""

from datetime import UTC, datetime, timedelta

import dagster as dg

from sfcdc_assets.orchestration.assets.keys import PREFIX
from sfcdc_assets.orchestration.jobs.audit import AUDIT
from sfcdc_assets.orchestration.jobs.checks import CHECK
from sfcdc_assets.orchestration.jobs.event_log import Ours, forget
from sfcdc_assets.orchestration.jobs.formulas import READ_FORMULAS
from sfcdc_assets.orchestration.jobs.maintenance import DROP_PAYLOADS, MAINTAIN, THIN_OUT
from sfcdc_assets.orchestration.jobs.packing import PACK
from sfcdc_assets.orchestration.jobs.retries import NIGHTLY
from sfcdc_assets.orchestration.jobs.run_config import OF_THE_ORG, ORG_TAG, one_at_a_time
from sfcdc_assets.orchestration.jobs.snapshot import LONG, SNAPSHOT
from sfcdc_assets.orchestration.jobs.sync import SYNC
from sfcdc_assets.orchestration.jobs.topics import CHECK_TOPICS
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.setting_values import as_set_here
from sfcdc_assets.settings.settings import load_settings


@dg.op
def forget_old_runs(context: dg.OpExecutionContext) -> None:
    """Delete old runs and events; what a page shows as the latest of a partition is kept, and all of other code
    locations."""
    days = load_settings().run_retention_days
    before = datetime.fromtimestamp(clock.now_ms() / 1000, UTC) - timedelta(days=days)
    done = forget(context.instance, before, Ours(PREFIX, JOBS, OF_THE_ORG.get(ORG_TAG)))
    context.log.info(
        f"{done.runs} runs and {done.events} events of ticks older than {days} days deleted, "
        f"{done.kept} runs of that age kept because they have the latest event of a partition"
    )


NAME = "forget_runs"
JOBS = frozenset(
    job.name
    for job in (AUDIT, CHECK, CHECK_TOPICS, DROP_PAYLOADS, MAINTAIN, PACK, READ_FORMULAS, SNAPSHOT, SYNC, THIN_OUT)
) | {NAME}
"""Those of this code location."""

FORGET_RUNS = dg.GraphDefinition(
    name=NAME,
    node_defs=[forget_old_runs],
    description=as_set_here(
        "Delete this code location's runs and events that are older than SFCDC_RUN_RETENTION_DAYS. What a "
        "partition or a check shows as its latest stays. No table changes."
    ),
).to_job(tags={**LONG, **NIGHTLY, **one_at_a_time(NAME)})
