"""One sensor a channel: land what its open subscription has brought, then ask for the runs that the tables need.

These are two things, and the second does not depend on the first: while a stream fails, what has landed is applied,
read back and copied as ever. `sfcdc sync` does both with the same functions.

The sensor lands what it reads, because Salesforce meters deliveries and an event that was only peeked at would be paid
for twice; the runs it asks for work on what is landed. What work there is comes from the tables: a run that failed, or
an instance that forgot everything, changes nothing about what the next tick finds to do.
"""

import atexit
from collections.abc import Callable, Collection, Sequence
from functools import partial

import dagster as dg

from sfcdc_assets.apply.follow_run import FOLLOW_SECONDS
from sfcdc_assets.apply.record_cut import note_cut_of
from sfcdc_assets.entities.entities import EntityState, entity_channels, entity_states
from sfcdc_assets.entities.refused_reads import sentences
from sfcdc_assets.lake.delta.table_changes import seen
from sfcdc_assets.lake.tables.snapshot_plan import note_plan
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.payload_retention import seen_by_retention
from sfcdc_assets.landing.poll_timeouts import TICK, Patience
from sfcdc_assets.landing.retry_pause import OF_THE_LOGIN
from sfcdc_assets.orchestration.assets.column_reports import with_new_columns
from sfcdc_assets.orchestration.assets.keys import ENTITY
from sfcdc_assets.orchestration.assets.layer_metadata import channel_materialization
from sfcdc_assets.orchestration.assets.reports import Event, cut_materialization, raw_events_materializations
from sfcdc_assets.orchestration.assets.unreported_landings import HeldLandings
from sfcdc_assets.orchestration.jobs import SNAPSHOT, SYNC
from sfcdc_assets.orchestration.jobs.lost_runs import LOST_TAG, end_if_lost
from sfcdc_assets.orchestration.jobs.run_config import (
    AT_WORK,
    CONCURRENCY_TAG,
    UNFINISHED,
    concurrency_key,
    request_of_sensor,
)
from sfcdc_assets.orchestration.resources import LakeResource, OrgResource
from sfcdc_assets.orchestration.sensors.event_channel import look_at_events
from sfcdc_assets.orchestration.sensors.open_channels import Looked, OpenChannel, OpenChannels, Reading
from sfcdc_assets.org_connection.same_organization import claim_warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.salesforce.rest_deadline import UnansweredTime, unanswered_at_most
from sfcdc_assets.settings.channel_kinds import carries_changes, feeds_entities, folder_of, is_polled, kind_of
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark.own_standing_spark import KeptSpark

INTERVAL_SECONDS = 1
"""Less than the five seconds of the daemon's loop, which looks at each sensor once: with as much as these, a tick that
began a moment late is found too recent by the next loop, and ten seconds pass between two ticks."""
COPY_SECONDS = 600.0
"""How long a run goes on with copies of entities before another one begins with what is small and new by then."""
REST_SECONDS = 20.0
"""How long a tick waits in all for requests that the org does not answer; with the stream's share less than the minute
after which Dagster calls the code server unreachable."""
LOOK_SECONDS = 30.0
"""How often the tables are looked at when nothing was landed: other processes work on them too."""
NAMES_SHOWN = 20
RETRY_SECONDS = 30.0
"""How long after a failed run the next one of its kind is asked for."""

OPEN_CHANNELS = OpenChannels()
"""Those of this process's sensors."""
KEPT_SPARK = KeptSpark()
"""For the runs that they ask for."""
atexit.register(OPEN_CHANNELS.close)
atexit.register(KEPT_SPARK.end)


def build_channel_sensor(channel: str) -> dg.SensorDefinition:
    """Return the sensor of one channel; on unless switched off in the UI."""

    has_changes = feeds_entities(channel)
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
        description=(
            f"Asks the polled objects that are due for what changed, {then}."
            if is_polled(channel)
            else f"Keeps a subscription to {channel} open, lands what it brings, {then}."
        ),
    )
    def poll(context: dg.SensorEvaluationContext, lake: LakeResource, org: OrgResource) -> dg.SensorResult:
        warehouse, settings = lake.warehouse(), load_settings()
        if has_changes:
            KEPT_SPARK.look(settings)  # first of all: it starts while the channel is read
        with unanswered_at_most(UnansweredTime(REST_SECONDS)):
            opened = OPEN_CHANNELS.of(channel, warehouse, settings, partial(org.connect, warehouse))
            try:
                return tick(context.instance, channel, opened, TICK, context.log.warning)
            except OF_THE_LOGIN:
                OPEN_CHANNELS.drop(channel)
                raise

    return poll


