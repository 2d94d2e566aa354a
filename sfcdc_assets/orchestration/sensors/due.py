"""What a channel's tables need after a reading of its stream, also after one that failed: reports, a cut, runs.

It is found from the tables alone: a run that failed, or an instance that forgot everything, changes nothing about what
the next tick finds to do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import dagster as dg

from sfcdc_assets.apply.follow_run import FOLLOW_SECONDS
from sfcdc_assets.apply.record_cut import note_cut_of
from sfcdc_assets.entities.entities import entity_channels, entity_states
from sfcdc_assets.entities.entity_state import EntityState
from sfcdc_assets.lake.delta.table_changes import seen
from sfcdc_assets.lake.tables.consistent_cuts import latest_cut
from sfcdc_assets.lake.tables.snapshot_plan import note_plan
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.payload_retention import seen_by_retention
from sfcdc_assets.landing.poll_timeouts import TICK, PollTimeouts
from sfcdc_assets.landing.run_lander import Reading
from sfcdc_assets.orchestration.assets.column_reports import with_new_columns
from sfcdc_assets.orchestration.assets.front_doors import UnreportedDoors
from sfcdc_assets.orchestration.assets.layer_metadata import channel_materialization
from sfcdc_assets.orchestration.assets.materializations import cut_materialization, raw_events_materializations
from sfcdc_assets.orchestration.assets.reports import Event
from sfcdc_assets.orchestration.assets.unreported_landings import HeldLandings
from sfcdc_assets.orchestration.jobs.failed_runs import FAILURES_COUNTED, seconds_after_failures
from sfcdc_assets.orchestration.jobs.hand_over import is_ending, next_run, unfinished_run
from sfcdc_assets.orchestration.jobs.run_config import AT_WORK, SNAPSHOT, SYNC, UNFINISHED, request_of_sensor
from sfcdc_assets.orchestration.org_assets import CHANNEL_TAG, OrgAssets
from sfcdc_assets.orchestration.sensors.event_channel import events_due
from sfcdc_assets.orchestration.sensors.open_channel import LastLook, OpenChannel
from sfcdc_assets.orchestration.sensors.tick_sentences import NAMES_SHOWN, idle_sentence, landed_sentence
from sfcdc_assets.org_connection.same_organization import claim_warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import enumerated
from sfcdc_assets.settings.channel_kinds import carries_changes, feeds_entities

COPY_SECONDS = 600.0
"""How long a run goes on with copies of entities before another one begins with what is small and new by then."""
LOOK_SECONDS = 30.0
"""How often the tables are looked at when nothing was landed: other processes work on them too."""
RETRY_SECONDS = 30.0
"""How long after a failed run the next one of its kind is asked for. For work that several in a row were asked for and
failed at, it is twice as long each time: each try takes a login, jobs of Bulk API 2.0 and requests of everybody's."""
LONGEST_RETRY_SECONDS = 600.0


def due(
    assets: OrgAssets,
    instance: dg.DagsterInstance,
    opened: OpenChannel,
    reading: Reading,
    timeouts: PollTimeouts,
) -> dg.SensorResult:
    """Return what is due after a reading, also after one that failed: from the tables alone.

    `opened.last_look.cut_owed` is true afterwards as long as there is work, or a cut that cannot be noted yet.
    """
    report, channel = reading.report, opened.channel
    if not feeds_entities(channel):
        return events_due(assets, instance, opened, reading)
    # Who waits until all is done has ticked more than once, and wants to hear what all of it has landed.
    landed = (
        landed_sentence(report, "") if timeouts is TICK else landed_sentence(report, " by this sync", opened.landed)
    )
    last_look = opened.last_look
    now = clock.current().monotonic()
    if carries_changes(channel):
        last_look.held.add(report)
    is_unchanged = not report.count and report.complete_position == last_look.complete_position
    if timeouts is TICK and is_unchanged and not last_look.was_busy:
        if now - last_look.at >= LOOK_SECONDS and last_look.nothing_changed(now):
            last_look.at = now
        waits = now - last_look.at < LOOK_SECONDS and not last_look.held.has_due_events
        if waits and not _has_copied(assets, instance, channel, opened):
            alive = last_look.held.take_sign_of_life()
            events = [channel_materialization(assets, opened.warehouse, alive)] if alive is not None else []
            return dg.SensorResult(skip_reason=landed + "; nothing has changed.", asset_events=events)
    last_look.at = float("-inf")  # should the look fail, the next tick looks again
    last_look.was_idle = last_look.is_unproven = last_look.is_copying = False
    with seen(opened.warehouse) as last_look.tables:
        result = _due_now(assets, instance, channel, opened, report, landed, retries_at_once=timeouts is not TICK)
        # Last, as what is taken is not held any more.
        events = landings_due(
            assets, instance, opened.warehouse, last_look.held, last_look.entities, at_once=timeouts is not TICK
        )
    last_look.cut = None
    last_look.is_known |= not last_look.was_busy
    last_look.at, last_look.full_look_at, last_look.complete_position = now, now, report.complete_position
    return dg.SensorResult(
        run_requests=result.run_requests,
        skip_reason=result.skip_reason,
        dynamic_partitions_requests=result.dynamic_partitions_requests,
        asset_events=[*events, *result.asset_events],
    )


