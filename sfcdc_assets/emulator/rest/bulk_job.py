"""What query and ingest jobs of Bulk API 2.0 have in common: their facts, and the table of the org's database that
keeps them.

A job that runs is UploadComplete, then InProgress, then JobComplete (or Failed). With `OrgSettings.bulk_step` 0 each
look at it moves it one state on; otherwise it stays that long, by the clock, in each.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, TypeVar

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.database import Database
from sfcdc_assets.emulator.org.ids import instance_characters, new_id
from sfcdc_assets.emulator.records.field_value import datetime_text
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.csv_form import DELIMITERS, LINE_ENDINGS
from sfcdc_assets.emulator.rest.rest_context import RestContext

RUNNING = ("UploadComplete", "InProgress")
ENDED = ("JobComplete", "Failed", "Aborted")


@dataclass(frozen=True, kw_only=True)
class BulkJob:
    """A job as it stands; times are epoch ms. `id` is empty until it is kept."""

    id: str = ""
    operation: str
    entity: str
    api_version: str
    delimiter_name: str
    line_ending: str
    created_by: str
    created_at: int
    changed_at: int
    state: str
    error: str | None = None
    is_stuck: bool = False
    """Never ends by itself: the fault `bulk_job_stuck`."""

    @property
    def delimiter(self) -> str:
        """The character between two cells."""
        return DELIMITERS[self.delimiter_name]

    def facts(self) -> dict[str, Any]:
        """Return the facts as every answer about the job shows them."""
        return {
            "id": self.id,
            "operation": self.operation,
            "object": self.entity,
            "createdById": self.created_by,
            "createdDate": datetime_text(self.created_at, "+0000"),
            "systemModstamp": datetime_text(self.changed_at, "+0000"),
            "state": self.state,
            "concurrencyMode": "Parallel",
            "contentType": "CSV",
            "apiVersion": float(self.api_version),
            "lineEnding": self.line_ending,
            "columnDelimiter": self.delimiter_name,
        }

    def detail(self) -> dict[str, Any]:
        """Return what the answer about this one job shows besides."""
        detail = {"retries": 0, "totalProcessingTime": self.changed_at - self.created_at}
        return detail | ({"errorMessage": self.error} if self.error else {})


def asked_for(request: ApiRequest, now: int) -> dict[str, Any]:
    """Facts of a new job: who asks for it, when, and for which form of CSV. Raises ApiError API_ERROR."""
    document = request.json_object()
    facts = {
        "delimiter_name": _choice(document, "columnDelimiter", DELIMITERS, "COMMA"),
        "line_ending": _choice(document, "lineEnding", LINE_ENDINGS, "LF"),
    }
    _choice(document, "contentType", {"CSV": ""}, "CSV")
    return {
        **facts,
        "api_version": request.version,
        "created_by": request.user_id,
        "created_at": now,
        "changed_at": now,
    }


def _choice(document: Mapping[str, Any], key: str, allowed: Mapping[str, str], default: str) -> str:
    value = document.get(key) or default
    if not isinstance(value, str) or value not in allowed:
        raise ApiError("API_ERROR", f"{key} must be one of {', '.join(allowed)}")
    return value


AnyJob = TypeVar("AnyJob", bound=BulkJob)


class BulkJobs(ABC, Generic[AnyJob]):
    """All jobs of one kind in the org. `kind` is their class, `first` the number of the first id: both kinds share the
    ids' prefix."""

    def __init__(self, context: RestContext, kind: type[AnyJob], table: str, results: str, first: int) -> None:
        self._context = context
        self._org = context.org
        self._database: Database = context.org.database
        self._kind, self._table, self._results, self._first = kind, table, results, first
        self._database.execute(
            f"CREATE TABLE IF NOT EXISTS {table} (number INTEGER PRIMARY KEY, id TEXT UNIQUE, job TEXT)"
        )

    @abstractmethod
    def _finished(self, job: AnyJob) -> AnyJob:
        """Do what the job is for, and how it ended."""

    def create(self, job: AnyJob) -> AnyJob:
        """Keep a new job under an id of its own."""
        with self._database.transaction():
            row = self._database.row(f"SELECT COALESCE(MAX(number), 0) + 1 FROM {self._table}")
            number = row[0] if row else 1
            job = replace(
                job,
                id=new_id("750", instance_characters(self._org.seed), self._first - 1 + number),
                is_stuck=self._org.faults.take(Fault.BULK_JOB_STUCK),
            )
            values = (number, job.id, json.dumps(asdict(job)))
            self._database.execute(f"INSERT INTO {self._table} (number, id, job) VALUES (?, ?, ?)", values)
        return job

    def get(self, job_id: str) -> AnyJob:
        """Return the job as it stands. Raises ApiError NOT_FOUND."""
        row = self._database.row(f"SELECT job FROM {self._table} WHERE id = ?", (job_id,))
        if row is None:
            raise ApiError("NOT_FOUND", "The requested resource does not exist", status=404)
        return self._kind(**json.loads(row[0]))

    def all(self) -> list[AnyJob]:
        """All jobs, the oldest first."""
        rows = self._database.rows(f"SELECT job FROM {self._table} ORDER BY number")
        return [self._kind(**json.loads(row[0])) for row in rows]

    def look(self, job_id: str) -> AnyJob:
        """Return the job, moved on as far as this look or the clock moves it. Raises ApiError NOT_FOUND."""
        with self._database.lock:  # two looks at once run the job once
            job = self.get(job_id)
            step = self._org.settings.bulk_step
            steps = 1 if step == 0 else (self._org.clock() - job.changed_at) // step
            for _ in range(min(steps, len(RUNNING))):
                job = self._moved_on(job)
            return job

    def delete(self, job_id: str) -> None:
        """Forget a job that does not run, with its results. Raises ApiError."""
        with self._database.transaction():
            if self.get(job_id).state in RUNNING:
                raise ApiError("INVALIDJOBSTATE", "Deleting a job that has not ended is not allowed")
            self._database.execute(f"DELETE FROM {self._results} WHERE job_id = ?", (job_id,))
            self._database.execute(f"DELETE FROM {self._table} WHERE id = ?", (job_id,))

    def _moved_on(self, job: AnyJob) -> AnyJob:
        if job.state == "UploadComplete":
            return self._in_state(job, "InProgress")
        return self._finished(job) if job.state == "InProgress" and not job.is_stuck else job

    def _in_state(self, job: AnyJob, state: str, **facts: Any) -> AnyJob:
        job = replace(job, state=state, changed_at=self._org.clock(), **facts)
        self._database.execute(f"UPDATE {self._table} SET job = ? WHERE id = ?", (json.dumps(asdict(job)), job.id))
        return job