def tick(
    instance: dg.DagsterInstance,
    channel: str,
    opened: OpenChannel,
    patience: Patience,
    warn: Callable[[str], object] = lambda _line: None,
) -> dg.SensorResult:
    """One tick: read the channel, then look at what is due.

    A refused token, an unknown channel or an outage fails the tick with its reason, unless the look has found work: a
    tick that fails asks for no run, so the run comes first, and `warn` is given the reason.
    """
    with opened.in_use():
        reading = opened.read(patience)
        try:
            result = look(instance, channel, opened, reading, patience)
        except Exception as error:
            raise reading.failure or error from error
    if reading.failure is not None:
        if not result.run_requests:
            raise reading.failure
        warn(f"{channel}: the stream could not be read, what has landed is worked on. {reading.failure}")
    return result


def look(
    instance: dg.DagsterInstance, channel: str, opened: OpenChannel, reading: Reading, patience: Patience
) -> dg.SensorResult:
    """Return what is due after a reading, also after one that failed: from the tables alone.

    `opened.looked.cut_owed` is true afterwards as long as there is work, or a cut that cannot be noted yet.
    """
    report = reading.report
    if not feeds_entities(channel):
        return look_at_events(instance, channel, opened, reading)
    # Who waits until all is done has ticked more than once, and wants to hear what all of it has landed.
    landed = _landed(report, "") if patience is TICK else _landed(report, " by this sync", opened.landed)
    looked = opened.looked
    now = clock.current().monotonic()
    if carries_changes(channel):
        looked.held.add(report)
    is_unchanged = not report.count and report.complete_position == looked.complete_position
    if patience is TICK and is_unchanged and not looked.was_busy:
        if now - looked.at >= LOOK_SECONDS and looked.nothing_changed(now):
            looked.at = now
        waits = now - looked.at < LOOK_SECONDS and not looked.held.has_due_events
        if waits and not _has_copied(instance, channel, opened):
            return dg.SensorResult(skip_reason=landed + "; nothing has changed.")
    looked.at = float("-inf")  # should the look fail, the next tick looks again
    looked.was_idle = looked.is_unproven = looked.is_copying = False
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
    events = landings_due(instance, warehouse, looked.held, mine, at_once=retries_at_once)
    # Who applies by itself waits for no run that only is in the queue: there may be no daemon to start it.
    waits_for = AT_WORK if retries_at_once else UNFINISHED
    busy = {job: unfinished_run(instance, warehouse, channel, job, waits_for) for job in (SYNC.name, SNAPSHOT.name)}
    looked.was_busy = busy[SYNC.name] is not None
    if looked.was_busy and not retries_at_once:
        looked.cut_owed = True
        reason = f"{landed}; run {busy[SYNC.name]} is at work on {channel}, and goes on with what lands (step follow)."
        return dg.SensorResult(skip_reason=reason, dynamic_partitions_requests=added, asset_events=events)
    states = entity_states(warehouse, mine, privacy=opened.org.privacy)
    states = seen_by_retention(warehouse, states, settings.payload_retention_days, clock.now_ms())
    work = {SYNC.name: [state for state in states if state.has_work]}
    looked.waits_for = busy[SYNC.name] if work[SYNC.name] else None
    looked.was_busy = looked.waits_for is not None
    if looked.was_busy:
        looked.cut_owed = True
        waiting = _some([state.entity for state in work[SYNC.name]])
        reason = f"{landed}; run {busy[SYNC.name]}, of another process, is at work on {channel}, and {waiting} waits."
        return dg.SensorResult(skip_reason=reason, dynamic_partitions_requests=added, asset_events=events)
    if busy[SNAPSHOT.name] and any(state.needs_snapshot for state in states):
        looked.waits_for = busy[SNAPSHOT.name]
    if not busy[SYNC.name]:
        work[SYNC.name] += _newly_damaged(states, looked)
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
    _note_no_room(opened.warehouse, looked, no_room, [state.entity for state in work.get(SNAPSHOT.name, ())])
    versions = {name: version for state in states for name, version in state.versions.items()}
    # Others move versions on too, without a change of rows: the newest cut goes with them, and old files may go.
    looked.cut_owed |= bool(work[SYNC.name]) or versions != looked.versions
    if looked.cut_owed and all(request.job_name != SYNC.name for request in requests):
        position, through_ms = report.complete_position, report.complete_through_ms
        # Who comes once does not wait minutes for a keepalive, and has tables that can be queried; who stays hears it.
        waits = report.has_answered or bool(requests) or not retries_at_once
        noted = note_cut_of(warehouse, states, channel, position, through_ms, waits_for_first=waits)
        looked.cut_owed = bool(work[SYNC.name]) or noted.rows_are_ahead
        looked.is_unproven = noted.is_unproven
        looked.versions = versions
        if noted.cut is not None:
            events.append(with_new_columns(instance, cut_materialization(warehouse, noted.cut)))
    looked.is_copying = bool(busy[SNAPSHOT.name]) or any(each.job_name == SNAPSHOT.name for each in requests)
    looked.was_idle = not (new or busy[SNAPSHOT.name] or looked.cut_owed) and all(state.rests for state in states)
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else _nothing_to_do(report, landed, states, busy[SNAPSHOT.name], no_room),
        dynamic_partitions_requests=added,
        asset_events=events,
    )


