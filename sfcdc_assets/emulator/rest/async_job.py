"""Jobs and batches of the first version of the Bulk API, kept in the org's database.

A batch is Queued when it is added, and has run at the next look. Results of a query are kept as text, in blocks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.ids import instance_characters, new_id
from sfcdc_assets.emulator.rest.async_error import AsyncError
from sfcdc_assets.emulator.rest.rest_context import RestContext

_ENDED = ("Completed", "Failed", "NotProcessed")


@dataclass(frozen=True)
class AsyncJob:
    """A job as it stands; times are epoch ms."""

    id: str
    operation: str
    entity: str
    content_type: str
    api_version: str
    external_id: str | None
    concurrency: str
    created_by: str
    created_at: int
    changed_at: int
    state: str = "Open"

    @property
    def is_query(self) -> bool:
        """Whether the job reads records."""
        return self.operation in {"query", "queryAll"}


@dataclass(frozen=True)
class AsyncBatch:
    """A batch as it stands."""

    id: str
    job_id: str
    created_at: int
    changed_at: int
    state: str = "Queued"
    message: str | None = None
    processed: int = 0
    failed: int = 0
    is_stuck: bool = False
    """Never ends by itself: the fault `bulk_job_stuck`."""


Run = Callable[[AsyncJob, str, Callable[[str], None]], tuple[int, int]]
"""Does what a batch's data asks for, gives the result away in pieces, and returns how many records were processed and
how many of them failed. Raises ApiError for a batch that fails as a whole."""


class AsyncJobs:
    """All of an org. `run` does the work of a batch."""

    def __init__(self, context: RestContext, run: Run) -> None:
        self._org = context.org
        self._run = run
        self._database = context.org.database
        for table in (
            "_async_job (number INTEGER PRIMARY KEY, id TEXT UNIQUE, facts TEXT)",
            "_async_batch (number INTEGER PRIMARY KEY, id TEXT UNIQUE, job_id TEXT, facts TEXT, data TEXT)",
            "_async_result (batch_id TEXT, number INTEGER, piece TEXT, PRIMARY KEY (batch_id, number))",
        ):
            self._database.execute(f"CREATE TABLE IF NOT EXISTS {table}")

    def create(self, job: AsyncJob) -> AsyncJob:
        """Keep a new job under an id of its own."""
        with self._database.transaction():
            number = self._next("_async_job")
            job = replace(job, id=new_id("750", instance_characters(self._org.seed), 2 * 10**9 + number))
            self._database.execute("INSERT INTO _async_job VALUES (?, ?, ?)", (number, job.id, json.dumps(asdict(job))))
        return job

    def job(self, job_id: str) -> AsyncJob:
        """Return the job. Raise AsyncError InvalidJob where there is none."""
        row = self._database.row("SELECT facts FROM _async_job WHERE id LIKE ? || '%'", (job_id,))
        if row is None or len(job_id) not in (15, 18):
            raise AsyncError("InvalidJob", "Unable to find object")
        return AsyncJob(**json.loads(row[0]))

    def end(self, job_id: str, state: str) -> AsyncJob:
        """End the job, Closed or Aborted."""
        with self._database.transaction():
            job = self.job(job_id)
            if job.state != "Open":
                raise AsyncError("InvalidJobState", f"Job is already {job.state}")
            job = replace(job, state=state, changed_at=self._org.clock())
            self._database.execute("UPDATE _async_job SET facts = ? WHERE id = ?", (json.dumps(asdict(job)), job.id))
        return job

    def add_batch(self, job: AsyncJob, data: str) -> AsyncBatch:
        """Return a new batch of an open job. Raises AsyncError InvalidJobState."""
        with self._database.transaction():
            if job.state != "Open":
                raise AsyncError("InvalidJobState", f"Unable to add batch to job in state {job.state}")
            number, now = self._next("_async_batch"), self._org.clock()
            id_ = new_id("751", instance_characters(self._org.seed), number)
            batch = AsyncBatch(id_, job.id, now, now, is_stuck=self._org.faults.take(Fault.BULK_JOB_STUCK))
            values = (number, batch.id, job.id, json.dumps(asdict(batch)), data)
            self._database.execute("INSERT INTO _async_batch VALUES (?, ?, ?, ?, ?)", values)
        return batch

    def batches(self, job: AsyncJob, *, looking: bool = True) -> list[AsyncBatch]:
        """All batches of a job, the oldest first; looking at them runs them."""
        rows = self._database.rows("SELECT id FROM _async_batch WHERE job_id = ? ORDER BY number", (job.id,))
        return [self.batch(job, row[0], looking=looking) for row in rows]

    def batch(self, job: AsyncJob, batch_id: str, *, looking: bool = True) -> AsyncBatch:
        """Return a batch of a job; looking at it runs it. Raises AsyncError InvalidBatch."""
        with self._database.lock:  # two looks at once run it once
            sql = "SELECT facts, data FROM _async_batch WHERE job_id = ? AND id LIKE ? || '%'"
            row = self._database.row(sql, (job.id, batch_id))
            if row is None or len(batch_id) not in (15, 18):
                raise AsyncError("InvalidBatch", "Unable to find batch")
            batch = AsyncBatch(**json.loads(row[0]))
            step = self._org.settings.bulk_step
            is_due = step == 0 or self._org.clock() - batch.created_at >= step
            if batch.state in _ENDED or not looking or not is_due:
                return batch
            if batch.is_stuck and job.state != "Aborted":
                return replace(batch, state="InProgress")
            return self._finished(job, batch, row[1])

    def data(self, batch: AsyncBatch) -> str:
        """Return what the client sent."""
        row = self._database.row("SELECT data FROM _async_batch WHERE id = ?", (batch.id,))
        return str(row[0]) if row else ""

    def result(self, batch: AsyncBatch) -> Iterator[str]:
        """Yield the result of a batch that has run, in pieces."""
        number = 0
        sql = "SELECT piece FROM _async_result WHERE batch_id = ? AND number = ?"
        while row := self._database.row(sql, (batch.id, number)):
            yield row[0]
            number += 1

    def _finished(self, job: AsyncJob, batch: AsyncBatch, data: str) -> AsyncBatch:
        number = 0

        def keep(piece: str) -> None:
            nonlocal number
            self._database.execute("INSERT INTO _async_result VALUES (?, ?, ?)", (batch.id, number, piece))
            number += 1

        facts: dict[str, Any]
        if job.state == "Aborted":
            facts = {"state": "NotProcessed"}
        else:
            try:
                processed, failed = self._run(job, data, keep)
                facts = {"state": "Completed", "processed": processed, "failed": failed}
            except ApiError as error:
                facts = {"state": "Failed", "message": f"{error.error_code} : {error.message}"}
        batch = replace(batch, changed_at=self._org.clock(), **facts)
        self._database.execute("UPDATE _async_batch SET facts = ? WHERE id = ?", (json.dumps(asdict(batch)), batch.id))
        return batch

    def _next(self, table: str) -> int:
        row = self._database.row(f"SELECT COALESCE(MAX(number), 0) + 1 FROM {table}")
        return int(row[0]) if row else 1
