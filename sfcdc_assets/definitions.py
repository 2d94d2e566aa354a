"""What Dagster loads: assets, jobs, sensors, schedules and resources, listed."""

import dagster as dg

from sfcdc_assets.assets.channels import channel_specs
from sfcdc_assets.assets.event_tables import build_event_tables
from sfcdc_assets.assets.push_topic_state import build_push_topic_state
from sfcdc_assets.assets.raw_events import build_raw_events
from sfcdc_assets.assets.snapshot import snapshot
from sfcdc_assets.assets.specs import consistent_cuts_spec
from sfcdc_assets.assets.tables import tables
from sfcdc_assets.checks.drift import equals_the_org
from sfcdc_assets.checks.events import build_event_checks
from sfcdc_assets.checks.freshness import is_fresh
from sfcdc_assets.checks.refused_reads import reads_are_applied
from sfcdc_assets.checks.schema import schema_follows_the_org
from sfcdc_assets.checks.suspects import suspects_are_reconciled
from sfcdc_assets.checks.topics import build_topic_checks
from sfcdc_assets.config import load_settings
from sfcdc_assets.jobs import AUDIT, CHECK, CHECK_TOPICS, DROP_PAYLOADS, FORGET_RUNS, MAINTAIN, SNAPSHOT, SYNC
from sfcdc_assets.resources.lake import LakeResource
from sfcdc_assets.resources.org import OrgResource
from sfcdc_assets.resources.run_scope import RunScope
from sfcdc_assets.resources.spark import SparkResource
from sfcdc_assets.schedules import (
    audit_every_night,
    audit_filtered_every_night,
    check_every_hour,
    check_topics_every_hour,
    drop_payloads_every_night,
    forget_runs_every_night,
    maintain_every_night,
    sync_every_ten_minutes,
)
from sfcdc_assets.sensors.alerts import alert_sensors
from sfcdc_assets.sensors.channel import build_channel_sensor

SETTINGS = load_settings()

defs = dg.Definitions(
    assets=[
        *channel_specs(SETTINGS.change_channels),
        build_raw_events(SETTINGS.change_channels),
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
        schema_follows_the_org,
        suspects_are_reconciled,
        *build_event_checks(SETTINGS.event_channels),
        *build_topic_checks(SETTINGS.event_channels),
    ],
    jobs=[SYNC, SNAPSHOT, AUDIT, CHECK, CHECK_TOPICS, DROP_PAYLOADS, MAINTAIN, FORGET_RUNS],
    sensors=[*(build_channel_sensor(channel) for channel in SETTINGS.channels), *alert_sensors(SETTINGS)],
    schedules=[
        sync_every_ten_minutes,
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
