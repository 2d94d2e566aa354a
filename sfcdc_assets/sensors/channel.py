"""One sensor a channel: land what its open subscription has brought, then ask for the runs that the tables need.

The sensor lands what it reads, because Salesforce meters deliveries and an event that was only peeked at would be paid
for twice; the runs it asks for work on what is landed. What work there is comes from the tables: a run that failed, or
an instance that forgot everything, changes nothing about what the next tick finds to do.
"""

import atexit
from collections.abc import Callable, Sequence
from functools import partial

import dagster as dg

from sfcdc_assets import clock
from sfcdc_assets.assets.layer_metadata import channel_materialization
from sfcdc_assets.assets.reports import Event, cut_materialization, raw_events_materializations
from sfcdc_assets.channel_kinds import carries_changes, folder_of, kind_of
from sfcdc_assets.config import load_settings
from sfcdc_assets.jobs import SNAPSHOT, SYNC
from sfcdc_assets.jobs.request import CONCURRENCY_TAG, concurrency_key, request_of_sensor
from sfcdc_assets.lake.seen import seen
from sfcdc_assets.partitions import ENTITY
from sfcdc_assets.pipeline.applying.note_cut import note_cut_of
from sfcdc_assets.pipeline.entities import EntityState, entity_channels, entity_states
from sfcdc_assets.pipeline.following import FOLLOW_SECONDS
from sfcdc_assets.pipeline.landing.land import LandingReport
from sfcdc_assets.pipeline.landing.patience import TICK, Patience
from sfcdc_assets.pipeline.landing.payload_retention import seen_by_retention
from sfcdc_assets.pipeline.landing.same_organization import WrongOrganization, claim_warehouse
from sfcdc_assets.pipeline.org_reads.refused_reads import sentences
from sfcdc_assets.resources.lake import LakeResource
from sfcdc_assets.resources.org import OrgResource
from sfcdc_assets.salesforce.errors import LoginRefused, OrganizationReplaced
from sfcdc_assets.sensors.event_channel import event_tick
from sfcdc_assets.sensors.open_channels import OpenChannel, OpenChannels

INTERVAL_SECONDS = 1
"""Less than the five seconds of the daemon's loop, which looks at each sensor once: with as much as these, a tick that
began a moment late is found too recent by the next loop, and ten seconds pass between two ticks."""
REFUSALS = (WrongOrganization, OrganizationReplaced, LoginRefused)
"""After these a channel is opened again by the next tick: a session that is kept would go on with the old login."""
COPY_SECONDS = 600.0
"""How long a run goes on with copies of entities before another one begins with what is small and new by then."""
LOOK_SECONDS = 30.0
"""How often the tables are looked at when nothing was landed: other processes work on them too."""
NAMES_SHOWN = 20
RETRY_SECONDS = 30.0
"""How long after a failed run the next one of its kind is asked for."""
UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]

OPEN_CHANNELS = OpenChannels()
"""Those of this process's sensors."""
atexit.register(OPEN_CHANNELS.close)


def build_channel_sensor(channel: str) -> dg.SensorDefinition:
    """The sensor of one channel; on unless switched off in the UI."""

    has_changes = carries_changes(channel)
    named = folder_of(channel) if has_changes else f"{kind_of(channel)}_{folder_of(channel)}"
    then = (
        "adds entities as partitions, and asks for one run over the entities that have work"
        if has_changes
        else "and reports what came; no run follows, as each event stands for itself"
    )

    @dg.sensor(
        name="poll_" + named.replace("-", "_"),
        jobs=[SYNC, SNAPSHOT] if has_changes else None,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Keeps a subscription to {channel} open, lands what it brings, {then}.",
    )
    def poll(context: dg.SensorEvaluationContext, lake: LakeResource, org: OrgResource) -> dg.SensorResult:
        warehouse = lake.warehouse()
        opened = OPEN_CHANNELS.of(channel, warehouse, load_settings(), partial(org.connect, warehouse))
        try:
            return tick_of(channel)(context.instance, channel, opened, TICK)
        except REFUSALS:
            OPEN_CHANNELS.drop(channel)
            raise

    return poll


