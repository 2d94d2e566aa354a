"""Runs whose process is gone, while Dagster still counts them as at work: after a power loss, or the death of the code
server with all that it had started. Whoever would wait for one marks it as failed and goes on."""

from __future__ import annotations

from contextlib import suppress

import dagster as dg

from sfcdc_assets.lake.store.runs_at_work import noted_at_work, remove_at_work
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.heartbeat import BEAT_SECONDS
from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets.runtime.errors import SfcdcError

SILENT_SECONDS = 4.5 * BEAT_SECONDS
"""A run that has not said for so long that it lives does not: a busy machine is late by some seconds."""
GONE_SECONDS = 1.5 * BEAT_SECONDS
"""The same where its process is not there any more."""
STARTING_SECONDS = 60.0
"""How long a run may take to be at work that was started before this process was. One that was started by Dagster as it
runs now is Dagster's to give up (`start_timeout_seconds`)."""
LOST_TAG = "sfcdc/lost"
"""Of runs that were found to be gone: the next one does not wait, as it does after a failure."""

_BEFORE = (dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING)
_AT_WORK = (dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING)
_THIS_PROCESS_BEGAN = Clock().now_ms() / 1000


def end_if_lost(instance: dg.DagsterInstance, warehouse: Warehouse, record: dg.RunRecord) -> bool:
    """Return whether a run of ours, with the resource `run_scope`, that counts as at work is gone; it is marked as
    failed then. Raises what reading a note raises."""
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
    if record.dagster_run.status not in _AT_WORK:
        return False
    noted = noted_at_work(warehouse, record.dagster_run.run_id)
    if noted is None:
        return now - since > SILENT_SECONDS
    silent = now - noted.at_ms / 1000
    return silent > SILENT_SECONDS or (silent > GONE_SECONDS and noted.process_is_gone)
