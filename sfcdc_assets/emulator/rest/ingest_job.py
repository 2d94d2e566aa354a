"""Bulk API 2.0 ingest jobs: what was uploaded, what became of each row, kept in the org's database.

A job is Open while data is uploaded, and runs when it is closed. It changes 200 records a transaction, as Salesforce
does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.rest.bulk_job import ENDED, BulkJob, BulkJobs
from sfcdc_assets.emulator.rest.csv_form import csv_line, read_rows, record_of
from sfcdc_assets.emulator.rest.rest_context import RestContext

ROWS_IN_TRANSACTION = 200

Outcome = dict[str, Any]
"""Of one row: `id`, `success`, `errors` and, for an upsert, `created`."""
Work = Callable[["IngestJob", list[dict[str, Any]]], list[Outcome]]
"""Makes the changes of some records in one transaction."""


@dataclass(frozen=True, kw_only=True)
class IngestJob(BulkJob):
    """An ingest job as it stands. `external_id`: the field of an upsert."""

    external_id: str | None = None
    state: str = "Open"
    processed: int = 0
    failed: int = 0


class IngestJobs(BulkJobs[IngestJob]):
    """All ingest jobs of the org. `work` makes their changes."""

    def __init__(self, context: RestContext, work: Work) -> None:
        super().__init__(context, IngestJob, "_bulk_ingest_job", "_ingest_line", first=10**9 + 1)
        self._work = work
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _ingest_data (job_id TEXT PRIMARY KEY, data TEXT) WITHOUT ROWID"
        )
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _ingest_line (job_id TEXT, kind TEXT, number INTEGER, line TEXT, "
            "PRIMARY KEY (job_id, kind, number)) WITHOUT ROWID"
        )

    def upload(self, job_id: str, data: str) -> None:
        """Keep the rows of a job, once. Raises ApiError."""
        with self._database.transaction():
            job = self.get(job_id)
            if job.state != "Open" or self._data(job_id) is not None:
                raise ApiError(
                    "INVALIDJOBSTATE", f"Data of a job is uploaded once, while it is Open; it is {job.state}"
                )
            self._database.execute("INSERT INTO _ingest_data VALUES (?, ?)", (job_id, data))

    def set_state(self, job_id: str, state: str) -> IngestJob:
        """UploadComplete or Aborted. Raises ApiError."""
        with self._database.transaction():
            job = self.get(job_id)
            allowed = job.state == "Open" if state == "UploadComplete" else job.state not in ENDED
            if not allowed:
                raise ApiError("INVALIDJOBSTATE", f"A job that is {job.state} cannot become {state}")
            return self._in_state(job, state)

    def delete(self, job_id: str) -> None:
        """Forget a job that does not run, with its data and results. Raises ApiError."""
        with self._database.transaction():
            super().delete(job_id)
            self._database.execute("DELETE FROM _ingest_data WHERE job_id = ?", (job_id,))

    def lines(self, job_id: str, kind: str) -> list[str]:
        """CSV lines of `successful`, `failed` or `unprocessed` rows, the header first."""
        sql = "SELECT line FROM _ingest_line WHERE job_id = ? AND kind = ? ORDER BY number"
        return [row[0] for row in self._database.rows(sql, (job_id, kind))]

    def _finished(self, job: IngestJob) -> IngestJob:
        try:
            header, rows = read_rows(self._data(job.id) or "", job.delimiter)
        except ApiError as error:
            return self._in_state(job, "Failed", error=f"{error.error_code} : {error.message}")
        outcomes: list[Outcome] = []
        for start in range(0, len(rows), ROWS_IN_TRANSACTION):
            part = [record_of(header, line) for line in rows[start : start + ROWS_IN_TRANSACTION]]
            outcomes += self._work(job, part)
        self._keep_lines(job, header, rows, outcomes)
        failed = sum(not outcome["success"] for outcome in outcomes)
        return self._in_state(job, "JobComplete", processed=len(rows), failed=failed)

    def _data(self, job_id: str) -> str | None:
        row = self._database.row("SELECT data FROM _ingest_data WHERE job_id = ?", (job_id,))
        return row[0] if row else None

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