Tick = Callable[[dg.DagsterInstance, str, OpenChannel, Patience], dg.SensorResult]


def tick_of(channel: str) -> Tick:
    """What a tick of the channel does."""
    return tick if carries_changes(channel) else event_tick


def tick(instance: dg.DagsterInstance, channel: str, opened: OpenChannel, patience: Patience) -> dg.SensorResult:
    """One tick. A refused token, an unknown channel or an outage fails the tick with its reason; it is never a skip.

    `opened.looked.cut_owed` is true afterwards as long as there is work, or a cut that cannot be noted yet.
    """
    with opened.in_use():
        report = opened.land(patience)
        # Who waits until all is done has ticked more than once, and wants to hear what all of it has landed.
        landed = _landed(report, "") if patience is TICK else _landed(report, " by this sync", opened.landed)
        looked = opened.looked
        now = clock.current().monotonic()
        is_unchanged = not report.count and report.complete_position == looked.complete_position
        if patience is TICK and is_unchanged and not looked.was_busy:
            if now - looked.at >= LOOK_SECONDS and looked.nothing_changed(now):
                looked.at = now
            if now - looked.at < LOOK_SECONDS:
                return dg.SensorResult(skip_reason=landed + "; nothing has changed.")
        looked.at = float("-inf")  # should the look fail, the next tick looks again
        looked.was_idle = False
        with seen(opened.warehouse) as looked.tables:
            result = _look(instance, channel, opened, report, landed, retries_at_once=patience is not TICK)
        looked.at, looked.looked_through_at, looked.complete_position = now, now, report.complete_position
        return result


def _look(
    instance: dg.DagsterInstance,
    channel: str,
    opened: OpenChannel,
    report: LandingReport,
    landed: str,
    *,
    retries_at_once: bool,
) -> dg.SensorResult:
    warehouse, settings, looked = opened.warehouse, opened.settings, opened.looked
    # The session is kept open for long, and another process may have given the warehouse to another organization.
    claim_warehouse(warehouse, opened.org.session.organization_id, clock.now_ms())
    known = entity_channels(warehouse, settings.channels, settings.entities, opened.members)
    mine = {entity: of for entity, of in known.items() if of == channel}
    keys = list(instance.get_dynamic_partitions(_name()))
    new = [entity for entity in mine if entity not in keys]
    added = [ENTITY.build_add_request(new)] if new else []
    events: list[Event] = [
        *raw_events_materializations(warehouse, report, mine),
        channel_materialization(warehouse, report),
    ]
    busy = {job: unfinished_run(instance, channel, job) for job in (SYNC.name, SNAPSHOT.name)}
    looked.was_busy = busy[SYNC.name] is not None
    if looked.was_busy:
        looked.cut_owed = True
        reason = f"{landed}; run {busy[SYNC.name]} is at work on {channel}."
        return dg.SensorResult(skip_reason=reason, dynamic_partitions_requests=added, asset_events=events)
    states = entity_states(warehouse, mine, privacy=opened.org.privacy)
    states = seen_by_retention(warehouse, states, settings.payload_retention_days, clock.now_ms())
    work = {SYNC.name: [state for state in states if state.has_work]}
    if not busy[SNAPSHOT.name] and report.has_checkpoint:
        work[SNAPSHOT.name] = [state for state in states if state.needs_snapshot]
    requests, no_room = [], None
    for job, seconds in (
        (SNAPSHOT.name, {"for_seconds": COPY_SECONDS}),
        (SYNC.name, {"follow_seconds": FOLLOW_SECONDS}),
    ):
        if not work.get(job) or not (retries_at_once or not _failed_just_now(instance, channel, job)):
            continue
        if job == SNAPSHOT.name:
            no_room = opened.snapshot_budget.why_not(is_sure=False)
        if job == SYNC.name or no_room is None:
            requests.append(request_of_sensor(job, channel, report.complete_through_ms, **seconds))
    if work[SYNC.name]:
        looked.cut_owed = True
    elif looked.cut_owed:
        position, through_ms = report.complete_position, report.complete_through_ms
        noted = note_cut_of(warehouse, states, channel, position, through_ms, clock.now_ms())
        looked.cut_owed = noted.rows_are_ahead
        if noted.cut is not None:
            events.append(cut_materialization(warehouse, noted.cut))
    looked.was_idle = not (new or busy[SNAPSHOT.name] or looked.cut_owed) and all(state.rests for state in states)
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else _nothing_to_do(report, landed, states, busy[SNAPSHOT.name], no_room),
        dynamic_partitions_requests=added,
        asset_events=events,
    )


