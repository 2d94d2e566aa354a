"""How long a job is not asked for after its runs failed, as Dagster remembers them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

import dagster as dg

from sfcdc_assets.orchestration.jobs.lost_runs import LOST_TAG
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.doubling import doubled

FAILURES_COUNTED = 8
"""As many in a row as make the longest pause of any job."""
IN_VAIN = (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
"""How a run ends that has not done its work."""


def seconds_after_failures(
    instance: dg.DagsterInstance,
    job: str,
    first: float,
    longest: float,
    *,
    tags: Mapping[str, str] | None = None,
    most: int = FAILURES_COUNTED,
) -> float:
    """Return how many seconds the next run of a job with these tags has to wait; 0 where the newest has not failed.

    The pause begins with the end of the newest one; it is `first`, doubled with each further failure in a row up to
    `longest`. `most`: how many of them count. One that was canceled counts: who ends a run does not want the next one
    in the same moment. One whose process was lost ends the row, as one that worked does: nothing is wrong with its
    work, and the next one goes on at once. Where that is lost too, it may be the work that ends it (all of a machine's
    memory): of lost ones in a row all but the first count.
    """
    newest = instance.get_run_records(
        dg.RunsFilter(job_name=job, tags=dict(tags or {})), limit=min(most, FAILURES_COUNTED)
    )
    lost = len(list(takewhile(_was_lost, newest)))
    failures = lost - 1 if lost else len(list(takewhile(_has_failed, newest)))
    if failures < 1:
        return 0.0
    ended = newest[0].end_time or newest[0].update_timestamp.timestamp()
    return max(0.0, ended + doubled(first, longest, failures) - clock.now_ms() / 1000)


def _was_lost(run: dg.RunRecord) -> bool:
    return run.dagster_run.status in IN_VAIN and LOST_TAG in run.dagster_run.tags


def _has_failed(run: dg.RunRecord) -> bool:
    return run.dagster_run.status in IN_VAIN and not _was_lost(run)
