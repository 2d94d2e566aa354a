"""Runs of our jobs in this process."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Mapping
from typing import Any

import dagster as dg
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult

from sfcdc_assets.cli.local_dagster.lost_runs import cancel_run
from sfcdc_assets.cli.terminal.stopping import before_stopping
from sfcdc_assets.definitions import ASSETS, defs
from sfcdc_assets.runtime.errors import SfcdcError


class RunFailed(SfcdcError):
    """A run ended with an error. `is_of_entities`: of some entities' own, and all others of the run are done."""

    def __init__(self, job: str, run_id: str, reason: str, *, is_of_entities: bool = False) -> None:
        self.job = job
        self.run_id = run_id
        self.is_of_entities = is_of_entities
        super().__init__(f"Run {run_id[:8]} of job {job} failed. {reason}")


def _job(name: str, definitions: dg.Definitions) -> dg.JobDefinition:
    """One of ours, by its short name. Dagster warns about a parameter of its own when it copies our sensors, which pass
    none (its `SensorDefinition.dagster_internal_init`, 1.13): nothing that a person could change."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Parameter `owners` of initializer", dg.BetaWarning)
        return definitions.resolve_job_def(ASSETS.name(name))


def run_job(
    instance: dg.DagsterInstance,
    job: str,
    tags: Mapping[str, str] | None = None,
    config: Mapping[str, Any] | None = None,
    definitions: dg.Definitions = defs,
) -> RunFailed | None:
    """Do a run of the job (its short name) in this process; why it failed, or None. A stop of the command cancels
    it."""
    run_id = str(uuid.uuid4())
    with before_stopping(lambda: cancel_run(instance, run_id)):
        run = _job(job, definitions).execute_in_process(
            instance=instance,
            run_id=run_id,
            tags=dict(tags or {}),
            raise_on_error=False,
            run_config={**(config or {}), "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        )
    return None if run.success else _run_failed(run)


def _run_failed(run: ExecuteInProcessResult) -> RunFailed:
    """Return what failed: the entities whose own steps did, or else the first step."""
    job, run_id = ASSETS.short(run.dagster_run.job_name), run.dagster_run.run_id
    failed = [event.step_failure_data for event in run.all_events if event.is_step_failure]
    of_entities = [data.user_failure_data for data in failed if data.user_failure_data is not None]
    descriptions = [str(data.description).removesuffix(".") for data in of_entities if data.description]
    if descriptions:
        reason = f"Failed: {'; '.join(descriptions)}. All other entities of this run are done."
        return RunFailed(job, run_id, reason, is_of_entities=True)
    for data in failed:
        if data.error is not None:
            inner = data.error.cause or data.error
            return RunFailed(job, run_id, inner.message.strip())
    return RunFailed(job, run_id, "Its log has no step failure; look at it in the Dagster UI.")