def unfinished_run(instance: dg.DagsterInstance, channel: str, job: str) -> str | None:
    """Id of a queued or running run of the job on the channel."""
    runs = instance.get_runs(
        dg.RunsFilter(job_name=job, tags={CONCURRENCY_TAG: concurrency_key(channel, job)}, statuses=UNFINISHED), limit=1
    )
    return runs[0].run_id if runs else None


def _failed_just_now(instance: dg.DagsterInstance, channel: str, job: str) -> bool:
    """Whether the last run of the job on the channel failed a short time ago: it is tried again, but not at once."""
    last = instance.get_run_records(
        dg.RunsFilter(job_name=job, tags={CONCURRENCY_TAG: concurrency_key(channel, job)}), limit=1
    )
    if not last or last[0].dagster_run.status != dg.DagsterRunStatus.FAILURE:
        return False
    ended = last[0].end_time or last[0].update_timestamp.timestamp()
    return clock.now_ms() / 1000 - ended < RETRY_SECONDS


def _some(entities: Sequence[str]) -> str:
    """Their names, as far as a line has room."""
    more = len(entities) - NAMES_SHOWN
    return ", ".join(entities[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _name() -> str:
    assert ENTITY.name is not None
    return ENTITY.name


def _landed(report: LandingReport, by: str, count: int | None = None) -> str:
    events = report.count if count is None else count
    description = f"{events} events landed on {report.channel}{by}, position {report.position}"
    return description if report.has_answered else f"{description} (the stream has not answered yet)"


def _nothing_to_do(
    report: LandingReport,
    description: str,
    states: Sequence[EntityState],
    snapshot_run: str | None,
    no_room: str | None,
) -> str:
    refused = {state.entity: state.refused for state in states if state.refused is not None}
    if refused:
        return f"{description}; {' '.join(sentences(refused))}"
    waiting = [state.entity for state in states if state.needs_snapshot]
    if waiting and snapshot_run:
        return f"{description}; run {snapshot_run} takes the snapshot of {_some(waiting)}."
    if waiting and no_room:
        return f"{description}; snapshots of {_some(waiting)} wait: {no_room}."
    if waiting and not report.has_checkpoint:
        return (
            f"{description}; the stream was begun at LATEST and no keepalive has come yet, so no snapshot can be taken."
        )
    if not report.is_complete:
        return (
            f"{description}; the last transaction may not be complete yet, all is applied up to position "
            f"{report.complete_position}."
        )
    doubts = {state.entity: state.doubts_open for state in states if state.doubts_open}
    if doubts:
        blocked = ", ".join(f"{count} of {entity}" for entity, count in doubts.items())
        return f"{description}; all else is up to date; suspect records are read back after their pause: {blocked}."
    if any(state.has_work or state.needs_snapshot for state in states):
        return f"{description}; the last run failed, and is tried again in a moment."
    return f"{description}; all {len(states)} entities are up to date."