def _due_now(
    assets: OrgAssets,
    instance: dg.DagsterInstance,
    channel: str,
    opened: OpenChannel,
    report: LandingReport,
    landed: str,
    *,
    retries_at_once: bool,
) -> dg.SensorResult:
    warehouse, settings, last_look = opened.warehouse, opened.settings, opened.last_look
    # The session is kept open for long, and another process may have given the warehouse to another organization.
    claim_warehouse(warehouse, opened.org.session.organization_id, clock.now_ms())
    known = entity_channels(warehouse, settings.channels, settings.entities, opened.members)
    last_look.entities = mine = {entity: of for entity, of in known.items() if of == channel}
    if not mine:
        opened.members(channel)  # raises why it is not known what there is to do
    keys = list(instance.get_dynamic_partitions(assets.entities.name or ""))
    new = [entity for entity in mine if entity not in keys]
    added = [assets.entities.build_add_request(new)] if new else []
    # Who applies by itself waits for no run that only is in the queue: there may be no daemon to start it.
    waits_for = AT_WORK if retries_at_once else UNFINISHED
    at_work = unfinished_run(assets, instance, warehouse, channel, SYNC, waits_for)
    copies = unfinished_run(assets, instance, warehouse, channel, SNAPSHOT, waits_for)
    copying = copies.run_id if copies is not None else None
    last_look.was_busy = at_work is not None
    if at_work is not None and not retries_at_once:
        last_look.cut_owed = True
        # Copies are asked for when no run of `sync` is at work; if some are due, nobody takes over from this one.
        if (
            is_ending(at_work)
            and not _seconds_to_wait(assets, instance, channel, SYNC, FAILURES_COUNTED)
            and (copying is not None or not any(state.needs_snapshot for state in _states(opened, mine)))
        ):
            takes_over = next_run(assets, channel, report.complete_through_ms, at_work)
            return dg.SensorResult(run_requests=[takes_over], dynamic_partitions_requests=added)
        reason = f"{landed}; run {at_work.run_id} is at work on {channel}, and goes on with what lands (step follow)."
        return dg.SensorResult(skip_reason=reason, dynamic_partitions_requests=added)
    states = _states(opened, mine)
    work = {SYNC: [state for state in states if state.has_work]}
    last_look.waits_for = at_work.run_id if at_work is not None and work[SYNC] else None
    last_look.was_busy = last_look.waits_for is not None
    if last_look.was_busy:
        last_look.cut_owed = True
        waiting = enumerated([state.entity for state in work[SYNC]], NAMES_SHOWN)
        run = last_look.waits_for
        reason = f"{landed}; run {run}, of another process, is at work on {channel}, and {waiting} waits."
        return dg.SensorResult(skip_reason=reason, dynamic_partitions_requests=added)
    if copying is not None and any(state.needs_snapshot for state in states):
        last_look.waits_for = copying
    if at_work is None:
        work[SYNC] += _newly_damaged(states, last_look)
    if copying is None and report.has_checkpoint:
        work[SNAPSHOT] = [state for state in states if state.needs_snapshot]
    due_jobs = [
        job
        for job, of in work.items()
        if of
        and (
            retries_at_once or _seconds_to_wait(assets, instance, channel, job, last_look.asked_for[job].times(of)) == 0
        )
    ]
    requests, no_room = _requests_due(assets, opened, report, due_jobs)
    _note_no_room(opened.warehouse, last_look, no_room, [state.entity for state in work.get(SNAPSHOT, ())])
    asked_for = {assets.short(request.job_name or "") for request in requests}
    for job in asked_for:
        last_look.asked_for[job].note(work[job])
    # Who comes once does not wait minutes for a keepalive, and has tables that can be queried; who stays hears it.
    waits = report.has_answered or bool(requests) or not retries_at_once
    _look_at_cut(
        opened, states, report, has_work=bool(work[SYNC]), is_sync_due=SYNC in asked_for, waits_for_first=waits
    )
    events = _of_cuts(assets, instance, opened, looks_back=not (last_look.is_known or retries_at_once))
    last_look.is_copying = copying is not None or SNAPSHOT in asked_for
    last_look.was_idle = not (new or copying or last_look.cut_owed) and all(state.rests for state in states)
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else idle_sentence(report, landed, states, copying, no_room),
        dynamic_partitions_requests=added,
        asset_events=events,
    )


def _states(opened: OpenChannel, entities: Mapping[str, str]) -> list[EntityState]:
    states = entity_states(opened.warehouse, entities, privacy=opened.org.privacy)
    return seen_by_retention(opened.warehouse, states, opened.settings.payload_retention_days, clock.now_ms())


