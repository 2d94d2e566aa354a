"""Bring entities' tables up to the last complete transaction.

What is new of each entity is found (`plan`), Spark's tasks write the files of all of them in one job, and each entity
is committed on its own (`BatchCommit`). An entity that fails, at any of these, keeps no other from being brought up to
date: its error is its result.

`Applier` has the two halves apart: what entities share, and the commit of each. `apply_entities` does both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

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
from sfcdc_assets.pipeline.applying.two_batches import told_as_one
from sfcdc_assets.side_by_side import side_by_side
from sfcdc_assets.state.apply import Outcome, apply_events
from sfcdc_assets.state.entity_batch import EntityBatch, EventRange, is_small
from sfcdc_assets.state.key_range_task import KeyRangeTask

__all__ = [
    "Applier",
    "ApplyReport",
    "Applying",
    "Committed",
    "Prepared",
    "Ready",
    "ToApply",
    "apply_entities",
    "apply_entity",
]

MOST_ENTITIES = 100
"""Entities of one job: none is committed before all of them are written, and their tables stay open until then."""
LARGE_BYTES = 64_000_000
"""An entity whose tasks read more (events, pages, and the rows that they touch), or that has more than one batch, has a
job of its own, after all others are committed, so that none waits for it."""

AT_ONCE = 4
"""Entities that are planned, or committed, beside each other: most of that is waiting for the store, and work of
delta-rs, which does not keep Python from going on. What is done for one entity keeps its order."""
AT_ONCE_IN_A_STORE = 16
"""The same where each request is answered by an object store."""


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
    """Apply all that one entity has, batch after batch. Raises `SnapshotMissing`, `OtherChannel`, `PrivacyChanged`,
    `TableDamaged`, `TableNotWritten` and what else stops it."""
    wanted = ToApply(entity, channel, up_to)
    done: ApplyReport | None = None
    while done is None or done.has_more:
        found = apply_entities(warehouse, spark, privacy, [wanted], run_id)[entity]
        if isinstance(found, Exception):
            raise found
        done = found if done is None else told_as_one(done, found)
    return done


def apply_entities(
    warehouse: Warehouse, spark: SparkSession, privacy: Privacy, wanted: Sequence[ToApply], run_id: str
) -> Mapping[str, Applying]:
    """Apply the complete events, new snapshots and new read-backs of each entity, if any, to its tables: one batch.

    Running it again changes nothing (guarantee 2): how far an entity came is read from, and moved by, the very commit
    that swaps its files. For those of which another writer was first, everything is retried.
    """
    outcomes: dict[str, Applying] = {}

    @retry_on_conflict
    def apply_the_rest() -> None:
        rest = [each for each in wanted if isinstance(outcomes.get(each.entity), ConcurrentCommit | None)]
        for entity, found in _Attempt(warehouse, lambda: spark, privacy, run_id).of(rest):
            outcomes[entity] = found
        for found in outcomes.values():
            if isinstance(found, ConcurrentCommit):
                raise found

    with suppress(ConcurrentCommit):
        apply_the_rest()
    return outcomes


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
    bytes: int
    outcome: Outcome | None = None


@dataclass(frozen=True)
class Committed:
    """An entity whose batch is in its tables since a time (epoch ms)."""

    report: ApplyReport
    at_ms: int


Ready = Committed | Prepared | Exception
"""How far an entity is when what it shares with others is done."""


class Applier:
    """Applies events in two halves: `prepare` what entities share, then `commit` each of them.

    `spark` gives the session; after it was lost (`spark_is_lost`), another one. What had been committed before is seen
    to be, and the rest is done again (guarantee 2).
    """

    def __init__(
        self,
        warehouse: Warehouse,
        spark: Callable[[], SparkSession],
        privacy: Privacy,
        run_id: str,
        *,
        spark_is_lost: Callable[[], bool] = lambda: False,
    ) -> None:
        self._warehouse = warehouse
        self._spark = spark
        self._privacy = privacy
        self._run_id = run_id
        self._spark_is_lost = spark_is_lost

    def prepare(self, wanted: Sequence[ToApply]) -> Mapping[str, Prepared | Exception]:
        """Plan all of them and have the files of all but the large ones written, in few jobs of Spark. Commits nothing
        but columns; an entity that fails has its error instead. In the order in which to commit them: large ones, whose
        tasks are still to run, come last."""
        if not wanted:
            return {}
        found = outcome_of(self._prepared, wanted)
        if self._spark_is_lost():
            found = outcome_of(self._prepared, wanted)
        if isinstance(found, Exception):
            raise found
        return found

    def commit_written(
        self, prepared: Mapping[str, Prepared | Exception], now_ms: Callable[[], int] = clock.now_ms
    ) -> dict[str, Ready]:
        """Commit those whose files are written, some at a time: in an object store most of that is waiting. The large
        ones stay prepared; one that fails has its error instead."""
        attempt = self._attempt()
        ready = {
            entity: found
            for entity, found in prepared.items()
            if isinstance(found, Prepared) and found.outcome is not None
        }

        def committed(each: Prepared) -> Committed:
            report = attempt.commit(each)
            return Committed(report, now_ms())

        done = side_by_side(committed, list(ready.values()), _at_once(self._warehouse))
        return {**prepared, **dict(zip(ready, done, strict=True))}

    def commit(self, wanted: ToApply, prepared: Prepared | Exception) -> ApplyReport:
        """Commit what is prepared, and what is too much for one batch; retried from the beginning, alone, when another
        writer was first. Raises what `apply_entity` raises."""
        try:
            if isinstance(prepared, Exception):
                raise prepared
            done = self._attempt().commit(prepared)
        except Exception as error:
            if isinstance(error, ConcurrentCommit) or self._spark_is_lost():
                return self.apply(wanted)
            raise
        return told_as_one(done, self.apply(wanted)) if done.has_more else done

    def apply(self, wanted: ToApply) -> ApplyReport:
        """Both halves for one entity."""
        entity, channel = wanted.entity, wanted.channel
        return apply_entity(self._warehouse, self._spark(), self._privacy, entity, channel, self._run_id, wanted.up_to)

    def _prepared(self, wanted: Sequence[ToApply]) -> dict[str, Prepared | Exception]:
        return {entity: found for job in self._attempt().jobs(wanted) for entity, found in job}

    def _attempt(self) -> _Attempt:
        return _Attempt(self._warehouse, self._spark, self._privacy, self._run_id)


class _Attempt:
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

    def of(self, wanted: Sequence[ToApply]) -> Iterator[tuple[str, Applying]]:
        """Each entity with what became of it, as it is done."""
        for job in self.jobs(wanted):
            ready = [found for _, found in job if isinstance(found, Prepared)]
            committed = side_by_side(self.commit, ready, _at_once(self._warehouse))
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
            found = zip(some, side_by_side(self._plan, some, _at_once(self._warehouse)), strict=True)
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
            return Prepared(started, tables, planned, *_batch_of(tables, planned))


def _at_once(warehouse: Warehouse) -> int:
    return AT_ONCE if warehouse.is_local else AT_ONCE_IN_A_STORE


def _weight(planned: Prepared | Exception) -> tuple[bool, int]:
    """How much there is to do: whether it is more than one batch, and bytes."""
    return (planned.plan.batch.has_more, planned.bytes) if isinstance(planned, Prepared) else (False, 0)


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
    of_events = sum(file.size for file in event_files)
    of_pages = sum(file.size for snapshot in planned.snapshots for file in snapshot.files)
    small = is_small(batch.events, of_events, len(planned.touched))
    whole = EntityBatch(tables.entity, events, task, planned.visit, planned.touched if small else None)
    return whole, of_events + of_pages + _bytes_of_rows(tables, planned)


def _bytes_of_rows(tables: EntityTables, planned: BatchPlan) -> int:
    """Size of the key-range files that tasks read, and most of which they write again."""
    if tables.from_scratch:
        return 0
    files = tables.current_state.files()
    touched = (each for each in planned.key_ranges if each.number in planned.touched)
    return sum(files[path].size for path in {path for key_range in touched for path in key_range.files})
