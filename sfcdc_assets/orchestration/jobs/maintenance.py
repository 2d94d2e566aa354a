"""The jobs that change no row: the end of old payloads, and maintenance."""

from collections.abc import Iterable, Sequence

import dagster as dg

from sfcdc_assets.lake.maintenance.maintain import (
    TableDone,
    maintain_with_settings,
    retention_of,
    summary_of,
    thin_out,
)
from sfcdc_assets.landing.payload_retention import drop_payloads
from sfcdc_assets.orchestration.assets.keys import RAW_EVENTS_KEY
from sfcdc_assets.orchestration.assets.maintenance_metadata import by_asset, maintenance_metadata
from sfcdc_assets.orchestration.jobs.retries import NIGHTLY
from sfcdc_assets.orchestration.jobs.run_config import one_at_a_time
from sfcdc_assets.orchestration.jobs.snapshot import LONG
from sfcdc_assets.orchestration.resources import LakeResource
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.setting_values import as_set_here
from sfcdc_assets.settings.settings import load_settings


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
    """Prune, vacuum, pack, write checkpoints; fails at the end if a table is damaged or could not be written."""
    _report(context, maintain_with_settings(lake.warehouse(), load_settings(), clock.now_ms()))


@dg.op
def thin_out_cuts(context: dg.OpExecutionContext, lake: LakeResource) -> None:
    """Forget cuts, and delete what those do not need that are kept; fails at the end if a table is damaged."""
    _report(context, thin_out(lake.warehouse(), retention_of(load_settings()), clock.now_ms()))


def _report(context: dg.OpExecutionContext, maintained: Iterable[TableDone]) -> None:
    done = []
    for each in maintained:
        done.append(each)
        if each.is_worth_telling:
            context.log.info(str(each))
    context.log.info(summary_of(done))
    report(context, done)


def report(context: dg.OpExecutionContext, done: Sequence[TableDone]) -> None:
    """Tell each asset what was done to its tables. Raises `dagster.Failure` where a person has to mend something."""
    for asset, tables in by_asset(done).items():
        context.log_event(dg.AssetObservation(asset, metadata=maintenance_metadata(tables)))
    failures = [each.failure for each in done if each.failure is not None]
    if failures:
        raise dg.Failure(" ".join(failures), allow_retries=False)


THIN_OUT = dg.GraphDefinition(
    name="thin_out",
    node_defs=[thin_out_cuts],
    description=as_set_here(
        "Forget the consistent cuts that are not kept any more (SFCDC_CUT_BATCH_HOURS, SFCDC_CUT_MINUTE_HOURS, "
        "SFCDC_CUT_HOUR_HOURS, SFCDC_CUT_RETENTION_DAYS), and delete the files and log entries that no kept cut needs."
    ),
).to_job(tags=one_at_a_time("maintain"))


MAINTAIN = dg.GraphDefinition(
    name="maintain",
    node_defs=[maintain_tables],
    description=as_set_here(
        "Pack small files, forget cuts past SFCDC_CUT_RETENTION_DAYS, delete files that nothing needs, write "
        "checkpoints: what a run costs then depends on what is new, not on how old the warehouse is. No row changes, "
        "and runs may be at work meanwhile."
    ),
).to_job(tags={**LONG, **NIGHTLY, **one_at_a_time("maintain")})
