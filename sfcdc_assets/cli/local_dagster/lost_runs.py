"""Runs that ended with the Dagster they were part of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dagster as dg

_RUNS = "history"
"""Folder of a Dagster home in which the runs are; a new home has none."""


def fail_lost_runs(home: Path) -> int:
    """Mark the runs of a Dagster home that still count as at work as failed; returns how many there were.

    Call it while no Dagster runs over the home. Dagster itself cannot tell that a run on this machine is gone when its
    code server went with it, so the run would hold its concurrency key, and the sensor would wait
    for it, until it is too old.
    """
    if not (home / _RUNS).exists():
        return 0
    import dagster as dg  # noqa: PLC0415 - for seconds, which a first start is spared

    at_work = [
        dg.DagsterRunStatus.NOT_STARTED,
        dg.DagsterRunStatus.STARTING,
        dg.DagsterRunStatus.STARTED,
        dg.DagsterRunStatus.CANCELING,
    ]
    with dg.DagsterInstance.from_config(str(home)) as instance:
        runs = instance.get_runs(dg.RunsFilter(statuses=at_work))
        for run in runs:
            instance.report_run_failed(run, "The run ended with the Dagster it was part of; the next tick goes on.")
    return len(runs)


def cancel_run(instance: dg.DagsterInstance, run_id: str) -> None:
    """Mark a run of this process, which ends now, as cancelled, unless it has ended or never began."""
    run = instance.get_run_by_id(run_id)
    if run is not None and not run.is_finished:
        instance.report_run_canceled(run, "`sfcdc` was stopped by a signal; the next run continues.")
