"""Bulk API 2.0 query jobs: their states, and their results, pinned when the job runs and kept in the org's database.

A job is UploadComplete, then InProgress, then JobComplete (or Failed); a client may abort it before that. With
`OrgSettings.bulk_step` 0 each look at the job moves it one state on; otherwise it stays that long, by the clock, in
each.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate

from sfcdc_assets.emulator.database import Database
from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.ids import instance_characters, new_id
from sfcdc_assets.emulator.rest.csv_form import LINE_ENDINGS, cells, csv_line, quoted_cell
from sfcdc_assets.emulator.rest.query import compile_for
from sfcdc_assets.emulator.rest.rest_context import RestContext
from sfcdc_assets.emulator.rest.spoiled_records import NO_VALUE, spoiled_fields
from sfcdc_assets.emulator.soql.compiler import CompiledQuery

_BLOCK = 1_000
_RUNNING = ("UploadComplete", "InProgress")
ENDED = ("JobComplete", "Failed", "Aborted")


@dataclass(frozen=True)
class BulkJob:
    """A query job as it stands; times are epoch ms."""

    id: str
    operation: str
    query: str
    entity: str
    api_version: str
    delimiter: str
    delimiter_name: str
    line_ending: str
    created_by: str
    created_at: int
    changed_at: int
    state: str = "UploadComplete"
    records: int = 0
    error: str | None = None


class BulkJobs:
    """All query jobs of the org."""

    def __init__(self, context: RestContext) -> None:
        self._context = context
        self._org = context.org
        self._database: Database = context.org.database
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _bulk_job (number INTEGER PRIMARY KEY, id TEXT UNIQUE, job TEXT)"
        )
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _bulk_lines (job_id TEXT, first INTEGER, ends BLOB, lines BLOB, "
            "PRIMARY KEY (job_id, first))"
        )

    def create(self, job: BulkJob) -> BulkJob:
        """Keep a new job under an id of its own. Raises ApiError if its query is not one a bulk job can run."""
        self._compiled(job)
        with self._database.transaction():
            self._forget_old()
            row = self._database.row("SELECT COALESCE(MAX(number), 0) + 1 FROM _bulk_job")
            number = row[0] if row else 1
            job = replace(job, id=new_id("750", instance_characters(self._org.seed), number))
            self._database.execute("INSERT INTO _bulk_job VALUES (?, ?, ?)", (number, job.id, json.dumps(asdict(job))))
        return job

    def look(self, job_id: str) -> BulkJob:
        """The job, moved on as far as this look or the clock moves it. Raises ApiError NOT_FOUND."""
        with self._database.transaction():
            job = self.get(job_id)
            step = self._org.settings.bulk_step
            steps = 1 if step == 0 else (self._org.clock() - job.changed_at) // step
            for _ in range(min(steps, len(_RUNNING))):
                job = self._moved_on(job)
            return job

    def get(self, job_id: str) -> BulkJob:
        """The job as it stands. Raises ApiError NOT_FOUND."""
        row = self._database.row("SELECT job FROM _bulk_job WHERE id = ?", (job_id,))
        if row is None:
            raise ApiError("NOT_FOUND", "The requested resource does not exist", status=404)
        return BulkJob(**json.loads(row[0]))

    def all(self) -> list[BulkJob]:
        """All jobs, the oldest first."""
        return [
            BulkJob(**json.loads(row[0])) for row in self._database.rows("SELECT job FROM _bulk_job ORDER BY number")
        ]

    def abort(self, job_id: str) -> BulkJob:
        """Stop a job that has not ended. Raises ApiError."""
        with self._database.transaction():
            job = self.get(job_id)
            if job.state in ENDED:
                raise ApiError("INVALIDJOBSTATE", f"Aborting already {job.state} Job not allowed")
            return self._save(replace(job, state="Aborted", changed_at=self._org.clock()))

    def delete(self, job_id: str) -> None:
        """Forget a job that has ended, with its results. Raises ApiError."""
        with self._database.transaction():
            if self.get(job_id).state not in ENDED:
                raise ApiError("INVALIDJOBSTATE", "Deleting a job that has not ended is not allowed")
            self._database.execute("DELETE FROM _bulk_lines WHERE job_id = ?", (job_id,))
            self._database.execute("DELETE FROM _bulk_job WHERE id = ?", (job_id,))

    def lines(self, job: BulkJob, first: int, count: int) -> Iterator[bytes]:
        """CSV lines `first` to `first + count`, with their endings, in blocks; the header is line 0 and records start
        at 1."""
        end, at = first + count, first // _BLOCK * _BLOCK
        while at < end:
            row = self._database.row("SELECT ends, lines FROM _bulk_lines WHERE job_id = ? AND first = ?", (job.id, at))
            if row is None:
                return
            ends = [0, *array("Q", row[0])]
            begin, stop = max(0, first - at), min(end - at, len(ends) - 1)
            yield row[1][ends[begin] : ends[stop]]
            at += _BLOCK

    def _moved_on(self, job: BulkJob) -> BulkJob:
        now = self._org.clock()
        if job.state == "UploadComplete":
            return self._save(replace(job, state="InProgress", changed_at=now))
        if job.state == "InProgress":
            try:
                return self._save(replace(job, state="JobComplete", changed_at=now, records=self._run(job)))
            except ApiError as error:
                return self._save(
                    replace(job, state="Failed", changed_at=now, error=f"{error.error_code}: {error.message}")
                )
        return job

    def _run(self, job: BulkJob) -> int:
        compiled = self._compiled(job)
        selected = compiled.selected
        ending = LINE_ENDINGS[job.line_ending]
        block = [csv_line([".".join(item.path) for item in selected], job.delimiter) + ending]
        first = 0
        for rows in self._org.rest_view.stream(compiled.sql, compiled.parameters, _BLOCK):
            values = list(zip(*rows, strict=True))
            columns = [cells(item.field, values[item.first]) for item in selected]
            self._spoil(values[0], compiled, columns)
            block += [job.delimiter.join(row) + ending for row in zip(*columns, strict=True)]
            while len(block) >= _BLOCK:
                first, block = self._store(job, first, block[:_BLOCK]), block[_BLOCK:]
        return self._store(job, first, block) - 1

    def _spoil(self, ids: Sequence[object], compiled: CompiledQuery, columns: list[list[str]]) -> None:
        """Put what the org cannot give in the place of values of some records."""
        if not self._org.settings.spoiled_records:
            return
        for row, record_id in enumerate(ids):
            for name in spoiled_fields(self._org.settings, record_id):
                for item, column in zip(compiled.selected, columns, strict=True):
                    if item.field.name == name:
                        column[row] = quoted_cell(NO_VALUE)

    def _store(self, job: BulkJob, first: int, block: list[str]) -> int:
        if block:
            lines = [line.encode() for line in block]
            ends = array("Q", accumulate(map(len, lines))).tobytes()
            self._database.execute(
                "INSERT INTO _bulk_lines VALUES (?, ?, ?, ?)", (job.id, first, ends, b"".join(lines))
            )
        return first + len(block)

    def _compiled(self, job: BulkJob) -> CompiledQuery:
        compiled = compile_for(self._context, job.query, include_deleted=job.operation == "queryAll")
        if compiled.counts:
            raise ApiError("API_ERROR", "Aggregate queries are not supported in Bulk Query")
        if compiled.children:
            raise ApiError("API_ERROR", "Nested queries are not supported in Bulk Query")
        if compiled.query.offset:
            raise ApiError("API_ERROR", "OFFSET is not supported in Bulk Query")
        if any(selected.components for selected in compiled.selected):
            raise ApiError("API_ERROR", "Selecting compound data not supported in Bulk Query")
        return compiled

    def _save(self, job: BulkJob) -> BulkJob:
        self._database.execute("UPDATE _bulk_job SET job = ? WHERE id = ?", (json.dumps(asdict(job)), job.id))
        return job

    def _forget_old(self) -> None:
        oldest = self._org.clock() - self._org.settings.bulk_result_lifetime
        for job in self.all():
            if job.state in ENDED and job.changed_at <= oldest:
                self.delete(job.id)
