"""Apply: the events of many entities to the key ranges they touch, in one Spark job.

Tasks read and decode the files of `raw_events`, the sparse changes (not the wide rows) are shuffled, packed, to their
entity and key range, and each range's task follows its records, writes its new files and reports what it wrote. Of a
small batch each task decodes all events and keeps those of its key ranges: that is sooner done than a shuffle. The
driver commits. No row of a table passes through the JVM or the driver (docs/storage-layout.md, "Applying in Spark
tasks"). Which task does what is decided by size (`job_layout`).

A job takes half a second whatever it does, so entities share one. What fails for one of them comes back as its result.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sfcdc_assets.apply.applied import APPLIED, Applied
from sfcdc_assets.apply.entity_batch import EntityBatch
from sfcdc_assets.apply.job_layout import ENTITY_NUMBER, PACKED_CHANGES, Placement, inputs_of, ranges_of
from sfcdc_assets.apply.packed_changes import packed, unpacked
from sfcdc_assets.apply.task_failures import TaskFailed, lost_workers
from sfcdc_assets.runtime.concurrency import all_side_by_side, outcome_of
from sfcdc_assets.timeline.changes import CHANGES

RESULTS = pa.schema([ENTITY_NUMBER, *APPLIED, ("failure", pa.string())])
AT_ONCE, BYTES_AT_ONCE = 8, 16_000_000
"""In an object store a task works on so many entities beside each other, as long as they read no more than that: so
that it takes no more memory than for one large file."""
_FAILED = -1
"""The key range of a change that is none: `error` says why a file of events could not be read."""


Outcome = tuple[Applied, ...] | Exception
"""What was written for an entity, one for each of its key ranges that was visited; or why nothing may be committed."""


def apply_events(spark: SparkSession, batches: Sequence[EntityBatch]) -> list[Outcome]:
    """Run the batches; the outcome of each. Nothing is committed.

    Where the job itself is lost, to a worker that ran out of memory for instance, each entity gets one of its own.
    """
    found = outcome_of(_job, spark, batches)
    if not isinstance(found, Exception):
        return found
    if len(batches) == 1:
        return [lost_workers(batches[0].entity, found) or found]
    return [outcome for batch in batches for outcome in apply_events(spark, [batch])]


def _job(spark: SparkSession, batches: Sequence[EntityBatch]) -> list[Outcome]:
    sent = PackedBatches.of(batches)
    tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    results = [RESULTS.empty_table()]
    whole, files = ranges_of(batches, tasks), inputs_of(batches, tasks)
    if whole:
        results.append(in_tasks(spark, whole, lambda rows: apply_ranges(sent, rows), RESULTS).toArrow())
    if files:
        results.append(_with_shuffle(spark, sent, files, Placement.of(batches, tasks)))
    return outcomes(batches, pa.concat_tables(results))


def _with_shuffle(
    spark: SparkSession, batches: PackedBatches, files: Sequence[pa.RecordBatch], placement: Placement
) -> pa.Table:
    def apply(rows: pa.Table) -> pa.Table:
        return apply_packed(batches, rows)

    changes = in_tasks(spark, files, lambda rows: read_changes(batches, placement, rows), PACKED_CHANGES)
    return spread(changes, placement.tasks).applyInArrow(apply, from_arrow_schema(RESULTS)).toArrow()


def in_tasks(
    spark: SparkSession,
    work: Sequence[pa.RecordBatch],
    do: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """Return what a task makes of each piece of work, one task for each, started in their order."""
    pieces = tuple(work)

    def of_task(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return do(pieces[number] for rows in numbers for number in rows.column(0).to_pylist())

    return spark.range(0, len(pieces), numPartitions=len(pieces)).mapInArrow(of_task, from_arrow_schema(schema))


def spread(changes: DataFrame, tasks: int) -> GroupedData:
    """Return the changes grouped by their entity and key range, in so many tasks.

    Without that number adaptive execution merges partitions, by the few bytes of the changes, into one task, while what
    takes time is each range's files (docs/storage-layout.md, "Spark settings").
    """
    return changes.repartition(tasks, "partition_key").groupBy("partition_key", "entity", "key_range")


class PackedBatches:
    """The batches on their way to the tasks, each on its own: a task unpacks those it meets.

    They hold what opens the tables' files, and the key of hashed columns. Its repr shows none of it.
    """

    def __init__(self, packed: Sequence[bytes]) -> None:
        self._packed = tuple(packed)
        self._unpacked: dict[int, EntityBatch] = {}

    @classmethod
    def of(cls, batches: Sequence[EntityBatch]) -> PackedBatches:
        """Ready to be sent."""
        return cls([pickle.dumps(batch) for batch in batches])

    def __getitem__(self, number: int) -> EntityBatch:
        if number not in self._unpacked:
            self._unpacked[number] = pickle.loads(self._packed[number])
        return self._unpacked[number]

    def __reduce__(self) -> tuple[Any, ...]:
        return (PackedBatches, (self._packed,))

    def __repr__(self) -> str:
        return f"<{len(self._packed)} batches>"


def read_changes(
    batches: PackedBatches, placement: Placement, inputs: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield what a task of the first half makes: the changes in the files it is given, packed for the tasks of their
    key ranges."""
    for rows in inputs:
        for number, of_entity in groupby(rows.to_pylist(), key=itemgetter("entity")):
            yield from packed(placement, number, _changes_of(batches, number, of_entity))