def _requests_due(
    assets: OrgAssets, opened: OpenChannel, report: LandingReport, jobs: Collection[str]
) -> tuple[list[dg.RunRequest], str | None]:
    """Return the runs of these jobs to ask for, and why none of copies, where there is no room for them."""
    requests, no_room = [], opened.snapshot_budget.why_not(is_sure=False) if SNAPSHOT in jobs else None
    for job, seconds in (
        (SNAPSHOT, {"for_seconds": COPY_SECONDS}),
        (SYNC, {"follow_seconds": FOLLOW_SECONDS}),
    ):
        if job in jobs and (job == SYNC or no_room is None):
            requests.append(request_of_sensor(assets, job, opened.channel, report.complete_through_ms, **seconds))
    return requests, no_room


def _look_at_cut(
    opened: OpenChannel,
    states: Sequence[EntityState],
    report: LandingReport,
    *,
    has_work: bool,
    is_sync_due: bool,
    waits_for_first: bool,
) -> None:
    """Note the cut that is owed, unless a run is asked for that moves the tables on."""
    last_look = opened.last_look
    versions = {name: version for state in states for name, version in state.versions.items()}
    # Others move versions on too, without a change of rows: the newest cut goes with them, and old files may go.
    last_look.cut_owed |= has_work or versions != last_look.versions
    if not last_look.cut_owed or is_sync_due:
        return
    position, through_ms = report.complete_position, report.complete_through_ms
    noted = note_cut_of(opened.warehouse, states, opened.channel, position, through_ms, waits_for_first=waits_for_first)
    last_look.cut_owed = has_work or noted.rows_are_ahead
    last_look.is_unproven = noted.is_unproven
    last_look.versions = versions
    last_look.cut = noted.cut or last_look.cut


def _of_cuts(assets: OrgAssets, instance: dg.DagsterInstance, opened: OpenChannel, *, looks_back: bool) -> list[Event]:
    """Return the materializations of a cut that a tick noted, and of the entities that it brings; `looks_back`: where
    there is none, of those of the newest cut. Who noted that may have ended before its report, or be `sfcdc sync` in a
    terminal, and what hangs on them would wait for their next change."""
    warehouse, last_look, events = opened.warehouse, opened.last_look, list[Event]()
    if last_look.cut is not None:
        events = [cut_materialization(assets.keys, warehouse, last_look.cut)]
    cut = last_look.cut or (latest_cut(warehouse, opened.channel) if looks_back else None)
    if cut is not None:
        doors = UnreportedDoors(assets, instance)
        doors.cut(cut)
        events += doors.take(warehouse, at_once=True)
    return [with_new_columns(instance, event) for event in events]


def landings_due(
    assets: OrgAssets,
    instance: dg.DagsterInstance,
    warehouse: Warehouse,
    held: HeldLandings,
    mine: Collection[str],
    *,
    at_once: bool,
) -> list[Event]:
    """Materializations of the channel and of its entities, as far as they are due (`Pace`)."""
    found, of_channel = held.take_entities(at_once=at_once), held.take_channel(at_once=at_once)
    of_entities = raw_events_materializations(assets, warehouse, found, mine) if found is not None else []
    return [
        *(with_new_columns(instance, event) for event in of_entities),
        *([channel_materialization(assets, warehouse, of_channel)] if of_channel is not None else []),
    ]


def _has_copied(assets: OrgAssets, instance: dg.DagsterInstance, channel: str, opened: OpenChannel) -> bool:
    """Return whether there may be copies that the last look did not see: whoever waits for a first table waits for
    these."""
    last_look = opened.last_look
    if not last_look.is_copying or last_look.tables is None:
        return False
    is_over = unfinished_run(assets, instance, opened.warehouse, channel, SNAPSHOT) is None
    return is_over or not last_look.tables.is_unchanged()


def _newly_damaged(states: Sequence[EntityState], last_look: LastLook) -> list[EntityState]:
    """Return those that the last look did not find damaged, and note which are. A run shows one as failed, and one run
    is enough: without others that have work, no further one is asked for."""
    before = {entity: str(damage) for entity, damage in last_look.damaged.items()}
    damaged = {state.entity: state.damaged for state in states if state.damaged is not None}
    last_look.damaged = damaged
    return [s for s in states if s.entity in damaged and str(damaged[s.entity]) != before.get(s.entity)]


def _note_no_room(warehouse: Warehouse, last_look: LastLook, no_room: str | None, waiting: Sequence[str]) -> None:
    """Once for each set of entities, not at every tick: `sfcdc status` shows it."""
    before = last_look.no_room[1] if last_look.no_room is not None else ()
    last_look.no_room = (no_room, tuple(waiting)) if no_room is not None else None
    if no_room is not None and before != tuple(waiting):
        note_plan(warehouse, dict.fromkeys(waiting), clock.now_ms(), no_room)


def _seconds_to_wait(assets: OrgAssets, instance: dg.DagsterInstance, channel: str, job: str, times: int) -> float:
    """Return how long work of a channel waits that its job was asked for so many times in vain."""
    tags = {CHANNEL_TAG: channel}
    first, longest = RETRY_SECONDS, LONGEST_RETRY_SECONDS
    return seconds_after_failures(instance, assets.name(job), first, longest, tags=tags, most=times)
