"""The job `pack`: small files are packed when there are many, beside traffic and long before the night.

Every tick that lands something adds a file for each entity to `raw_events`, and whoever opens the table pays for each
of them. So the job is asked for by their count, which the log alone shows: by a sensor of its own, or by `sfcdc sync`.
"""

import dagster as dg

from sfcdc_assets.lake.maintenance.pack_by_count import MANY_FILES, files_to_pack, pack_where_many
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.jobs.failed_runs import seconds_after_failures
from sfcdc_assets.orchestration.jobs.lost_runs import living_runs
from sfcdc_assets.orchestration.jobs.maintenance import MAINTAIN, report
from sfcdc_assets.orchestration.jobs.run_config import job_of_one_step
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.resources import with_scope
from sfcdc_assets.runtime.errors import SfcdcError, counted

NAME = "pack"
LOOK_SECONDS = 60
"""How often the files are counted."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 300, 6 * 3600
"""After a run that failed, doubled with each that failed before it: what stops packing, such as a damaged file, is
mended by a person, and named each night."""


def build_pack(assets: OrgAssets) -> dg.JobDefinition:
    """Build the job."""

    @dg.op(name=assets.name("pack_tables"), required_resource_keys=with_scope(assets))
    def pack_tables(context: dg.OpExecutionContext) -> None:
        """Pack the tables with many small files; fails at the end if one is damaged or could not be written."""
        done = []
        for each in pack_where_many(assets.warehouse(), assets.settings().payload_retention_days):
            done.append(each)
            context.log.info(str(each))
        report(assets.keys, context, done)

    return job_of_one_step(
        assets,
        NAME,
        "pack_tables",
        pack_tables,
        f"Pack the small files of tables that have {MANY_FILES} of them or more. No row changes, and runs may "
        "be at work meanwhile.",
        assets.one_at_a_time(MAINTAIN),  # of two that pack a table at once delta-rs may keep both results
    )


def why_not_packed(
    assets: OrgAssets, instance: dg.DagsterInstance, warehouse: Warehouse, payload_retention_days: int | None
) -> str | None:
    """Return why there is nothing to pack now; None where it is worth a run."""
    pause = seconds_after_failures(instance, assets.name(NAME), FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
    if pause > 0:
        return f"The last run failed; the next one is due in {pause:.0f} s."
    try:
        if any(living_runs(instance, warehouse, assets.name(NAME))):
            return "A run is at work."
        count = files_to_pack(warehouse, payload_retention_days)
    except SfcdcError as error:
        return str(error)
    return f"{counted(count, 'file')} could be packed, {MANY_FILES} are worth a run." if count < MANY_FILES else None
