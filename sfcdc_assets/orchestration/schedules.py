"""What is done at fixed times: the sensor's work for those who prefer it so, the audit, the end of old payloads,
maintenance."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import dagster as dg

from sfcdc_assets.event_channels.tables.fold import has_state
from sfcdc_assets.lake.tables.channel_members import filters_of
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.jobs import (
    AUDIT,
    CHECK_TOPICS,
    CHECKS,
    DROP_PAYLOADS,
    FORGET_RUNS,
    MAINTAIN,
    SYNC,
    THIN_OUT,
)
from sfcdc_assets.orchestration.jobs.audit import AUDIT_STEP
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.settings.setting_values import as_set_here
from sfcdc_assets.settings.settings import Settings


def build_schedules(assets: OrgAssets, jobs: Mapping[str, dg.JobDefinition]) -> list[dg.ScheduleDefinition]:
    """Build all schedules of an org; `jobs`: by their short names."""
    return [_built(assets, jobs[planned.job], planned) for planned in _PLANNED]


@dataclass(frozen=True)
class _Planned:
    """`due`: the run that is to be made, or why there is none; where it is not given, there always is one."""

    name: str
    job: str
    cron: str
    description: str
    is_on: bool = True
    due: Callable[[Settings], dg.RunRequest | dg.SkipReason] | None = None


def _built(assets: OrgAssets, job: dg.JobDefinition, planned: _Planned) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=assets.name(planned.name),
        job=job,
        cron_schedule=planned.cron,
        default_status=dg.DefaultScheduleStatus.RUNNING if planned.is_on else dg.DefaultScheduleStatus.STOPPED,
        description=as_set_here(planned.description),
    )
    def asked() -> dg.RunRequest | dg.SkipReason:
        return planned.due(assets.settings()) if planned.due is not None else dg.RunRequest()

    return asked


def _of_topics(settings: Settings) -> dg.RunRequest | dg.SkipReason:
    """Compare topics with the org; a topic among the channels switches it on."""
    if not any(has_state(channel) for channel in settings.event_channels):
        return dg.SkipReason(as_set_here("No PushTopic is among SFCDC_CHANNELS."))
    return dg.RunRequest()


def _of_filtered(settings: Settings) -> dg.RunRequest | dg.SkipReason:
    """Compare tables of filtered events with the org; a filter that the org lists switches it on."""
    warehouse = Warehouse(settings.warehouse)
    filtered = sorted({entity for channel in settings.feeding_channels for entity in filters_of(warehouse, channel)})
    wanted = [entity for entity in filtered if not settings.entities or entity in settings.entities]
    if not wanted:
        return dg.SkipReason("No channel filters its events: every change raises one.")
    return dg.RunRequest(run_config={"ops": {AUDIT_STEP: {"config": {"entities": wanted}}}})


def _of_payloads(settings: Settings) -> dg.RunRequest | dg.SkipReason:
    """Delete payloads past their retention; the setting alone switches it on."""
    if settings.payload_retention_days is None:
        return dg.SkipReason(as_set_here("SFCDC_PAYLOAD_RETENTION_DAYS is not set: payloads are kept."))
    return dg.RunRequest()


_PLANNED = (
    _Planned(
        "sync_every_ten_minutes",
        SYNC,
        "*/10 * * * *",
        "Drains every channel and applies what is new, at fixed times. Switch the channel sensors off with it.",
        is_on=False,
    ),
    _Planned(
        "thin_out_often",
        THIN_OUT,
        "8-58/10 * * * *",
        "Every ten minutes: forgets consistent cuts as they age, deletes the files that no kept cut needs, and "
        "packs what batches appended, the last time two minutes before the hour: its last cut is kept for a day, "
        "with all the small files that it names. Leave it on: each batch replaces files, and without it all of "
        "them stay until the night.",
    ),
    _Planned(
        "audit_every_night",
        AUDIT,
        "30 2 * * *",
        "The drift audit, at half past two (UTC). Off by default: it spends API requests.",
        is_on=False,
    ),
    _Planned(
        "audit_filtered_every_night",
        AUDIT,
        "30 1 * * *",
        "The drift audit of entities whose events a channel filters, at half past one (UTC): nothing else finds "
        "what changes outside the filter. Entities without a filter are left to audit_every_night.",
        due=_of_filtered,
    ),
    _Planned(
        "check_every_hour",
        CHECKS,
        "10 * * * *",
        "Evaluates the checks also where no event came, and compares records with the org within the hourly share "
        "of SFCDC_AUDIT_PERCENT. Starts no Spark.",
    ),
    _Planned(
        "check_topics_every_hour",
        CHECK_TOPICS,
        "40 * * * *",
        "Asks the query of each PushTopic among the channels, forty minutes past the hour: records that left its "
        "filter are marked, which no notification says. Two API requests a topic, and one for each 2,000 records.",
        due=_of_topics,
    ),
    _Planned(
        "drop_payloads_every_night",
        DROP_PAYLOADS,
        "30 3 * * *",
        "Deletes payloads past SFCDC_PAYLOAD_RETENTION_DAYS, at half past three (UTC), if that is set.",
        due=_of_payloads,
    ),
    _Planned(
        "maintain_every_night",
        MAINTAIN,
        "30 4 * * *",
        "Packs, prunes and vacuums the tables, at half past four (UTC). Leave it on: without it each tick costs a "
        "little more than the one before.",
    ),
    _Planned(
        "forget_runs_every_night",
        FORGET_RUNS,
        "30 5 * * *",
        "Deletes Dagster's runs and events past SFCDC_RUN_RETENTION_DAYS, at half past five (UTC). Nothing else "
        "does: open-source Dagster purges ticks only.",
    ),
)
