"""Bulk API 2.0 ingest jobs: what was uploaded, what became of each row, kept in the org's database.

A job is Open while data is uploaded, then UploadComplete, InProgress and JobComplete, each look moving it one state on
(`OrgSettings.bulk_step` 0) or the clock. It changes 200 records a transaction, as Salesforce does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.ids import instance_characters, new_id
from sfcdc_assets.emulator.rest.csv_form import csv_line
from sfcdc_assets.emulator.rest.csv_rows import read_rows, record_of
from sfcdc_assets.emulator.rest.rest_context import RestContext

ROWS_IN_TRANSACTION = 200
_ENDED = ("JobComplete", "Failed", "Aborted")

Outcome = dict[str, Any]
"""Of one row: `id`, `success`, `errors` and, for an upsert, `created`."""
Work = Callable[["IngestJob", list[dict[str, Any]]], list[Outcome]]
"""Makes the changes of some records in one transaction."""


@dataclass(frozen=True)
class IngestJob:
    """A job as it stands; times are epoch ms."""

    id: str
    entity: str
    operation: str
    external_id: str | None
    api_version: str
    delimiter: str
    delimiter_name: str
    line_ending: str
    created_by: str
    created_at: int
    changed_at: int
    state: str = "Open"
    processed: int = 0
    failed: int = 0
    error: str | None = None


class IngestJobs:
    """All ingest jobs of the org. `work` makes their changes."""

    def __init__(self, context: RestContext, work: Work) -> None:
        self._org = context.org
        self._work = work
        self._database = context.org.database
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _ingest_job (number INTEGER PRIMARY KEY, id TEXT UNIQUE, job TEXT, data TEXT)"
        )
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _ingest_line (job_id TEXT, kind TEXT, number INTEGER, line TEXT, "
            "PRIMARY KEY (job_id, kind, number)) WITHOUT ROWID"
        )

    def create(self, job: IngestJob) -> IngestJob:
        """Keep a new job under an id of its own."""
        with self._database.transaction():
            row = self._database.row("SELECT COALESCE(MAX(number), 0) + 1 FROM _ingest_job")
            number = row[0] if row else 1
            # Ids of query jobs come from the same prefix; theirs count from 1.
            job = replace(job, id=new_id("750", instance_characters(self._org.seed), 10**9 + number))
            values = (number, job.id, json.dumps(asdict(job)))
            self._database.execute("INSERT INTO _ingest_job VALUES (?, ?, ?, NULL)", values)
        return job

    def get(self, job_id: str) -> IngestJob:
        """The job as it stands. Raises ApiError NOT_FOUND."""
        row = self._database.row("SELECT job FROM _ingest_job WHERE id = ?", (job_id,))
        if row is None:
            raise ApiError("NOT_FOUND", "The requested resource does not exist", status=404)
        return IngestJob(**json.loads(row[0]))

    def all(self) -> list[IngestJob]:
        """All jobs, the oldest first."""
        rows = self._database.rows("SELECT job FROM _ingest_job ORDER BY number")
        return [IngestJob(**json.loads(row[0])) for row in rows]

    def upload(self, job_id: str, data: str) -> None:
        """Keep the rows of a job, once. Raises ApiError."""
        with self._database.transaction():
            job = self.get(job_id)
            row = self._database.row("SELECT data FROM _ingest_job WHERE id = ?", (job_id,))
            if job.state != "Open" or (row is not None and row[0] is not None):
                raise ApiError(
                    "INVALIDJOBSTATE", f"Data of a job is uploaded once, while it is Open; it is {job.state}"
                )
            self._database.execute("UPDATE _ingest_job SET data = ? WHERE id = ?", (data, job_id))

    def set_state(self, job_id: str, state: str) -> IngestJob:
        """UploadComplete or Aborted. Raises ApiError."""
        with self._database.transaction():
            job = self.get(job_id)
            allowed = job.state == "Open" if state == "UploadComplete" else job.state not in _ENDED
            if not allowed:
                raise ApiError("INVALIDJOBSTATE", f"A job that is {job.state} cannot become {state}")
            return self._save(replace(job, state=state, changed_at=self._org.clock()))

    def delete(self, job_id: str) -> None:
        """Forget a job that is not being worked on. Raises ApiError."""
        with self._database.transaction():
            if self.get(job_id).state in {"UploadComplete", "InProgress"}:
                raise ApiError("INVALIDJOBSTATE", "Deleting a job that has not ended is not allowed")
            self._database.execute("DELETE FROM _ingest_line WHERE job_id = ?", (job_id,))
            self._database.execute("DELETE FROM _ingest_job WHERE id = ?", (job_id,))

    def look(self, job_id: str) -> IngestJob:
        """The job, moved on as far as this look or the clock moves it. Raises ApiError NOT_FOUND."""
        with self._database.lock:  # two looks at once run the job once
            job = self.get(job_id)
            step = self._org.settings.bulk_step
            for _ in range(1 if step == 0 else min(2, (self._org.clock() - job.changed_at) // step)):
                job = self._moved_on(job)
            return job

    def lines(self, job_id: str, kind: str) -> list[str]:
        """CSV lines of `successful`, `failed` or `unprocessed` rows, the header first."""
        sql = "SELECT line FROM _ingest_line WHERE job_id = ? AND kind = ? ORDER BY number"
        return [row[0] for row in self._database.rows(sql, (job_id, kind))]

    def _moved_on(self, job: IngestJob) -> IngestJob:
        now = self._org.clock()
        if job.state == "UploadComplete":
            return self._save(replace(job, state="InProgress", changed_at=now))
        return self._run(job) if job.state == "InProgress" else job

    def _run(self, job: IngestJob) -> IngestJob:
        row = self._database.row("SELECT data FROM _ingest_job WHERE id = ?", (job.id,))
        now = self._org.clock()
        try:
            header, rows = read_rows(row[0] if row and row[0] else "", job.delimiter)
        except ApiError as error:
            return self._save(
                replace(job, state="Failed", changed_at=now, error=f"{error.error_code} : {error.message}")
            )
        outcomes: list[Outcome] = []
        for start in range(0, len(rows), ROWS_IN_TRANSACTION):
            part = [record_of(header, line) for line in rows[start : start + ROWS_IN_TRANSACTION]]
            outcomes += self._work(job, part)
        self._keep_lines(job, header, rows, outcomes)
        failed = sum(not outcome["success"] for outcome in outcomes)
        return self._save(replace(job, state="JobComplete", changed_at=now, processed=len(rows), failed=failed))

    def _keep_lines(self, job: IngestJob, header: list[str], rows: list[list[str]], outcomes: list[Outcome]) -> None:
        lines = [
            (job.id, "successful", 0, csv_line(["sf__Id", "sf__Created", *header], job.delimiter)),
            (job.id, "failed", 0, csv_line(["sf__Id", "sf__Error", *header], job.delimiter)),
            (job.id, "unprocessed", 0, csv_line(header, job.delimiter)),
        ]
        for number, (row, outcome) in enumerate(zip(rows, outcomes, strict=True), 1):
            if outcome["success"]:
                created = outcome.get("created", job.operation == "insert")
                line = [outcome["id"], "true" if created else "false", *row]
                lines.append((job.id, "successful", number, csv_line(line, job.delimiter)))
            else:
                (error,) = outcome["errors"]
                text = f"{error['statusCode']}:{error['message']}:{','.join(error['fields']) or '--'}"
                lines.append((job.id, "failed", number, csv_line(["", text, *row], job.delimiter)))
        self._database.execute_many("INSERT OR REPLACE INTO _ingest_line VALUES (?, ?, ?, ?)", lines)

    def _save(self, job: IngestJob) -> IngestJob:
        self._database.execute("UPDATE _ingest_job SET job = ? WHERE id = ?", (json.dumps(asdict(job)), job.id))
        return job