def landings_due(
    instance: dg.DagsterInstance, warehouse: Warehouse, held: HeldLandings, mine: Collection[str], *, at_once: bool
) -> list[Event]:
    """Materializations of the channel and of its entities, as far as they are due (`Pace`)."""
    found, of_channel = held.take_entities(at_once=at_once), held.take_channel(at_once=at_once)
    of_entities = raw_events_materializations(warehouse, found[0], mine, found[1]) if found is not None else []
    return [
        *(with_new_columns(instance, event) for event in of_entities),
        *([channel_materialization(warehouse, of_channel)] if of_channel is not None else []),
    ]


def _has_copied(instance: dg.DagsterInstance, channel: str, opened: OpenChannel) -> bool:
    """Return whether there may be copies that the last look did not see: whoever waits for a first table waits for
    these."""
    looked = opened.looked
    if not looked.is_copying or looked.tables is None:
        return False
    is_over = unfinished_run(instance, opened.warehouse, channel, SNAPSHOT.name) is None
    return is_over or not looked.tables.is_unchanged()


def _newly_damaged(states: Sequence[EntityState], looked: Looked) -> list[EntityState]:
    """Return those that the last look did not find damaged, and note which are. A run shows one as failed, and one run
    is enough: without others that have work, no further one is asked for."""
    before = {entity: str(damage) for entity, damage in looked.damaged.items()}
    damaged = {state.entity: state.damaged for state in states if state.damaged is not None}
    looked.damaged = damaged
    return [s for s in states if s.entity in damaged and str(damaged[s.entity]) != before.get(s.entity)]


def _note_no_room(warehouse: Warehouse, looked: Looked, no_room: str | None, waiting: Sequence[str]) -> None:
    """Once for each set of entities, not at every tick: `sfcdc status` shows it."""
    before = looked.no_room[1] if looked.no_room is not None else ()
    looked.no_room = (no_room, tuple(waiting)) if no_room is not None else None
    if no_room is not None and before != tuple(waiting):
        note_plan(warehouse, dict.fromkeys(waiting), clock.now_ms(), no_room)


def unfinished_run(
    instance: dg.DagsterInstance,
    warehouse: Warehouse,
    channel: str,
    job: str,
    statuses: Sequence[dg.DagsterRunStatus] = UNFINISHED,
) -> str | None:
    """Id of a run of the job on the channel that has one of these statuses. One whose process is gone is marked as
    failed, and does not count."""
    tags = {CONCURRENCY_TAG: concurrency_key(channel, job)}
    found = instance.get_run_records(dg.RunsFilter(job_name=job, tags=tags, statuses=list(statuses)))
    living = (each for each in found if not end_if_lost(instance, warehouse, each))
    return next((each.dagster_run.run_id for each in living), None)


def _failed_just_now(instance: dg.DagsterInstance, channel: str, job: str) -> bool:
    """Return whether the last run of the job on the channel failed a short time ago: it is tried again, but not at
    once."""
    last = instance.get_run_records(
        dg.RunsFilter(job_name=job, tags={CONCURRENCY_TAG: concurrency_key(channel, job)}), limit=1
    )
    if not last or last[0].dagster_run.status != dg.DagsterRunStatus.FAILURE or LOST_TAG in last[0].dagster_run.tags:
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
    if is_polled(report.channel):
        return f"{counted(events, 'changed record')} of polled objects read{by}, position {report.position}"
    description = f"{counted(events, 'event')} landed on {report.channel}{by}, position {report.position}"
    return description if report.has_answered else f"{description} (the stream has not answered yet)"


def _nothing_to_do(
    report: LandingReport,
    description: str,
    states: Sequence[EntityState],
    snapshot_run: str | None,
    no_room: str | None,
) -> str:
    damaged = [str(state.damaged) for state in states if state.damaged is not None]
    if damaged:
        return f"{description}; {' '.join(damaged)} All other entities go on."
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
    off = [state.entity for state in states if state.off_channel]
    settling = [state.entity for state in states if state.lacks_snapshot and state.paused and not state.off_channel]
    if off or settling:
        reasons = [
            *([f"off the channel, so its changes raise no event: {_some(off)}"] if off else []),
            *([f"suspect and read again when the stream has settled: {_some(settling)}"] if settling else []),
        ]
        return f"{description}; all else is up to date; {'; '.join(reasons)}."
    suspects = {state.entity: state.suspects_open for state in states if state.suspects_open}
    if suspects:
        blocked = ", ".join(f"{count} of {entity}" for entity, count in suspects.items())
        return f"{description}; all else is up to date; suspect records are read back after their pause: {blocked}."
    if any(state.has_work or state.needs_snapshot for state in states):
        return f"{description}; the last run failed, and is tried again in a moment."
    all_of_them = "the entity is" if len(states) == 1 else f"all {len(states)} entities are"
    return f"{description}; {all_of_them} up to date."
