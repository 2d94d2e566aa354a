"""One attempt to apply what is new of entities: what is new of each is found, Spark's tasks write the files of all of
them in one job, and each is committed on its own. Who makes another attempt, and when, is `apply_changes`'.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from pyspark.sql import SparkSession

from sfcdc_assets.apply.batch_commit import ApplyReport, BatchCommit
from sfcdc_assets.apply.entity_batch import EntityBatch, EventRange, is_small
from sfcdc_assets.apply.entity_tables import EntityTables, evolve_tables
from sfcdc_assets.apply.key_range_task import KeyRangeTask
from sfcdc_assets.apply.plan import BatchPlan, plan
from sfcdc_assets.apply.spark_job import Outcome, apply_events
from sfcdc_assets.apply.task_failures import report_file_damage
from sfcdc_assets.entities.open_tables import OpenTables
from sfcdc_assets.key_ranges.key_ranges import piece_bytes
from sfcdc_assets.lake.delta.attempt_files import AttemptFiles
from sfcdc_assets.lake.tables import current_state, history, raw_events, snapshots, text_fields
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.warehouse import ENTITIES_AT_ONCE, Warehouse
from sfcdc_assets.org_connection.run_context import RunContext
from sfcdc_assets.runtime.concurrency import side_by_side


def batch_tasks(tables: EntityTables, planned: BatchPlan, token: str) -> EntityBatch | None:
    """Return what tasks are to do, if anything; the names of the files they write begin with the attempt's token."""
    batch, warehouse = planned.batch, tables.warehouse
    between = (batch.after, batch.read_to)
    event_files = tables.raw_events.files(tables.entity, tables.channel, *between) if batch.events else ()
    if not planned.visit and not event_files:
        return None
    events = EventRange(
        tables.channel,
        batch.after,
        batch.read_to,
        {file.path: file.size for file in event_files},
        warehouse.filesystem(raw_events.NAME),
        {schema.schema_id: schema.schema_json for schema in tables.schemas.of_entity(tables.entity)},
        batch.duplicates | batch.older.certain,
    )
    new_readings = [each.number for each in planned.read_backs]
    task = KeyRangeTask(
        columns=tables.columns,
        key_ranges=planned.key_ranges,
        batch=tables.checkpoint.batch + 1,
        filesystem=warehouse.filesystem(current_state.name_of(tables.entity)),
        texts=warehouse.filesystem(text_fields.name_of(tables.entity)),
        texts_known=_texts_at(tables, [org_read.position for org_read in planned.org_reads]),
        history=warehouse.filesystem(history.name_of(tables.entity)),
        reads=warehouse.filesystem(snapshots.name_of(tables.entity)),
        org_reads=planned.org_reads,
        read_back_taken=tuple(file.path for file in tables.taken.read_back_files(new_readings)),
        up_to=batch.up_to,
        waiting=planned.waiting,
        perhaps_older=batch.older.possible,
        read_already=batch.older.of_records,
        roll_back_to=planned.roll_back_to,
        token=token,
        suspect_before=planned.suspect_before,
        piece_bytes=piece_bytes(sum(file.size for file in tables.current_state.files().values())),
    )
    of_events = sum(file.size for file in event_files)
    of_pages = sum(file.size for snapshot in planned.snapshots for file in snapshot.files)
    small = is_small(batch.events, of_events, len(planned.touched))
    size = of_events + of_pages + _bytes_of_rows(tables, planned)
    return EntityBatch(tables.entity, events, task, planned.visit, planned.touched, is_shuffled=not small, bytes=size)


def _texts_at(tables: EntityTables, watermarks: Sequence[int]) -> tuple[str, ...]:
    """Files that may hold texts of reads with these watermarks: few, as most watermarks are past all that is there."""
    if not watermarks or tables.from_scratch:
        return ()
    found = []
    for file in tables.texts.table.files():
        first, last = file.statistics.get("min.position"), file.statistics.get("max.position")
        if first is None or last is None or any(first <= watermark <= last for watermark in watermarks):
            found.append(file.path)
    return tuple(found)


def _bytes_of_rows(tables: EntityTables, planned: BatchPlan) -> int:
    """Size of the key-range files that tasks read, and most of which they write again."""
    if tables.from_scratch:
        return 0
    files = tables.current_state.files()
    touched = (each for each in planned.key_ranges if each.number in planned.touched)
    return sum(files[path].size for path in {path for key_range in touched for path in key_range.files})


MOST_ENTITIES = 100
"""Entities of one job: none is committed before all of them are written, and their tables stay open until then."""
LARGE_BYTES = 64_000_000
"""An entity whose tasks read more (events, pages, and the rows that they touch), or that has more than one batch, has a
job of its own, after all others are committed, so that none waits for it."""

AT_ONCE = 4
"""Entities that are planned, or committed, beside each other: most of that is waiting for the store, and work of
delta-rs, which does not keep Python from going on. What is done for one entity keeps its order. More of them in an
object store: `ENTITIES_AT_ONCE`."""


