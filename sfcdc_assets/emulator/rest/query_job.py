"""Query jobs of Bulk API 2.0: their results are pinned when the job runs, and kept in the org's database."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.rest.bulk_job import ENDED, BulkJob, BulkJobs
from sfcdc_assets.emulator.rest.csv_form import LINE_ENDINGS, cells, csv_line, quoted_cell
from sfcdc_assets.emulator.rest.query import compile_for
from sfcdc_assets.emulator.rest.rest_context import RestContext
from sfcdc_assets.emulator.rest.spoiled_records import NO_VALUE, spoiled_fields
from sfcdc_assets.emulator.soql.compiled_query import CompiledQuery

_BLOCK = 1_000


@dataclass(frozen=True, kw_only=True)
class QueryJob(BulkJob):
    """A query job as it stands. `records`: in its result."""

    query: str
    state: str = "UploadComplete"
    records: int = 0


class QueryJobs(BulkJobs[QueryJob]):
    """All query jobs of the org."""

    def __init__(self, context: RestContext) -> None:
        super().__init__(context, QueryJob, "_bulk_query_job", "_bulk_lines", first=1)
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _bulk_lines (job_id TEXT, first INTEGER, ends BLOB, lines BLOB, "
            "PRIMARY KEY (job_id, first))"
        )

    def create(self, job: QueryJob) -> QueryJob:
        """Keep a new job under an id of its own. Raises ApiError if its query is not one a bulk job can run."""
        self._compiled(job)
        with self._database.transaction():
            self._forget_old()
            return super().create(job)

    def abort(self, job_id: str) -> QueryJob:
        """Stop a job that has not ended. Raises ApiError."""
        with self._database.transaction():
            job = self.get(job_id)
            if job.state in ENDED:
                raise ApiError("INVALIDJOBSTATE", f"Aborting already {job.state} Job not allowed")
            return self._in_state(job, "Aborted")

    def lines(self, job: QueryJob, first: int, count: int) -> Iterator[bytes]:
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

    def _finished(self, job: QueryJob) -> QueryJob:
        with self._database.transaction():
            try:
                return self._in_state(job, "JobComplete", records=self._run(job))
            except ApiError as error:
                return self._in_state(job, "Failed", error=f"{error.error_code}: {error.message}")

    def _run(self, job: QueryJob) -> int:
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

    def _store(self, job: QueryJob, first: int, block: list[str]) -> int:
        if block:
            lines = [line.encode() for line in block]
            ends = array("Q", accumulate(map(len, lines))).tobytes()
            self._context.usage.add("bulk_query_byte", sum(map(len, lines)))
            self._database.execute(
                "INSERT INTO _bulk_lines VALUES (?, ?, ?, ?)", (job.id, first, ends, b"".join(lines))
            )
        return first + len(block)

    def _compiled(self, job: QueryJob) -> CompiledQuery:
        compiled = compile_for(self._context, job.query, include_deleted=job.operation == "queryAll")
        if compiled.counts:
            raise ApiError("API_ERROR", "Aggregate queries are not supported in Bulk Query")
        if compiled.children:
            raise ApiError("API_ERROR", "Nested queries are not supported in Bulk Query")
        if compiled.by_type:
            raise ApiError("API_ERROR", "TYPEOF is not supported in Bulk Query")
        if compiled.query.offset:
            raise ApiError("API_ERROR", "OFFSET is not supported in Bulk Query")
        if any(selected.components for selected in compiled.selected):
            raise ApiError("API_ERROR", "Selecting compound data not supported in Bulk Query")
        return compiled

    def _forget_old(self) -> None:
        oldest = self._org.clock() - self._org.settings.bulk_result_lifetime
        for job in self.all():
            if job.state in ENDED and job.changed_at <= oldest:
                self.delete(job.id)
