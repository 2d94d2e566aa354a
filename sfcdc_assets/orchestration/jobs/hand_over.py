"""How one run hands its channel over to the next one, without a pause in which nobody applies what lands.

A run ends after `FOLLOW_SECONDS`, so that none is without end. Were the next one asked for only then, changes would
wait for the daemon's next look, the queue, and the start of a process: ten seconds and more. So the sensor asks for it
a moment before. It starts beside the first, makes ready, and begins when the first has applied its last batch, or is
gone. Without a slot for it, it starts when the first has ended, as ever.

What a run notes about itself names the run: one that is executed again in the UI has the tags of the first.
"""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from sfcdc_assets.apply.follow_run import FOLLOW_SECONDS
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.jobs.lost_runs import end_if_lost, living_runs
from sfcdc_assets.orchestration.jobs.run_config import SYNC, UNFINISHED, request_of_sensor
from sfcdc_assets.orchestration.org_assets import CHANNEL_TAG, CONCURRENCY_TAG, OrgAssets
from sfcdc_assets.runtime import clock

AHEAD_SECONDS = 12.0
"""How long before a run's end the next one is asked for: two looks of the daemon, and the start of a process."""
LOOK_SECONDS = 0.25
LOOKS_FOR_LIFE = 20
"""Every so many looks it is asked whether the process of the other run is still there."""
FOLLOWS_UNTIL_TAG = "sfcdc/follows_until"
"""Of a run that goes on with what lands: its id, and until when at most (epoch ms, UTC)."""
HANDED_OVER_TAG = "sfcdc/handed_over"
"""Of a run that applies nothing more, and only reports and checks: its id."""
TAKES_OVER_TAG = "sfcdc/takes_over"
"""Of a run that was asked for before the one that it takes over from has ended: the id of that one."""


def unfinished_run(
    assets: OrgAssets,
    instance: dg.DagsterInstance,
    warehouse: Warehouse,
    channel: str,
    job: str,
    statuses: Sequence[dg.DagsterRunStatus] = UNFINISHED,
) -> dg.DagsterRun | None:
    """Newest run of the job on the channel that has one of these statuses. One whose process is gone is marked as
    failed, and does not count, nor does one that applies nothing more."""
    found = living_runs(instance, warehouse, assets.name(job), {CHANNEL_TAG: channel}, statuses)
    return next((run for run in found if not has_handed_over(run)), None)


def note_following(instance: dg.DagsterInstance, run_id: str, seconds: float) -> None:
    """Note that a run goes on with what lands, for so many seconds at most."""
    instance.add_run_tags(run_id, {FOLLOWS_UNTIL_TAG: f"{run_id} {clock.now_ms() + round(1000 * seconds)}"})


def is_ending(run: dg.DagsterRun) -> bool:
    """Return whether a run goes on with what lands and has so little time left that the next one is to be asked for. On
    a quiet channel it has ended long before. Nobody takes over from one that a person ends."""
    of, _, until_ms = run.tags.get(FOLLOWS_UNTIL_TAG, "").partition(" ")
    if of != run.run_id or run.status is not dg.DagsterRunStatus.STARTED:
        return False
    return clock.now_ms() > int(until_ms) - 1000 * AHEAD_SECONDS


def next_run(assets: OrgAssets, channel: str, landed_through_ms: int, at_work: dg.DagsterRun) -> dg.RunRequest:
    """Return the run that takes over from one of the job `sync`, with a concurrency key that no other run has."""
    more: dict[str, float | str] = {"follow_seconds": FOLLOW_SECONDS, "takes_over": at_work.run_id}
    request = request_of_sensor(assets, SYNC, channel, landed_through_ms, **more)
    key = f"{request.tags[CONCURRENCY_TAG]} after {at_work.run_id}"
    return request.with_replaced_attrs(
        tags={**request.tags, CONCURRENCY_TAG: key, TAKES_OVER_TAG: at_work.run_id},
    )


def hand_over(instance: dg.DagsterInstance, run_id: str) -> None:
    """Let the run that waits for this one begin."""
    instance.add_run_tags(run_id, {HANDED_OVER_TAG: run_id})


def has_handed_over(run: dg.DagsterRun) -> bool:
    """Return whether a run applies nothing more."""
    return run.tags.get(HANDED_OVER_TAG) == run.run_id


def wait_for(instance: dg.DagsterInstance, warehouse: Warehouse, run_id: str) -> None:
    """Wait until a run has handed over or has ended, in any way: its last batch may be a long one. Raises what reading
    its sign of life raises."""
    looks = 0
    while (record := instance.get_run_record_by_id(run_id)) is not None:
        run = record.dagster_run
        if run.is_finished or has_handed_over(run):
            return
        looks += 1
        if looks % LOOKS_FOR_LIFE == 0 and end_if_lost(instance, warehouse, record):
            return
        clock.sleep(LOOK_SECONDS)


def has_ended(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Return whether a run does nothing more at all."""
    run = instance.get_run_by_id(run_id)
    return run is None or run.is_finished
