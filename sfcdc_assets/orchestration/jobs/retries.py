"""Which failed steps Dagster starts again: those whose error may be gone in a moment, and no others.

A run that fails is asked for again by the next tick anyhow. A step that is retried saves what the run has done already
(the login, the subscription, the other entities), fails no run and alerts nobody because of a network that was away
for seconds. What a person has to mend (a permission, a full disk, a damaged table) fails at once: to do it again would
only fail again, and a login that is refused repeatedly locks the user out. Every step may be done twice (guarantee 2).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from sfcdc_assets.orchestration.resources import SparkResource
from sfcdc_assets.runtime.errors import TransientError

NIGHTLY = {"dagster/max_retries": "1", "dagster/retry_strategy": "ALL_STEPS"}
"""Tags of jobs that nothing asks for again until the next night: a run whose process was killed is done once more, from
its first step, because steps hand values on in memory."""
MOST_RETRIES = 2
PAUSE_SECONDS = 10.0
"""Before the first retry, twice as long before the second; steps of other entities go on meanwhile. A standing Spark
that ended is there again after five to ten seconds."""


def retry_of(
    context: dg.OpExecutionContext, error: BaseException, spark: SparkResource | None = None
) -> dg.RetryRequested | None:
    """Return what to raise instead of the error for the step to be done again; None when that would not help, or was
    done `MOST_RETRIES` times."""
    if context.retry_number >= MOST_RETRIES or not (_is_transient(error) or (spark is not None and spark.is_lost)):
        return None
    pause = PAUSE_SECONDS * 2**context.retry_number
    context.log.warning(f"It is tried again in {pause:.0f} s: {error}")
    return dg.RetryRequested(max_retries=MOST_RETRIES, seconds_to_wait=pause)


@contextmanager
def retried(context: dg.OpExecutionContext, spark: SparkResource | None = None) -> Iterator[None]:
    """Do the whole body of a step, of which nothing has to be reported when it is done again."""
    try:
        yield
    except Exception as error:
        if again := retry_of(context, error, spark):
            raise again from error
        raise


def _is_transient(error: BaseException | None) -> bool:
    """Return whether the error, or what it was raised from, is transient."""
    while error is not None:
        if isinstance(error, TransientError):
            return True
        error = error.__cause__
    return False
