"""What Dagster loads: assets, jobs, sensors, schedules and resources, listed."""

import dagster as dg

from sfcdc_assets.orchestration.assets.event_tables import build_event_tables
from sfcdc_assets.orchestration.assets.manual_runs import build_raw_events, snapshot, tables
from sfcdc_assets.orchestration.assets.push_topic_state import build_push_topic_state
from sfcdc_assets.orchestration.assets.specs import channel_specs, consistent_cuts_spec
from sfcdc_assets.orchestration.checks.drift import equals_the_org
from sfcdc_assets.orchestration.checks.events import build_event_checks
from sfcdc_assets.orchestration.checks.freshness import is_fresh
from sfcdc_assets.orchestration.checks.lagging import stands_at_the_cut
from sfcdc_assets.orchestration.checks.refused_reads import reads_are_applied
from sfcdc_assets.orchestration.checks.schema import schema_follows_the_org
from sfcdc_assets.orchestration.checks.suspects import suspects_are_reconciled
from sfcdc_assets.orchestration.checks.topics import build_topic_checks
from sfcdc_assets.orchestration.jobs import (
    AUDIT,
    CHECK,
    CHECK_TOPICS,
    DROP_PAYLOADS,
    FORGET_RUNS,
    MAINTAIN,
    PACK,
    READ_FORMULAS,
    SNAPSHOT,
    SYNC,
    THIN_OUT,
)
from sfcdc_assets.orchestration.resources import LakeResource, OrgResource, SparkResource
from sfcdc_assets.orchestration.run_scope import RunScope
from sfcdc_assets.orchestration.schedules import (
    audit_every_night,
    audit_filtered_every_night,
    check_every_hour,
    check_topics_every_hour,
    drop_payloads_every_night,
    forget_runs_every_night,
    maintain_every_night,
    sync_every_ten_minutes,
    thin_out_often,
)
from sfcdc_assets.orchestration.sensors.alerts import alert_sensors
from sfcdc_assets.orchestration.sensors.channel import build_channel_sensor
from sfcdc_assets.orchestration.sensors.formulas import read_formulas_when_due
from sfcdc_assets.orchestration.sensors.packing import pack_when_many
from sfcdc_assets.settings.settings import load_settings

SETTINGS = load_settings()

defs = dg.Definitions(
    assets=[
        *channel_specs(SETTINGS.feeding_channels),
        build_raw_events(SETTINGS.feeding_channels),
        snapshot,
        tables,
        consistent_cuts_spec(),
        *build_event_tables(SETTINGS.event_channels),
        *build_push_topic_state(SETTINGS.event_channels),
    ],
    asset_checks=[
        equals_the_org,
        is_fresh,
        reads_are_applied,
        stands_at_the_cut,
        schema_follows_the_org,
        suspects_are_reconciled,
        *build_event_checks(SETTINGS.event_channels),
        *build_topic_checks(SETTINGS.event_channels),
    ],
    jobs=[
        SYNC,
        SNAPSHOT,
        AUDIT,
        CHECK,
        CHECK_TOPICS,
        DROP_PAYLOADS,
        MAINTAIN,
        THIN_OUT,
        PACK,
        READ_FORMULAS,
        FORGET_RUNS,
    ],
    sensors=[
        *(build_channel_sensor(channel) for channel in SETTINGS.channels),
        pack_when_many,
        read_formulas_when_due,
        *alert_sensors(SETTINGS),
    ],
    schedules=[
        sync_every_ten_minutes,
        thin_out_often,
        audit_every_night,
        audit_filtered_every_night,
        check_every_hour,
        check_topics_every_hour,
        drop_payloads_every_night,
        maintain_every_night,
        forget_runs_every_night,
    ],
    resources={
        "lake": LakeResource(),
        "org": OrgResource(),
        "spark": SparkResource(),
        "run_scope": RunScope(),
    },
    # One JVM and one session for a whole run; a process for each step would start one each
    # (docs/dagster-notes.md, "Executors and Spark").
    executor=dg.in_process_executor,
)
