"""Runs as Dagster keeps them, of jobs that do nothing: what counts here is their status and their tags."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache

import dagster as dg
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.orchestration.org_assets import CHANNEL_TAG, CONCURRENCY_TAG

REPOSITORY = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("sfcdc_assets"), "__repository__")


def tags_of_channel(channel: str, job: str) -> dict[str, str]:
    """Of a run that the channel's sensor asked for."""
    return {CONCURRENCY_TAG: ASSETS.concurrency_key(channel, job), CHANNEL_TAG: channel}


def run_of(
    instance: dg.DagsterInstance,
    job: str,
    tags: Mapping[str, str],
    status: dg.DagsterRunStatus,
    definition: dg.JobDefinition | None = None,
) -> dg.DagsterRun:
    """A run of a job of this name; with a `definition`, of its steps and their pools."""
    return instance.create_run_for_job(
        definition or _named(job),
        tags=tags,
        status=status,
        remote_job_origin=RemoteJobOrigin(REPOSITORY, job),
        job_code_origin=dg.reconstructable(a_job).get_python_origin(),
    )


@dg.job
def a_job() -> None:
    """One that can be named."""


@cache
def _named(name: str) -> dg.JobDefinition:
    @dg.job(name=name)
    def nothing() -> None:
        """Has no steps."""

    return nothing


def ends(instance: dg.DagsterInstance, run: dg.DagsterRun, how: dg.DagsterEventType) -> None:
    """A run begins or ends, by the clock of `time`."""
    event = dg.DagsterEvent(event_type_value=how.value, job_name=run.job_name)
    instance.handle_new_event(
        dg.EventLogEntry(None, 20, "", run.run_id, time.time(), job_name=run.job_name, dagster_event=event)
    )
