"""One attempt to apply what is new of entities: what is new of each is found, Spark's tasks write the files of all of
them in one job, and each is committed on its own. Who makes another attempt, and when, is `apply_changes`'.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import SparkSession

from sfcdc_assets import clock
from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.schemas import Schemas
from sfcdc_assets.lake.warehouse import ENTITIES_AT_ONCE, Warehouse
from sfcdc_assets.pipeline.applying.batch_commit import ApplyReport, BatchCommit
from sfcdc_assets.pipeline.applying.batch_tasks import batch_tasks
from sfcdc_assets.pipeline.applying.entity_tables import EntityTables, evolve_tables
from sfcdc_assets.pipeline.applying.failed_task import report_file_damage
from sfcdc_assets.pipeline.applying.open_tables import OpenTables
from sfcdc_assets.pipeline.applying.plan import BatchPlan, plan
from sfcdc_assets.side_by_side import side_by_side
from sfcdc_assets.state.apply import Outcome, apply_events
from sfcdc_assets.state.entity_batch import EntityBatch

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
    committed, so that no other waits for them.
    """

    started: float
    tables: EntityTables
    plan: BatchPlan
    batch: EntityBatch | None
    outcome: Outcome | None = None


class Attempt:
    """One attempt: tables that entities share are opened once."""

    def __init__(self, warehouse: Warehouse, spark: Callable[[], SparkSession], privacy: Privacy, run_id: str) -> None:
        self._warehouse = warehouse
        self._session = spark
        self._privacy = privacy
        self._run_id = run_id

    @cached_property
    def _spark(self) -> SparkSession:
        return self._session()

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
        """Raises `ConcurrentCommit`, and what stops the entity."""
        if prepared.outcome is None:
            ((_, written),) = self._written([(prepared.tables.entity, prepared)])
            if isinstance(written, Exception):
                raise written
            prepared = written
        outcome = prepared.outcome
        assert outcome is not None
        with report_file_damage(self._warehouse, prepared.tables.entity):
            if isinstance(outcome, Exception):
                raise outcome
        return BatchCommit(prepared.tables, prepared.plan, self._run_id).of(outcome, prepared.started)

    def _written(self, planned: Sequence[tuple[str, Prepared | Exception]]) -> list[tuple[str, Prepared | Exception]]:
        """The same, with what tasks of one job have written of them."""
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
            tables = evolve_tables(
                OpenTables.open(self._warehouse, wanted.entity),
                self._warehouse,
                self._raw_events,
                self._schemas,
                self._privacy,
                wanted.channel,
                spark=lambda: self._spark,
                now_ms=clock.now_ms,
            )
            tables.settle()
            planned = plan(tables, self._spark, wanted.up_to)
            return Prepared(started, tables, planned, batch_tasks(tables, planned))


def at_once(warehouse: Warehouse) -> int:
    """How many entities are planned, or committed, beside each other."""
    return AT_ONCE if warehouse.is_local else ENTITIES_AT_ONCE


def _weight(planned: Prepared | Exception) -> tuple[bool, int]:
    """How much there is to do: whether it is more than one batch, and bytes."""
    if isinstance(planned, Exception):
        return False, 0
    return planned.plan.batch.has_more, planned.batch.bytes if planned.batch is not None else 0