def _changes_of(batches: PackedBatches, number: int, inputs: Iterable[Mapping[str, Any]]) -> Iterator[pa.RecordBatch]:
    rows = list(inputs)
    yield from (_change_without_record(row["key_range"], None) for row in rows if row["path"] is None)
    yield from _changes_in(batches, number, [row["path"] for row in rows if row["path"] is not None])


def _changes_in(batches: PackedBatches, number: int, paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches[number].changes(paths)
    except Exception:  # noqa: BLE001 - it is the entity's outcome
        yield _change_without_record(_FAILED, traceback.format_exc())


def apply_ranges(batches: PackedBatches, ranges: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what a task of a job without a shuffle makes: of each entity it meets it reads the events once. In an
    object store most of that is waiting, so entities that are small are worked on beside each other."""
    for rows in ranges:
        of_entity = [
            (number, [row["key_range"] for row in found])
            for number, found in groupby(rows.to_pylist(), key=itemgetter("entity"))
        ]
        for some in _together(batches, of_entity):
            for results in all_side_by_side(lambda each: _apply_entity(batches, *each), some, len(some)):
                yield from results.to_batches()


def _together(
    batches: PackedBatches, of_entity: Sequence[tuple[int, list[int]]]
) -> Iterator[list[tuple[int, list[int]]]]:
    """Yield those that a task works on at a time: one, but for small ones in an object store."""
    some: list[tuple[int, list[int]]] = []
    size = 0
    for each in of_entity:
        batch = batches[each[0]]
        size += batch.bytes
        if some and (not batch.is_in_a_store or len(some) == AT_ONCE or size > BYTES_AT_ONCE):
            yield some
            some, size = [], batch.bytes
        some.append(each)
    if some:
        yield some


def _apply_entity(batches: PackedBatches, number: int, key_ranges: Sequence[int]) -> pa.Table:
    """Return the results of an entity's key ranges."""
    events = pa.Table.from_batches(_changes_in(batches, number, list(batches[number].events.files)), CHANGES)
    failed = events.filter(pc.field("key_range") == _FAILED)
    results = []
    for key_range in key_ranges:
        visited = pa.Table.from_batches([_change_without_record(key_range, None)])
        of_range = pa.concat_tables([visited, events.filter(pc.field("key_range") == key_range)])
        results.append(apply_range(batches, number, failed if failed.num_rows else of_range))
    return pa.concat_tables(results)


def apply_packed(batches: PackedBatches, rows: pa.Table) -> pa.Table:
    """Return what a task of the second half makes of the packed changes of one range: one row of results."""
    return apply_range(batches, rows.column("entity")[0].as_py(), unpacked(rows))


def apply_range(batches: PackedBatches, number: int, changes: pa.Table) -> pa.Table:
    """Return the row of results of an entity's changes of one range."""
    key_range = changes.column("key_range")[0].as_py()
    result: Mapping[str, object]
    if key_range == _FAILED:
        result = {"key_range": key_range, "failure": changes.column("error")[0].as_py()}
    else:
        try:
            result = batches[number].task.run(changes).to_row()
        except Exception:  # noqa: BLE001 - it is the entity's outcome
            result = {"key_range": key_range, "failure": traceback.format_exc()}
    return pa.Table.from_pylist([{"entity": number, **result}], schema=RESULTS)


def outcomes(batches: Sequence[EntityBatch], results: pa.Table) -> list[Outcome]:
    """Rows of results, in any order, as the batches' outcomes."""
    applied: list[list[Applied]] = [[] for _ in batches]
    failed: dict[int, TaskFailed] = {}
    for row in results.sort_by([("entity", "ascending"), ("key_range", "ascending")]).to_pylist():
        number, failure = row["entity"], row["failure"]
        if failure is not None:
            failed.setdefault(number, TaskFailed(batches[number].entity, failure))
        else:
            applied[number].append(Applied.of_row(row))
    return [failed.get(number) or tuple(found) for number, found in enumerate(applied)]


def _change_without_record(key_range: int, error: str | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"key_range": key_range, "error": error}], schema=CHANGES)