@dataclass(frozen=True)
class ToApply:
    """Events of the entity on its channel up to a position, by default to the last complete transaction that has
    landed."""

    entity: str
    channel: str
    up_to: int | None = None


@dataclass(frozen=True)
class Prepared:
    """An entity on its way: its tables, what is new of it, and what tasks have to do, if anything.

    `outcome` is what tasks wrote, and no table knows yet; None for a large entity, whose tasks run when it is
    committed, so that no other waits for them. `files`: what is to be deleted should it fail.
    """

    started: float
    tables: EntityTables
    plan: BatchPlan
    batch: EntityBatch | None
    files: AttemptFiles
    outcome: Outcome | None = None


class Attempt:
    """One attempt: tables that entities share are opened once."""

    def __init__(self, run: RunContext) -> None:
        # Asked for once. What is held here must not point back: handles of tables are given back when nobody has them.
        self._run = replace(run, spark=cache(run.spark))
        self._warehouse = run.warehouse

    @property
    def _spark(self) -> SparkSession:
        return self._run.spark()

    @cached_property
    def _raw_events(self) -> RawEvents:
        return RawEvents.open(self._warehouse)

    @cached_property
    def _schemas(self) -> Schemas:
        return Schemas(self._warehouse)

    def of(self, wanted: Sequence[ToApply]) -> Iterator[tuple[str, ApplyReport | Exception]]:
        """Each entity with what became of it, as it is done."""
        for job in self.jobs(wanted):
            ready = [found for _, found in job if isinstance(found, Prepared)]
            committed = side_by_side(self.commit, ready, at_once(self._warehouse))
            yield from ((entity, found if isinstance(found, Exception) else next(committed)) for entity, found in job)

    def _open_what_is_shared(self) -> None:
        """Before entities are planned beside each other."""
        _ = self._spark, self._raw_events, self._schemas

    def jobs(self, wanted: Sequence[ToApply]) -> Iterator[list[tuple[str, Prepared | Exception]]]:
        """Entities that share a job, prepared; the large ones come last, of these those with less to read first."""
        large: list[tuple[str, Prepared | Exception]] = []
        for start in range(0, len(wanted), MOST_ENTITIES):
            some = wanted[start : start + MOST_ENTITIES]
            self._open_what_is_shared()
            found = zip(some, side_by_side(self._plan, some, at_once(self._warehouse)), strict=True)
            planned = [(each.entity, outcome) for each, outcome in found]
            yield self._written([each for each in planned if _weight(each[1]) <= (False, LARGE_BYTES)])
            large += [each for each in planned if _weight(each[1]) > (False, LARGE_BYTES)]
        yield from ([each] for each in sorted(large, key=lambda each: _weight(each[1])))

    def commit(self, prepared: Prepared) -> ApplyReport:
        """Commit the batch. Raise `ConcurrentCommit`, and what stops the entity."""
        if prepared.outcome is None:
            ((_, written),) = self._written([(prepared.tables.entity, prepared)])
            if isinstance(written, Exception):
                raise written
            prepared = written
        outcome = prepared.outcome
        assert outcome is not None
        try:
            with report_file_damage(self._warehouse, prepared.tables.entity):
                if isinstance(outcome, Exception):
                    raise outcome
            report = BatchCommit(prepared.tables, prepared.plan, self._run.run_id).of(outcome, prepared.started)
        except Exception as error:
            prepared.files.failed(error, is_written=not isinstance(outcome, Exception))
            raise
        prepared.files.ended()
        return report

    def _written(self, planned: Sequence[tuple[str, Prepared | Exception]]) -> list[tuple[str, Prepared | Exception]]:
        """Return the tables as before, with what tasks of one job have written of them."""
        ready = [found for _, found in planned if isinstance(found, Prepared)]
        batches = [each.batch for each in ready if each.batch is not None]
        written = iter(apply_events(self._spark, batches) if batches else ())
        return [
            (entity, found)
            if isinstance(found, Exception)
            else (entity, replace(found, outcome=next(written) if found.batch is not None else ()))
            for entity, found in planned
        ]

    def _plan(self, wanted: ToApply) -> Prepared:
        started = time.monotonic()
        with report_file_damage(self._warehouse, wanted.entity):
            opened = OpenTables.open(self._warehouse, wanted.entity)
            tables = evolve_tables(self._run, opened, self._raw_events, self._schemas, wanted.channel)
            tables.settle()
            planned = plan(tables, self._spark, wanted.up_to)
            files = AttemptFiles.begin(self._warehouse, wanted.entity)
            return Prepared(started, tables, planned, batch_tasks(tables, planned, files.token), files)


def at_once(warehouse: Warehouse) -> int:
    """Return how many entities are planned, or committed, beside each other."""
    return AT_ONCE if warehouse.is_local else ENTITIES_AT_ONCE


def _weight(planned: Prepared | Exception) -> tuple[bool, int]:
    """Return how much there is to do: whether it is more than one batch, and bytes."""
    if isinstance(planned, Exception):
        return False, 0
    return planned.plan.batch.has_more, planned.batch.bytes if planned.batch is not None else 0
