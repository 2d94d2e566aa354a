"""The job `pack`: small files are packed when there are many, beside traffic and long before the night.

Every tick that lands something adds a file for each entity to `raw_events`, and whoever opens the table pays for each
of them. So the job is asked for by their count, which the log alone shows: by a sensor of its own, or by `sfcdc sync`.
"""

import dagster as dg

from sfcdc_assets.lake.maintenance.pack_by_count import MANY_FILES, files_to_pack, pack_where_many
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.jobs.maintenance import report
from sfcdc_assets.orchestration.jobs.run_config import UNFINISHED, one_at_a_time
from sfcdc_assets.orchestration.resources import LakeResource
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.settings import load_settings

NAME = "pack"
LOOK_SECONDS = 60
"""How often the files are counted."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 300, 6 * 3600
"""After a run that failed, doubled with each that failed before it: what stops packing, such as a damaged file, is
mended by a person, and named each night."""
FAILURES_COUNTED = 8


@dg.op
def pack_tables(context: dg.OpExecutionContext, lake: LakeResource) -> None:
    """Pack the tables with many small files; fails at the end if one is damaged or could not be written."""
    done = []
    for each in pack_where_many(lake.warehouse(), load_settings().payload_retention_days):
        done.append(each)
        context.log.info(str(each))
    report(context, done)


PACK = dg.GraphDefinition(
    name=NAME,
    node_defs=[pack_tables],
    description=f"Pack the small files of tables that have {MANY_FILES} of them or more. No row changes, and runs may "
    "be at work meanwhile.",
).to_job(tags=one_at_a_time("maintain"))  # of two that pack a table at once delta-rs may keep both results


def why_not_packed(
    instance: dg.DagsterInstance, warehouse: Warehouse, payload_retention_days: int | None
) -> str | None:
    """Return why there is nothing to pack now; None where it is worth a run."""
    pause = _pause_seconds(instance)
    if pause > 0:
        return f"The last run failed; the next one is due in {pause:.0f} s."
    if instance.get_runs(dg.RunsFilter(job_name=NAME, statuses=UNFINISHED), limit=1):
        return "A run is at work."
    try:
        count = files_to_pack(warehouse, payload_retention_days)
    except SfcdcError as error:
        return str(error)
    return f"{count} files could be packed, {MANY_FILES} are worth a run." if count < MANY_FILES else None


def _pause_seconds(instance: dg.DagsterInstance) -> float:
    failures, ended = 0, 0.0
    for record in instance.get_run_records(dg.RunsFilter(job_name=NAME), limit=FAILURES_COUNTED):
        if record.dagster_run.status != dg.DagsterRunStatus.FAILURE:
            break
        failures += 1
        ended = max(ended, record.end_time or record.update_timestamp.timestamp())
    pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (failures - 1)) if failures else 0
    return ended + pause - clock.now_ms() / 1000
