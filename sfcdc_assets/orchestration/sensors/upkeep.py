"""Sensors of what goes on beside the channels, whose ticks land events and do nothing else that takes long: small files
are packed, formula fields are read, and runs that are gone are marked as failed."""

from collections.abc import Iterable

import dagster as dg

from sfcdc_assets.orchestration.jobs import formulas, packing
from sfcdc_assets.orchestration.jobs.event_log import Ours
from sfcdc_assets.orchestration.jobs.lost_runs import end_lost_runs
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.sensors.instance_of_ticks import instance_of
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.settings.setting_values import as_set_here

LOST_SECONDS = 30
"""How often runs that are gone are looked for."""


def build_packing_sensor(assets: OrgAssets, job: dg.JobDefinition) -> dg.SensorDefinition:
    """Build the sensor that asks for runs of the job `pack`."""

    @dg.sensor(
        name=assets.name("pack_when_many"),
        job=job,
        minimum_interval_seconds=packing.LOOK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Counts the small files of raw_events and of the channels' own tables, from their logs, and asks "
        "for a run that packs them when there are many: a tick costs the more the more there are.",
    )
    def pack_when_many(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        """Request a run where there are many small files. Starts no Spark and makes no API calls."""
        days = assets.settings().payload_retention_days
        reason = packing.why_not_packed(assets, instance_of(context), assets.warehouse(), days)
        return dg.SkipReason(reason) if reason is not None else dg.RunRequest()

    return pack_when_many


def build_formula_sensor(assets: OrgAssets, job: dg.JobDefinition) -> dg.SensorDefinition:
    """Build the sensor that asks for runs of the job `read_formulas`."""

    @dg.sensor(
        name=assets.name("read_formulas_when_due"),
        job=job,
        minimum_interval_seconds=formulas.LOOK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=as_set_here(
            "Asks for a run that reads formula fields when an entity was not looked at for SFCDC_FORMULA_SECONDS. "
            "Without SFCDC_FORMULAS there is nothing to do."
        ),
    )
    def read_formulas_when_due(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        """Request a run where an entity is due. Starts no Spark and makes no API calls."""
        reason = formulas.why_not_read(assets, instance_of(context), assets.warehouse(), assets.settings())
        return dg.SkipReason(reason) if reason is not None else dg.RunRequest()

    return read_formulas_when_due


def build_lost_runs_sensor(assets: OrgAssets, jobs: Iterable[str]) -> dg.SensorDefinition:
    """Build the sensor that marks runs as failed which are gone: nobody else would wait for one of maintenance, and
    find that out. `jobs`: the short names of all jobs, whose runs it looks at."""
    ours = Ours(assets.prefix, frozenset(map(assets.name, jobs)))

    @dg.sensor(
        name=assets.name("end_lost_runs"),
        minimum_interval_seconds=LOST_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Marks runs as failed whose process is gone, as after a power loss: they would hold up the next "
        "run of their job for two hours. Leave it on.",
    )
    def end_lost_runs_soon(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        """Look at the notes of all runs of ours that count as at work. Starts no Spark and makes no API calls."""
        ended = end_lost_runs(instance_of(context), assets.warehouse(), ours)
        if not ended:
            return dg.SkipReason("Every run at work lives.")
        names = ", ".join(f"{run.run_id[:8]} of {run.job_name}" for run in ended)
        return dg.SkipReason(f"{counted(len(ended), 'run')} had lost the process and counts as failed now: {names}.")

    return end_lost_runs_soon
