"""One sensor a channel: land what a short poll brings, then ask for the runs that the tables say are needed.

The sensor lands what it polls, because Salesforce meters deliveries and an event that was only peeked at would be paid
for twice. What work there is comes from the tables: a run that failed, or an instance that forgot everything, changes
nothing about what the next tick finds to do.
"""

import time
from collections.abc import Collection, Sequence

import dagster as dg

from sfcdc_assets.assets.keys import RAW_EVENTS_KEY
from sfcdc_assets.assets.layer_metadata import channel_observation, raw_events_metadata
from sfcdc_assets.assets.run_scope import CHANNEL_TAG, LANE_TAG, TRIGGER_TAG, lane
from sfcdc_assets.config import load_settings
from sfcdc_assets.jobs import SNAPSHOT, SYNC
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.partitions import ENTITY
from sfcdc_assets.pipeline.entities import EntityState, entity_channels, entity_states, seen_by_privacy
from sfcdc_assets.pipeline.landing import POLL_SECONDS, SETTLE_SECONDS, Lander, LandingReport
from sfcdc_assets.pipeline.layout import seen_by_layout
from sfcdc_assets.pipeline.payload_retention import seen_by_retention
from sfcdc_assets.resources.lake import LakeResource
from sfcdc_assets.resources.org import OrgResource

INTERVAL_SECONDS = 30
UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def build_channel_sensor(channel: str) -> dg.SensorDefinition:
    """The sensor of one channel; on unless switched off in the UI."""

    @dg.sensor(
        name="poll_" + channel.removeprefix("/data/"),
        jobs=[SYNC, SNAPSHOT],
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Polls {channel} for a few seconds, lands what it brings, adds entities as partitions, and asks "
        "for one run over the entities that have work.",
    )
    def poll(context: dg.SensorEvaluationContext, lake: LakeResource, org: OrgResource) -> dg.SensorResult:
        return tick(context, channel, lake.warehouse(), org)

    return poll


def tick(context: dg.SensorEvaluationContext, channel: str, warehouse: Warehouse, org: OrgResource) -> dg.SensorResult:
    """One tick. A refused token, an unknown channel or an outage fails the tick with its reason; it is never a skip."""
    busy = {job: unfinished_run(context.instance, channel, job) for job in (SYNC.name, SNAPSHOT.name)}
    if busy[SYNC.name]:
        return dg.SensorResult(
            skip_reason=f"Run {busy[SYNC.name]} is at work on {channel}: it drains the stream to its tip itself."
        )
    settings = load_settings()
    with org.connect(warehouse) as connected:
        lander = Lander(warehouse, connected)
        report = lander.land(channel, settle=SETTLE_SECONDS, budget=POLL_SECONDS)
        known = entity_channels(warehouse, settings.channels, settings.entities, connected.members)
        privacy = connected.privacy
    mine = {entity: of for entity, of in known.items() if of == channel}
    states = seen_by_layout(warehouse, entity_states(warehouse, mine), privacy)
    states = seen_by_privacy(warehouse, states, privacy)
    states = seen_by_retention(warehouse, states, settings.payload_retention_days, int(time.time() * 1000))
    keys = list(context.instance.get_dynamic_partitions(_name()))
    new = [entity for entity in mine if entity not in keys]
    requests = []
    if not busy[SNAPSHOT.name]:
        requests += _request(SNAPSHOT.name, channel, [state for state in states if state.needs_snapshot], [*keys, *new])
    requests += _request(SYNC.name, channel, [state for state in states if state.has_work], [*keys, *new])
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else _nothing_to_do(report, states, busy[SNAPSHOT.name]),
        dynamic_partitions_requests=[ENTITY.build_add_request(new)] if new else [],
        asset_events=[*_materializations(warehouse, report, mine), channel_observation(warehouse, report)],
    )


def unfinished_run(instance: dg.DagsterInstance, channel: str, job: str) -> str | None:
    """Id of a queued or running run of the job on the channel."""
    runs = instance.get_runs(
        dg.RunsFilter(job_name=job, tags={LANE_TAG: lane(channel, job)}, statuses=UNFINISHED), limit=1
    )
    return runs[0].run_id if runs else None


def _request(job: str, channel: str, states: Sequence[EntityState], keys: Sequence[str]) -> list[dg.RunRequest]:
    """One run over the smallest range of keys that has all these entities; the run leaves the others alone.

    Dagster runs cover a contiguous range in the order the keys were added (facts/DAGSTER.md 1.3), start before end.
    There is no run key: it would swallow the retry of a failed run.
    """
    if not states:
        return []
    numbers = sorted(keys.index(state.entity) for state in states)
    tags = {
        TRIGGER_TAG: "sensor",
        CHANNEL_TAG: channel,
        LANE_TAG: lane(channel, job),
        "dagster/asset_partition_range_start": keys[numbers[0]],
        "dagster/asset_partition_range_end": keys[numbers[-1]],
    }
    return [dg.RunRequest(job_name=job, tags=tags)]


def _name() -> str:
    assert ENTITY.name is not None
    return ENTITY.name


def _nothing_to_do(report: LandingReport, states: Sequence[EntityState], snapshot_run: str | None) -> str:
    told = f"{report.count} events landed on {report.channel}, position {report.position}"
    told += "" if report.at_tip else " (tip not reached yet)"
    waiting = [state.entity for state in states if state.needs_snapshot]
    if waiting and snapshot_run:
        return f"{told}; run {snapshot_run} takes the snapshot of {', '.join(waiting)}."
    if report.position > report.complete_position:
        return f"{told}; the last transaction is not complete yet, up to {report.complete_position} all is applied."
    doubts = {state.entity: state.doubts_open for state in states if state.doubts_open}
    if doubts:
        held = ", ".join(f"{count} of {entity}" for entity, count in doubts.items())
        return f"{told}; all else is up to date, records in doubt are read back when their pause is over: {held}."
    return f"{told}; all {len(states)} entities are up to date."


def _materializations(
    warehouse: Warehouse, report: LandingReport, mine: Collection[str]
) -> list[dg.AssetMaterialization]:
    """Of the entities that this channel feeds: an event that landed from two channels is told of once."""
    return [
        dg.AssetMaterialization(
            RAW_EVENTS_KEY, partition=entity, metadata=raw_events_metadata(warehouse, report, entity)
        )
        for entity in report.events
        if entity in mine
    ]
