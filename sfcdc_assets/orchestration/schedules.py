"""What is done at fixed times: the sensor's work for those who prefer it so, the audit, the end of old payloads,
maintenance."""

import dagster as dg

from sfcdc_assets.event_channels.tables.fold import has_state
from sfcdc_assets.lake.tables.channel_members import filters_of
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.jobs import (
    AUDIT,
    CHECK,
    CHECK_TOPICS,
    DROP_PAYLOADS,
    FORGET_RUNS,
    MAINTAIN,
    SYNC,
    THIN_OUT,
)
from sfcdc_assets.orchestration.jobs.audit import AUDIT_STEP
from sfcdc_assets.settings.setting_values import as_set_here
from sfcdc_assets.settings.settings import load_settings

sync_every_ten_minutes = dg.ScheduleDefinition(
    name="sync_every_ten_minutes",
    job=SYNC,
    cron_schedule="*/10 * * * *",
    default_status=dg.DefaultScheduleStatus.STOPPED,
    description="Drains every channel and applies what is new, at fixed times. Switch the channel sensors off with it.",
)

check_every_hour = dg.ScheduleDefinition(
    name="check_every_hour",
    job=CHECK,
    cron_schedule="10 * * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description=as_set_here(
        "Evaluates the checks also where no event came, and compares records with the org within the hourly "
        "share of SFCDC_AUDIT_PERCENT. Starts no Spark."
    ),
)


@dg.schedule(
    name="check_topics_every_hour",
    job=CHECK_TOPICS,
    cron_schedule="40 * * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Asks the query of each PushTopic among the channels, forty minutes past the hour: records that left "
    "its filter are marked, which no notification says. Two API requests a topic, and one for each 2,000 records.",
)
def check_topics_every_hour() -> dg.RunRequest | dg.SkipReason:
    """Compare topics with the org; a topic among the channels switches it on."""
    if not any(has_state(channel) for channel in load_settings().event_channels):
        return dg.SkipReason(as_set_here("No PushTopic is among SFCDC_CHANNELS."))
    return dg.RunRequest()


audit_every_night = dg.ScheduleDefinition(
    name="audit_every_night",
    job=AUDIT,
    cron_schedule="30 2 * * *",
    default_status=dg.DefaultScheduleStatus.STOPPED,
    description="The drift audit, at half past two (UTC). Off by default: it spends API requests.",
)


@dg.schedule(
    name="audit_filtered_every_night",
    job=AUDIT,
    cron_schedule="30 1 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="The drift audit of entities whose events a channel filters, at half past one (UTC): nothing else "
    "finds what changes outside the filter. Entities without a filter are left to audit_every_night.",
)
def audit_filtered_every_night() -> dg.RunRequest | dg.SkipReason:
    """Compare tables of filtered events with the org; a filter that the org lists switches it on."""
    settings = load_settings()
    warehouse = Warehouse(settings.warehouse)
    filtered = sorted({entity for channel in settings.feeding_channels for entity in filters_of(warehouse, channel)})
    wanted = [entity for entity in filtered if not settings.entities or entity in settings.entities]
    if not wanted:
        return dg.SkipReason("No channel filters its events: every change raises one.")
    return dg.RunRequest(run_config={"ops": {AUDIT_STEP: {"config": {"entities": wanted}}}})


@dg.schedule(
    name="drop_payloads_every_night",
    job=DROP_PAYLOADS,
    cron_schedule="30 3 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description=as_set_here(
        "Deletes payloads past SFCDC_PAYLOAD_RETENTION_DAYS, at half past three (UTC), if that is set."
    ),
)
def drop_payloads_every_night() -> dg.RunRequest | dg.SkipReason:
    """Delete payloads past their retention; the setting alone switches it on."""
    if load_settings().payload_retention_days is None:
        return dg.SkipReason(as_set_here("SFCDC_PAYLOAD_RETENTION_DAYS is not set: payloads are kept."))
    return dg.RunRequest()


maintain_every_night = dg.ScheduleDefinition(
    name="maintain_every_night",
    job=MAINTAIN,
    cron_schedule="30 4 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Packs, prunes and vacuums the tables, at half past four (UTC). Leave it on: without it each tick "
    "costs a little more than the one before.",
)

thin_out_often = dg.ScheduleDefinition(
    name="thin_out_often",
    job=THIN_OUT,
    cron_schedule="8-58/10 * * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every ten minutes: forgets consistent cuts as they age, deletes the files that no kept cut needs, and "
    "packs what batches appended, the last time two minutes before the hour: its last cut is kept for a day, with all "
    "the small files that it names. Leave it on: each batch replaces files, and without it all of them stay until the "
    "night.",
)

forget_runs_every_night = dg.ScheduleDefinition(
    name="forget_runs_every_night",
    job=FORGET_RUNS,
    cron_schedule="30 5 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description=as_set_here(
        "Deletes Dagster's runs and events past SFCDC_RUN_RETENTION_DAYS, at half past five (UTC). Nothing "
        "else does: open-source Dagster purges ticks only."
    ),
)
