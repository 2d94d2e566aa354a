"""The jobs that change no row: the end of old payloads, and maintenance."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import dagster as dg

from sfcdc_assets.lake.maintenance.maintain import maintain_with_settings, retention_of, thin_out
from sfcdc_assets.lake.maintenance.table_done import TableDone, summary_of
from sfcdc_assets.landing.payload_retention import drop_payloads
from sfcdc_assets.orchestration.assets.keys import AssetKeys
from sfcdc_assets.orchestration.jobs.retries import NIGHTLY
from sfcdc_assets.orchestration.jobs.run_config import LONG, job_of_one_step
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.resources import with_scope
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.settings.setting_values import as_set_here

DROP_PAYLOADS, THIN_OUT, MAINTAIN = "drop_payloads", "thin_out", "maintain"


def build_drop_payloads(assets: OrgAssets) -> dg.JobDefinition:
    """Build the job that ends old payloads."""

    @dg.op(name=assets.name("drop_old_payloads"), required_resource_keys=with_scope(assets))
    def drop_old_payloads(context: dg.OpExecutionContext) -> None:
        """Drop what is past SFCDC_PAYLOAD_RETENTION_DAYS; nothing when it is not set."""
        days = assets.settings().payload_retention_days
        if days is None:
            context.log.info(as_set_here("SFCDC_PAYLOAD_RETENTION_DAYS is not set: payloads are kept."))
            return
        for each in drop_payloads(assets.warehouse(), days, clock.now_ms()):
            context.log.info(
                f"{each.entity}: {counted(each.events, 'payload')} dropped on {each.channel}, up to position "
                f"{each.up_to}"
            )
            context.log_event(
                dg.AssetObservation(
                    assets.keys.raw_events,
                    partition=each.entity,
                    metadata={"channel": each.channel, "payloads_dropped": each.events, "up_to_position": each.up_to},
                )
            )

    return job_of_one_step(
        assets,
        DROP_PAYLOADS,
        "drop_old_payloads",
        drop_old_payloads,
        "Delete payloads in raw_events that are older than SFCDC_PAYLOAD_RETENTION_DAYS and that a snapshot "
        "in the tables stands for. Headers and positions stay.",
        {**LONG, **NIGHTLY, **assets.one_at_a_time(DROP_PAYLOADS)},
    )


def build_thin_out(assets: OrgAssets) -> dg.JobDefinition:
    """Build the job that forgets cuts as they age."""

    @dg.op(name=assets.name("thin_out_cuts"), required_resource_keys=with_scope(assets))
    def thin_out_cuts(context: dg.OpExecutionContext) -> None:
        """Forget cuts, and delete what those do not need that are kept; fails at the end if a table is damaged."""
        done = thin_out(assets.warehouse(), retention_of(assets.settings()), clock.now_ms())
        _report(assets.keys, context, done)

    return job_of_one_step(
        assets,
        THIN_OUT,
        "thin_out_cuts",
        thin_out_cuts,
        "Forget the consistent cuts that are not kept any more (SFCDC_CUT_BATCH_HOURS, SFCDC_CUT_MINUTE_HOURS, "
        "SFCDC_CUT_HOUR_HOURS, SFCDC_CUT_RETENTION_DAYS), and delete the files and log entries that no kept cut needs.",
        assets.one_at_a_time(MAINTAIN),
    )


def build_maintain(assets: OrgAssets) -> dg.JobDefinition:
    """Build the job of the night."""

    @dg.op(name=assets.name("maintain_tables"), required_resource_keys=with_scope(assets))
    def maintain_tables(context: dg.OpExecutionContext) -> None:
        """Prune, vacuum, pack, write checkpoints; fails at the end if a table is damaged or could not be written."""
        done = maintain_with_settings(assets.warehouse(), assets.settings(), clock.now_ms())
        _report(assets.keys, context, done)

    return job_of_one_step(
        assets,
        MAINTAIN,
        "maintain_tables",
        maintain_tables,
        "Pack small files, forget cuts past SFCDC_CUT_RETENTION_DAYS, delete files that nothing needs, write "
        "checkpoints: what a run costs then depends on what is new, not on how old the warehouse is. No row changes, "
        "and runs may be at work meanwhile.",
        {**LONG, **NIGHTLY, **assets.one_at_a_time(MAINTAIN)},
    )


def _report(keys: AssetKeys, context: dg.OpExecutionContext, maintained: Iterable[TableDone]) -> None:
    done = []
    for each in maintained:
        done.append(each)
        if each.is_worth_telling:
            context.log.info(str(each))
    context.log.info(summary_of(done))
    report(keys, context, done)


def report(keys: AssetKeys, context: dg.OpExecutionContext, done: Sequence[TableDone]) -> None:
    """Tell each asset what was done to its tables. Raises `dagster.Failure` where a person has to mend something."""
    for asset, tables in by_asset(keys, done).items():
        context.log_event(dg.AssetObservation(asset, metadata=maintenance_metadata(tables)))
    failures = [each.failure for each in done if each.failure is not None]
    if failures:
        raise dg.Failure(" ".join(failures), allow_retries=False)


def by_asset(keys: AssetKeys, done: Sequence[TableDone]) -> Mapping[dg.AssetKey, Sequence[TableDone]]:
    """Return the assets something was done to, with their tables; what no asset stands for is reported with
    `raw_events`."""
    known = {key.path[-1]: key for key in (keys.consistent_cuts, keys.snapshot, *keys.of_tables)}
    found: dict[dg.AssetKey, list[TableDone]] = defaultdict(list)
    for each in done:
        if each.is_worth_telling:
            found[known.get(each.table.partition("/")[0], keys.raw_events)].append(each)
    return found


def maintenance_metadata(tables: Sequence[TableDone]) -> dict[str, dg.MetadataValue]:
    """Return sums, and a row for each table."""
    rows = [
        dg.TableRecord(
            {
                "table": each.table,
                "files packed": each.packed,
                "into": each.packed_into,
                "files separated": each.separated,
                "files deleted": each.vacuumed,
                "rows pruned": each.pruned,
                "seconds": round(each.seconds, 1),
                "left": each.failure or each.left or "",
            }
        )
        for each in tables
    ]
    return {
        "files_packed": dg.MetadataValue.int(sum(each.packed for each in tables)),
        "packed_into": dg.MetadataValue.int(sum(each.packed_into for each in tables)),
        "files_separated": dg.MetadataValue.int(sum(each.separated for each in tables)),
        "files_deleted": dg.MetadataValue.int(sum(each.vacuumed for each in tables)),
        "rows_pruned": dg.MetadataValue.int(sum(each.pruned for each in tables)),
        "tables": dg.MetadataValue.table(rows),
    }
