"""Runs whose process is gone, while Dagster still counts them as at work: after a power loss, or the death of the code
server with all that it had started. Whoever would wait for one marks it as failed and goes on; a sensor of its own does
so with all others, which would hold their concurrency key for hours.

A run that is marked wrongly, because it only was slow, does no harm: Dagster starts none that has ended, and two at the
same work are safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import dagster as dg

from sfcdc_assets.lake.store.runs_at_work import noted_at_work, remove_at_work
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.heartbeat import BEAT_SECONDS
from sfcdc_assets.orchestration.jobs.event_log import Ours
from sfcdc_assets.orchestration.jobs.run_config import AT_WORK, UNFINISHED
from sfcdc_assets.orchestration.org_assets import CONCURRENCY_TAG
from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets.runtime.errors import SfcdcError

SILENT_SECONDS = 4.5 * BEAT_SECONDS
"""A run that has not said for so long that it lives does not: a busy machine is late by some seconds."""
LEFT_SECONDS = 2.5 * BEAT_SECONDS
"""The same of a run that began before this process did: it may be one of a code server that is gone, and all is to move
again within a minute."""
GONE_SECONDS = 1.5 * BEAT_SECONDS
"""The same where its process is not there any more."""
STARTING_SECONDS = 20.0
"""How long a run may take to be at work that was started before this process was: Python and the imports, on a busy
machine. One that was started by Dagster as it runs now is Dagster's to give up (`start_timeout_seconds`)."""
LOST_TAG = "sfcdc/lost"
"""Of runs that were found to be gone: the next one does not wait, as it does after a failure."""

_BEFORE = (dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING)
_BEGUN = (dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING)
_THIS_PROCESS_BEGAN = Clock().now_ms() / 1000


def living_runs(
    instance: dg.DagsterInstance,
    warehouse: Warehouse,
    job: str,
    tags: Mapping[str, str] | None = None,
    statuses: Sequence[dg.DagsterRunStatus] = UNFINISHED,
) -> Iterator[dg.DagsterRun]:
    """Yield the runs of the job, with these tags, that have one of these statuses, newest first. One whose process is
    gone is marked as failed, and is none of them."""
    found = instance.get_run_records(dg.RunsFilter(job_name=job, tags=dict(tags or {}), statuses=list(statuses)))
    yield from (each.dagster_run for each in found if not end_if_lost(instance, warehouse, each))


def end_lost_runs(instance: dg.DagsterInstance, warehouse: Warehouse, ours: Ours) -> list[dg.DagsterRun]:
    """Mark all of our runs as failed whose process is gone; returns them."""
    found = instance.get_run_records(dg.RunsFilter(statuses=AT_WORK))
    mine = (each for each in found if ours.has(each.dagster_run))
    return [each.dagster_run for each in mine if end_if_lost(instance, warehouse, each)]


def end_if_lost(instance: dg.DagsterInstance, warehouse: Warehouse, record: dg.RunRecord) -> bool:
    """Return whether a run of ours that counts as at work is gone; it is marked as failed then. Raises what reading a
    note raises."""
    run = record.dagster_run
    if not _is_lost(warehouse, record, Clock().now_ms() / 1000):
        return False
    instance.add_run_tags(run.run_id, {LOST_TAG: "true"})
    if run.status is dg.DagsterRunStatus.CANCELING:
        instance.report_run_canceled(run, "The run's process is gone.")
    else:
        said = "The run's process is gone, or does not say any more that it lives. The next run goes on."
        instance.report_run_failed(run, said)
    with suppress(SfcdcError):
        remove_at_work(warehouse, run.run_id)
    return True


def _is_lost(warehouse: Warehouse, record: dg.RunRecord, now: float) -> bool:
    since = record.start_time or record.update_timestamp.timestamp()
    if record.dagster_run.status in _BEFORE:
        launched = record.update_timestamp.timestamp()
        return launched < _THIS_PROCESS_BEGAN and now - launched > STARTING_SECONDS
    if record.dagster_run.status not in _BEGUN:
        return False
    noted = noted_at_work(warehouse, record.dagster_run.run_id)
    if noted is None:
        # A person's run of assets waits for no key, and may be of a code location that has other executors than ours.
        return CONCURRENCY_TAG in record.dagster_run.tags and now - since > _allowed_seconds(since)
    silent = now - noted.at_ms / 1000
    return silent > _allowed_seconds(since) or (silent > GONE_SECONDS and noted.process_is_gone)


def _allowed_seconds(since: float) -> float:
    """For which a run that began at a time may say nothing."""
    return LEFT_SECONDS if since < _THIS_PROCESS_BEGAN else SILENT_SECONDS
