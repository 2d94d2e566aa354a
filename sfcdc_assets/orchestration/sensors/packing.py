"""A sensor of its own for packing: a channel's tick lands events and does nothing else that takes long."""

import dagster as dg

from sfcdc_assets.orchestration.jobs.packing import LOOK_SECONDS, PACK, why_not_packed
from sfcdc_assets.orchestration.resources import LakeResource
from sfcdc_assets.settings.settings import load_settings


@dg.sensor(
    name="pack_when_many",
    job=PACK,
    minimum_interval_seconds=LOOK_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Counts the small files of raw_events and of the channels' own tables, from their logs, and asks for a "
    "run that packs them when there are many: a tick costs the more the more there are.",
)
def pack_when_many(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.RunRequest | dg.SkipReason:
    """Request a run where there are many small files. Starts no Spark and makes no API calls."""
    reason = why_not_packed(context.instance, lake.warehouse(), load_settings().payload_retention_days)
    return dg.SkipReason(reason) if reason is not None else dg.RunRequest()
