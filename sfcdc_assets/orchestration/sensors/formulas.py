"""A sensor of its own for formula fields: a channel's tick has nothing to do with them."""

import dagster as dg

from sfcdc_assets.orchestration.jobs.formulas import LOOK_SECONDS, READ_FORMULAS, why_not_read
from sfcdc_assets.orchestration.resources import LakeResource
from sfcdc_assets.settings.setting_values import as_set_here
from sfcdc_assets.settings.settings import load_settings


@dg.sensor(
    name="read_formulas_when_due",
    job=READ_FORMULAS,
    minimum_interval_seconds=LOOK_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=as_set_here(
        "Asks for a run that reads formula fields when an entity was not looked at for SFCDC_FORMULA_SECONDS. Without "
        "SFCDC_FORMULAS there is nothing to do."
    ),
)
def read_formulas_when_due(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.RunRequest | dg.SkipReason:
    """Request a run where an entity is due. Starts no Spark and makes no API calls."""
    reason = why_not_read(context.instance, lake.warehouse(), load_settings())
    return dg.SkipReason(reason) if reason is not None else dg.RunRequest()
