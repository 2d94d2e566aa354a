"""The jobs that change no row: the end of old payloads, and maintenance."""

import dagster as dg

from sfcdc_assets import clock
from sfcdc_assets.assets.keys import RAW_EVENTS_KEY
from sfcdc_assets.assets.maintenance_metadata import by_asset, maintenance_metadata
from sfcdc_assets.config import load_settings
from sfcdc_assets.jobs.request import one_at_a_time
from sfcdc_assets.jobs.retries import NIGHTLY
from sfcdc_assets.jobs.snapshot import LONG
from sfcdc_assets.maintenance.maintain import maintain_with_settings, summary_of
from sfcdc_assets.pipeline.landing.payload_retention import drop_payloads
from sfcdc_assets.resources.lake import LakeResource
from sfcdc_assets.setting_values import as_set_here


@dg.op
def drop_old_payloads(context: dg.OpExecutionContext, lake: LakeResource) -> None:
    """Drop what is past SFCDC_PAYLOAD_RETENTION_DAYS; nothing when it is not set."""
    days = load_settings().payload_retention_days
    if days is None:
        context.log.info(as_set_here("SFCDC_PAYLOAD_RETENTION_DAYS is not set: payloads are kept."))
        return
    for each in drop_payloads(lake.warehouse(), days, clock.now_ms()):
        context.log.info(
            f"{each.entity}: {each.events} payloads dropped on {each.channel}, up to position {each.up_to}"
        )
        context.log_event(
            dg.AssetObservation(
                RAW_EVENTS_KEY,
                partition=each.entity,
                metadata={"channel": each.channel, "payloads_dropped": each.events, "up_to_position": each.up_to},
            )
        )


DROP_PAYLOADS = dg.GraphDefinition(
    name="drop_payloads",
    node_defs=[drop_old_payloads],
    description=as_set_here(
        "Delete payloads in raw_events that are older than SFCDC_PAYLOAD_RETENTION_DAYS and that a snapshot "
        "in the tables stands for. Headers and positions stay."
    ),
).to_job(tags={**LONG, **NIGHTLY, **one_at_a_time("drop_payloads")})


@dg.op
def maintain_tables(context: dg.OpExecutionContext, lake: LakeResource) -> None:
    """Pack, prune, vacuum, write checkpoints; fails at the end if a table is damaged."""
    done = []
    for each in maintain_with_settings(lake.warehouse(), load_settings(), clock.now_ms()):
        done.append(each)
        if each.is_worth_telling:
            context.log.info(str(each))
    context.log.info(summary_of(done))
    for asset, tables in by_asset(done).items():
        context.log_event(dg.AssetObservation(asset, metadata=maintenance_metadata(tables)))
    problems = [each.problem for each in done if each.problem is not None]
    if problems:
        raise dg.Failure(" ".join(problems), allow_retries=False)


MAINTAIN = dg.GraphDefinition(
    name="maintain",
    node_defs=[maintain_tables],
    description=as_set_here(
        "Pack small files, forget cuts past SFCDC_CUT_RETENTION_DAYS, delete files that nothing needs, write "
        "checkpoints: what a run costs then depends on what is new, not on how old the warehouse is. No row changes, "
        "and runs may be at work meanwhile."
    ),
).to_job(tags={**LONG, **NIGHTLY, **one_at_a_time("maintain")})
