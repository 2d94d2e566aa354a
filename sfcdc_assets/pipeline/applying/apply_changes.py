"""Bring entities' tables up to the last complete transaction.

What is new of each entity is found (`plan`), Spark's tasks write the files of all of them in one job, and each entity
is committed on its own (`BatchCommit`). An entity that fails, at any of these, keeps no other from being brought up to
date: its error is its result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from sfcdc_assets import clock
from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.lake import current_state, history, raw_events, snapshots, text_fields
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.retry_on_conflict import retry_on_conflict
from sfcdc_assets.lake.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.outcome import outcome_of
from sfcdc_assets.pipeline.applying.batch_commit import ApplyReport, BatchCommit
from sfcdc_assets.pipeline.applying.entity_tables import EntityTables, evolve_tables
from sfcdc_assets.pipeline.applying.failed_task import report_file_damage
from sfcdc_assets.pipeline.applying.open_tables import OpenTables
from sfcdc_assets.pipeline.applying.plan import BatchPlan, plan
from sfcdc_assets.state.apply import Outcome, apply_events
from sfcdc_assets.state.entity_batch import EntityBatch, EventRange, is_small
from sfcdc_assets.state.key_range_task import KeyRangeTask
from sfcdc_assets.state.key_ranges import ranges_of_ids

__all__ = ["ApplyReport", "Applying", "ToApply", "apply_entities", "apply_entity"]

MOST_ENTITIES = 100
"""Entities of one job: none is committed before all of them are written, and their tables stay open until then."""
LARGE_BYTES = 64_000_000
"""An entity whose tasks read more has a job of its own, so that no other waits for it."""


AT_ONCE = 4
"""Entities that are planned, or committed, beside each other: most of that is waiting for the store, and work of
delta-rs, which does not keep Python from going on. What is done for one entity keeps its order."""

T = TypeVar("T")


@dataclass(frozen=True)
class ToApply:
    """Events of the entity on its channel up to a position, by default to the last complete transaction that has
    landed."""

    entity: str
    channel: str
    up_to: int | None = None


Applying = ApplyReport | Exception
"""What became of an entity."""


def apply_entity(
    warehouse: Warehouse,
    spark: SparkSession,
    privacy: Privacy,
    entity: str,
    channel: str,
    run_id: str,
    up_to: int | None = None,
) -> ApplyReport:
    """Apply what one entity has. Raises `SnapshotMissing`, `OtherChannel`, `PrivacyChanged`, `TableDamaged`,
    `TableNotWritten` and what else stops it."""
    wanted = ToApply(entity, channel, up_to)
    found = apply_entities(warehouse, spark, privacy, [wanted], run_id)[entity]
    if isinstance(found, Exception):
        raise found
    return found


def apply_entities(
    warehouse: Warehouse, spark: SparkSession, privacy: Privacy, wanted: Sequence[ToApply], run_id: str
) -> Mapping[str, Applying]:
    """Apply the complete events, new snapshots and new read-backs of each entity, if any, to its tables.

    Running it again changes nothing (guarantee 2): how far an entity came is read from, and moved by, the very commit
    that swaps its files. For those of which another writer was first, everything is retried.
    """
    outcomes: dict[str, Applying] = {}

    @retry_on_conflict
    def apply_the_rest() -> None:
        rest = [each for each in wanted if isinstance(outcomes.get(each.entity), ConcurrentCommit | None)]
        for entity, found in _Application(warehouse, spark, privacy, run_id).of(rest):
            outcomes[entity] = found
        for found in outcomes.values():
            if isinstance(found, ConcurrentCommit):
                raise found

    with suppress(ConcurrentCommit):
        apply_the_rest()
    return outcomes


@dataclass(frozen=True)
class _Planned:
    """An entity on its way: its tables, what is new of it, and what tasks have to do, if anything."""

    started: float
    tables: EntityTables
    plan: BatchPlan
    batch: EntityBatch | None
    bytes: int


class _Application:
    """One attempt: tables that entities share are opened once."""

    def __init__(self, warehouse: Warehouse, spark: SparkSession, privacy: Privacy, run_id: str) -> None:
        self._warehouse = warehouse
        self._spark = spark
        self._privacy = privacy
        self._run_id = run_id
        self._raw_events = RawEvents.open(warehouse)
        self._schemas = Schemas(warehouse)

    def of(self, wanted: Sequence[ToApply]) -> Iterator[tuple[str, Applying]]:
        """Each entity with what became of it, as it is done."""
        for start in range(0, len(wanted), MOST_ENTITIES):
            planned: list[_Planned] = []
            some = wanted[start : start + MOST_ENTITIES]
            for each, found in zip(some, _side_by_side(self._plan, some), strict=True):
                if isinstance(found, Exception):
                    yield each.entity, found
                else:
                    planned.append(found)
            for job in _jobs(planned):
                yield from self._done(job)

    def _done(self, job: Sequence[_Planned]) -> Iterator[tuple[str, Applying]]:
        batches = [each.batch for each in job if each.batch is not None]
        written = iter(apply_events(self._spark, batches) if batches else ())
        outcomes = [next(written) if each.batch is not None else () for each in job]
        committed = _side_by_side(self._commit, job, outcomes)
        yield from zip((each.tables.entity for each in job), committed, strict=True)

    def _plan(self, wanted: ToApply) -> _Planned:
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
            return _Planned(started, tables, planned, *_batch_of(tables, planned))

    def _commit(self, planned: _Planned, outcome: Outcome) -> ApplyReport:
        with report_file_damage(self._warehouse, planned.tables.entity):
            if isinstance(outcome, Exception):
                raise outcome
        return BatchCommit(planned.tables, planned.plan, self._run_id).of(outcome, planned.started)


def _side_by_side(work: Callable[..., T], *of_each: Sequence[Any]) -> Iterator[T | Exception]:
    """The outcome of the work for each entity, in their order."""
    outcome = partial(outcome_of, work)
    if len(of_each[0]) == 1 or AT_ONCE == 1:
        yield from map(outcome, *of_each)
        return
    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield from threads.map(outcome, *of_each)


def _jobs(planned: Sequence[_Planned]) -> list[list[_Planned]]:
    """Who shares a job; the large ones come last."""
    small = [each for each in planned if each.bytes <= LARGE_BYTES]
    large = [[each] for each in planned if each.bytes > LARGE_BYTES]
    return [small, *large] if small else large


def _batch_of(tables: EntityTables, planned: BatchPlan) -> tuple[EntityBatch | None, int]:
    """What tasks are to do, if anything, and how many bytes they read at most."""
    batch, warehouse = planned.batch, tables.warehouse
    event_files = tables.raw_events.files(tables.entity, tables.channel, batch.after, batch.read_to)
    if not planned.visit and not (batch.events and event_files):
        return None, 0
    events = EventRange(
        tables.channel,
        batch.after,
        batch.read_to,
        tuple(file.path for file in event_files),
        warehouse.filesystem(raw_events.NAME),
        {schema.schema_id: schema.schema_json for schema in tables.schemas.of_entity(tables.entity)},
        batch.duplicates,
    )
    task = KeyRangeTask(
        columns=tables.columns,
        key_ranges=planned.key_ranges,
        batch=tables.checkpoint.batch + 1,
        filesystem=warehouse.filesystem(current_state.name_of(tables.entity)),
        texts=warehouse.filesystem(text_fields.name_of(tables.entity)),
        history=warehouse.filesystem(history.name_of(tables.entity)),
        reads=warehouse.filesystem(snapshots.name_of(tables.entity)),
        org_reads=planned.org_reads,
        read_back_taken=tuple(file.path for file in tables.taken.read_back_files()) if planned.read_backs else (),
        up_to=batch.up_to,
        roll_back_to=planned.roll_back_to,
        all_in_doubt=planned.all_in_doubt,
    )
    pages = [file for snapshot in planned.snapshots for file in snapshot.files]
    size = sum(file.size for file in (*event_files, *pages))
    ranges = planned.visit | ranges_of_ids(planned.key_ranges, batch.record_ids)
    small = is_small(batch.events, sum(file.size for file in event_files), len(ranges))
    return EntityBatch(tables.entity, events, task, planned.visit, ranges if small else None), size
