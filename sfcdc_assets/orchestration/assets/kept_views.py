"""The views in DuckDB files as an asset of its own: after each sync it is brought to the newest cut.

Nothing waits for it and it writes no table, so what fails at it, such as a file that another program writes to, holds
up no sync.
"""

import dagster as dg

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.jobs.failed_runs import IN_VAIN, seconds_after_failures
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.sensors.instance_of_ticks import instance_of
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.sql.kept_views import are_kept, keep_views, stand

VIEWS = "views"
"""The job, by its short name."""
AGAIN_SECONDS = 600
"""How long after a run that failed, as it does while another program writes to a file, the next one is asked for."""
LOOK_SECONDS = 30
"""How often it is looked for a newer cut."""


def build_kept_views(assets: OrgAssets) -> dg.Definitions:
    """Return the asset over `consistent_cuts`, the job that materializes it and the sensor that asks for the job; none
    of them where no setting names a file."""
    settings = assets.settings()
    if not are_kept(settings):
        return dg.Definitions()

    @dg.asset(
        key=assets.keys.views,
        deps=[assets.keys.consistent_cuts],
        group_name=assets.group("tables"),
        kinds={"duckdb"},
        owners=list(settings.owners if assets.owners is None else assets.owners),
        description="The views of `sfcdc sql` at the newest cut, in the DuckDB files of SFCDC_VIEWS_FILE and "
        "SFCDC_LIVE_VIEWS_FILE.",
        metadata={"documentation": dg.MetadataValue.text("docs/asking-the-tables.md, `For other tools`")},
    )
    def views(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        """Write the files."""
        metadata: dict[str, int] = {}
        for each in keep_views(assets.settings()):
            context.log.info(f"{each.file} has {counted(each.views, 'view')} of {counted(each.entities, 'entity')}.")
            metadata |= {"views": each.views, "entities": each.entities}
        return dg.MaterializeResult(metadata=metadata)

    job = dg.define_asset_job(
        assets.name(VIEWS),
        selection=dg.AssetSelection.assets(assets.keys.views),
        tags=assets.one_at_a_time(VIEWS),
        executor_def=dg.in_process_executor,
    )

    @dg.sensor(
        name=assets.name("views_follow_the_cut"),
        job=job,
        minimum_interval_seconds=LOOK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Looks for a newer cut than the one of the views, and asks for a run that writes them.",
    )
    def follow_the_cut(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        """Request a run for a cut that has none yet. Starts no Spark and makes no API calls."""
        found = stand(Warehouse(assets.settings().warehouse))
        if found is None:
            return dg.SkipReason("There is no cut yet.")
        if found == context.cursor:
            failed = _failed(instance_of(context), job.name)
            if failed is None:
                return dg.SkipReason("The views are of the newest cut.")
            if seconds_after_failures(instance_of(context), job.name, AGAIN_SECONDS, AGAIN_SECONDS) > 0:
                return dg.SkipReason(f"The views could not be written (run {failed.dagster_run.run_id[:8]}).")
            return dg.RunRequest(run_key=f"{found} after {failed.dagster_run.run_id}")
        context.update_cursor(found)
        return dg.RunRequest(run_key=found)

    return dg.Definitions(assets=[views], jobs=[job], sensors=[follow_the_cut])


def _failed(instance: dg.DagsterInstance, job: str) -> dg.RunRecord | None:
    """Return the newest run of a job, where it has not done its work."""
    newest = next(iter(instance.get_run_records(dg.RunsFilter(job_name=job), limit=1)), None)
    return newest if newest is not None and newest.dagster_run.status in IN_VAIN else None
