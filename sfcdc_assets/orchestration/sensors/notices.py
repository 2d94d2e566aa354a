"""The sensor of notices: it asks Dagster which runs failed, and `notices` for all that the tables tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import dagster as dg
from dagster import DagsterEventType, RunStatusChangeRecordsFilter

from sfcdc_assets.notices.looks import failed_run
from sfcdc_assets.notices.notice import Notice, Subscriber
from sfcdc_assets.notices.reporting_round import report_news, subscribers_of
from sfcdc_assets.orchestration.assets.entity_failures import reportable_reason
from sfcdc_assets.orchestration.jobs import ours
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.sensors.instance_of_ticks import instance_of
from sfcdc_assets.settings.setting_values import as_set_here

NAME = "send_notices"
LOOK_SECONDS = 60
MOST_RUNS = 50
"""Failed runs that a tick looks at; the next one goes on."""


def build_notices_sensor(assets: OrgAssets, notices: Subscriber | None = None) -> list[dg.SensorDefinition]:
    """Return the sensor that reports what is new to the webhook of the settings and to `notices`, a function that is
    called with a sequence of notices of one kind; none where there is neither. Of runs, those of our jobs and assets
    are reported."""
    if not subscribers_of(assets.settings(), notices):
        return []

    @dg.sensor(
        name=assets.name(NAME),
        minimum_interval_seconds=LOOK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=as_set_here(
            "Tells a person what is new, once: failed runs, late entities and channels, and what else SFCDC_NOTICES "
            "names. Reads tables and Dagster's events; asks nothing of the org."
        ),
    )
    def send_notices(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        """Look, and report. What is kept in the warehouse outlives the cursor, which is of Dagster's events alone."""
        warehouse, settings = assets.warehouse(), assets.settings()
        failed, cursor = failed_runs(context, ours(assets).has)
        said = report_news(warehouse, settings, subscribers_of(settings, notices), failed)
        for error in said.failed.values():
            context.log.error(str(error))
        context.update_cursor(str(cursor))
        return dg.SkipReason(str(said))

    return [send_notices]


def failed_runs(
    context: dg.SensorEvaluationContext, is_ours: Callable[[dg.DagsterRun], bool]
) -> tuple[list[Notice], int]:
    """Return the runs of this code location that failed since the cursor, and the cursor for the next time: the id of
    the last event that was looked at. Without a cursor nothing that was before is reported."""
    instance = instance_of(context)
    if context.cursor is None:
        newest = instance.fetch_run_status_changes(DagsterEventType.RUN_FAILURE, limit=1).records
        return [], newest[0].storage_id if newest else 0
    after = int(context.cursor)
    records = instance.fetch_run_status_changes(
        RunStatusChangeRecordsFilter(DagsterEventType.RUN_FAILURE, after_storage_id=after), MOST_RUNS, ascending=True
    ).records
    found = []
    for record in records:
        run = instance.get_run_by_id(record.run_id)
        if run is not None and _is_here(run, context) and is_ours(run):
            found.append(failed_run(run.run_id, run.job_name, _reasons(instance, run), round(record.timestamp * 1000)))
    return found, records[-1].storage_id if records else after


def _is_here(run: dg.DagsterRun, context: dg.SensorEvaluationContext) -> bool:
    """Return whether a run is of the sensor's own code location; an instance may have others."""
    origin, here = run.remote_job_origin, context.code_location_origin
    return origin is None or here is None or origin.location_name == here.location_name


def _reasons(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Sequence[str]:
    """Return why its steps failed, or why the run did where none of them says."""
    steps = [entry.dagster_event for entry in instance.all_logs(run.run_id, of_type=DagsterEventType.STEP_FAILURE)]
    found = [reportable_reason(event.step_failure_data) for event in steps if event is not None]
    return list(dict.fromkeys(each for each in found if each is not None))
