"""Bulk API 2.0 query jobs: create, look at, wait for, abort (docs/salesforce-streams.md, "Bulk API 2.0 queries").
Results are in bulk_pages.py.

Not by simple-salesforce's bulk2 handler: it captures the session id when it is made, so that an expired token ends the
job (simple-salesforce issue 619); it holds whole pages as text; and it polls with its own clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sfcdc_assets.runtime.times import epoch_ms
from sfcdc_assets.salesforce.errors import (
    BulkJobFailed,
    BulkJobGone,
    EntityNotReadable,
    QueryRefused,
    RequestRefused,
    UnexpectedAnswer,
)
from sfcdc_assets.salesforce.session import OrgSession

FIRST_POLL_S = 0.2
LONGEST_POLL_S = 10.0
CALLS_PER_JOB = 5
"""Requests of a job besides its pages, about: describe, create, and some looks at its state."""
_FAILED = frozenset({"Failed", "Aborted"})
WAIT_S = 6 * 3600.0
"""The org itself gives up a query after some hours of tries; a job that takes longer has been forgotten."""
_ENTITY_REFUSALS = frozenset(
    {
        "INVALID_TYPE",
        "INVALIDENTITY",
        "INVALID_ENTITY",
        "INSUFFICIENT_ACCESS",
        "API_DISABLED_FOR_ORG",
        "FEATURENOTENABLED",
    }
)


@dataclass(frozen=True)
class BulkJob:
    """A query job as the org describes it. `api_version` is the one it was created with: results need the same."""

    id: str
    entity: str
    state: str
    api_version: str
    records: int | None
    """Number of records of the result as far as known; exact once the state is JobComplete."""
    error_message: str
    created_at_ms: int | None = None
    """When it was created by the org's own clock, epoch ms; None where the org does not say."""

    @property
    def path(self) -> str:
        """The job's resource below the instance's address."""
        return f"/services/data/v{self.api_version}/jobs/query/{self.id}"


def create_job(session: OrgSession, entity: str, soql: str, *, include_deleted: bool = True) -> BulkJob:
    """Start a query. `include_deleted`: rows of the recycle bin too (queryAll).

    Raises `EntityNotReadable` when the entity is not there for the user or not for the Bulk API, else `QueryRefused`.
    """
    job = {
        "operation": "queryAll" if include_deleted else "query",
        "query": soql,
        "contentType": "CSV",
        "columnDelimiter": "COMMA",
        "lineEnding": "LF",
    }
    try:
        # Sent again after a lost answer it makes a second job, which costs one job and harms nothing.
        answer = session.request("POST", "jobs/query", json=job, repeatable=True, what=f"a bulk query of {entity}")
    except RequestRefused as refusal:
        if refusal.error_code.upper() in _ENTITY_REFUSALS:
            raise EntityNotReadable(entity, refusal.status, refusal.error_code, refusal.message) from refusal
        raise QueryRefused(soql, refusal.status, refusal.error_code, refusal.message) from refusal
    return _job(session, answer, session.version)


def read_job(session: OrgSession, job_id: str) -> BulkJob:
    """Return the job's state now. Raises `BulkJobGone` when the org does not have it any more."""
    try:
        answer = session.request("GET", f"jobs/query/{job_id}", what=f"bulk query job {job_id}")
    except RequestRefused as refusal:
        if refusal.status == 404:
            raise BulkJobGone(job_id) from refusal
        raise
    return _job(session, answer, session.version)


def is_lost(session: OrgSession, job_id: str) -> bool:
    """Return whether a job will give no results any more: it failed, was aborted, or is gone."""
    try:
        return read_job(session, job_id).state in _FAILED
    except BulkJobGone:
        return True


def wait_for_job(
    session: OrgSession, job_id: str, *, sleep: Callable[[float], None] | None = None, wait_s: float = WAIT_S
) -> BulkJob:
    """Return the job in state JobComplete, polled at growing intervals from 0.2 s to 10 s, `wait_s` seconds at most;
    then it is aborted, so that nobody waits for it again.

    Raises `BulkJobFailed` when it ends otherwise or not in time, `BulkJobGone`.
    """
    waited, interval = 0.0, FIRST_POLL_S
    while True:
        job = read_job(session, job_id)
        if job.state == "JobComplete":
            return job
        if job.state in _FAILED:
            raise BulkJobFailed(job.id, job.entity, job.state, job.error_message or "no reason is given")
        if waited >= wait_s:
            abort_job(session, job)
            problem = f"it has not ended after {waited:.0f} seconds and was aborted"
            raise BulkJobFailed(job.id, job.entity, job.state, problem)
        (sleep or session.sleep)(interval)
        waited += interval
        interval = min(interval * 2, LONGEST_POLL_S)


def abort_job(session: OrgSession, job: BulkJob) -> None:
    """Tell the org to stop a job that nobody will read. A job that is gone or has ended is left as it is."""
    try:
        session.request("PATCH", job.path, json={"state": "Aborted"}, repeatable=True, what=f"aborting {job.id}")
    except RequestRefused as refusal:
        if refusal.status not in (400, 404, 409):
            raise


def _job(session: OrgSession, answer: Any, version: str) -> BulkJob:
    try:
        return BulkJob(
            id=str(answer["id"]),
            entity=str(answer["object"]),
            state=str(answer["state"]),
            api_version=f"{float(answer.get('apiVersion', version)):.1f}",
            records=answer.get("numberRecordsProcessed"),
            error_message=str(answer.get("errorMessage") or ""),
            created_at_ms=_time_ms(answer.get("createdDate")),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UnexpectedAnswer(session.url_of("jobs/query"), "it does not describe a bulk query job") from None


def _time_ms(text: object) -> int | None:
    try:
        return epoch_ms(datetime.fromisoformat(str(text)))
    except (ValueError, OverflowError):
        return None
