"""How one run hands its channel over to the next one, without a pause in which nobody applies what lands.

A run ends after `FOLLOW_SECONDS`, so that none is without end. Were the next one asked for only then, changes would
wait for the daemon's next look, the queue, and the start of a process: ten seconds and more. So the sensor asks for it
a moment before. It starts beside the first, with a concurrency key of its own, makes ready, and begins when the first
has applied its last batch.

Should one of the two be late or die, two runs work at the same tables for a moment, of which these refuse the second
writer, or none does, and the next tick asks for a run as ever.
"""

from __future__ import annotations

from collections.abc import Callable

import dagster as dg

from sfcdc_assets.apply.follow_run import FOLLOW_SECONDS
from sfcdc_assets.orchestration.jobs.run_config import SYNC, request_of_sensor
from sfcdc_assets.orchestration.org_assets import CONCURRENCY_TAG, OrgAssets
from sfcdc_assets.runtime import clock

AHEAD_SECONDS = 12.0
"""How long before a run's end the next one is asked for: two looks of the daemon, and the start of a process."""
LONGEST_WAIT_SECONDS = 120.0
"""How long the next one waits for the first: what is left of its time, and its last batch. One that died is found to be
gone before (`lost_runs`)."""
LOOK_SECONDS = 0.25
FOLLOWS_UNTIL_TAG = "sfcdc/follows_until_ms"
"""Of a run that goes on with what lands: until when at most (epoch ms, UTC)."""
HANDED_OVER_TAG = "sfcdc/handed_over"
"""Of a run that applies nothing more, and only reports and checks."""


def keys_of(assets: OrgAssets, channel: str, job: str) -> list[str]:
    """Return the concurrency keys of a channel's job: that of one run, and that of the one that takes over from it."""
    key = assets.concurrency_key(channel, job)
    return [key, f"{key} (second)"]


def note_following(instance: dg.DagsterInstance, run_id: str, seconds: float) -> None:
    """Note that a run goes on with what lands, for so many seconds at most."""
    instance.add_run_tags(run_id, {FOLLOWS_UNTIL_TAG: str(clock.now_ms() + round(1000 * seconds))})


def is_ending(run: dg.DagsterRun) -> bool:
    """Return whether a run goes on with what lands and has so little time left that the next one is to be asked for. On
    a quiet channel it has ended long before."""
    until = run.tags.get(FOLLOWS_UNTIL_TAG)
    return until is not None and not run.is_finished and clock.now_ms() > int(until) - 1000 * AHEAD_SECONDS


def next_run(assets: OrgAssets, channel: str, landed_through_ms: int, at_work: dg.DagsterRun) -> dg.RunRequest:
    """Return the run that takes over from one of the job `sync`, with the concurrency key that that one leaves free."""
    more: dict[str, float | str] = {"follow_seconds": FOLLOW_SECONDS, "takes_over": at_work.run_id}
    request = request_of_sensor(assets, SYNC, channel, landed_through_ms, **more)
    first, second = keys_of(assets, channel, SYNC)
    return request.with_replaced_attrs(
        tags={CONCURRENCY_TAG: second if at_work.tags[CONCURRENCY_TAG] == first else first}
    )


def hand_over(instance: dg.DagsterInstance, run_id: str) -> None:
    """Let the run that waits for this one begin."""
    instance.add_run_tags(run_id, {HANDED_OVER_TAG: "true"})


def wait_for(instance: dg.DagsterInstance, run_id: str, warn: Callable[[str], object]) -> None:
    """Wait until a run has handed over, or has ended in any way, for `LONGEST_WAIT_SECONDS` at most."""
    give_up = clock.current().monotonic() + LONGEST_WAIT_SECONDS
    while clock.current().monotonic() < give_up:
        run = instance.get_run_by_id(run_id)
        if run is None or run.is_finished or HANDED_OVER_TAG in run.tags:
            return
        clock.sleep(LOOK_SECONDS)
    warn(f"Run {run_id} has not handed over within {LONGEST_WAIT_SECONDS:.0f} s; this one begins beside it.")
