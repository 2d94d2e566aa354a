"""Apply: the events of many entities to the key ranges they touch, in one Spark job.

Tasks read and decode the files of `raw_events`, the sparse changes (not the wide rows) are shuffled to their entity and
key range, and each range's task follows its records, writes its new files and reports what it wrote. Of a small batch
each task decodes all events and keeps those of its key ranges: that is sooner done than a shuffle. The driver commits.
No row of a table passes through the JVM or the driver (docs/storage-layout.md, "Applying in Spark tasks").

A job takes half a second whatever it does, so entities share one. What fails for one of them comes back as its result.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.outcome import outcome_of
from sfcdc_assets.side_by_side import all_done
from sfcdc_assets.state.applied import APPLIED, Applied
from sfcdc_assets.state.changes import CHANGES
from sfcdc_assets.state.entity_batch import EntityBatch

_ENTITY = pa.field("entity", pa.int32())
_INPUT = pa.schema([_ENTITY, ("path", pa.string()), ("key_range", pa.int32())])
"""A file of events to read, or a key range to visit whether or not an event names it. Entities go by their number in
the job."""
CHANGES_OF_ENTITIES = pa.schema([_ENTITY, *CHANGES])
RESULTS = pa.schema([_ENTITY, *APPLIED, ("failure", pa.string())])
AT_ONCE, BYTES_AT_ONCE = 8, 16_000_000
"""In an object store a task works on so many entities beside each other, as long as they read no more than that: so
that it takes no more memory than for one large file."""
_FAILED = -1
"""The key range of a change that is none: `error` says why a file of events could not be read."""


class TaskFailed(SfcdcError):
    """A task could not do its part for an entity. `trace`: the worker's traceback."""

    def __init__(self, entity: str, trace: str) -> None:
        self.entity = entity
        self.trace = trace
        super().__init__(trace.strip().splitlines()[-1])


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
        return [found]
    return [outcome for batch in batches for outcome in apply_events(spark, [batch])]


def _job(spark: SparkSession, batches: Sequence[EntityBatch]) -> list[Outcome]:
    packed = PackedBatches.of(batches)
    results = [RESULTS.empty_table()]
    whole, shuffled = ranges_of(batches), inputs_of(batches)
    if whole.num_rows:
        results.append(_without_shuffle(spark, packed, whole))
    if shuffled.num_rows:
        ranges = sum(len(batch.task.key_ranges) for batch in batches if batch.ranges is None)
        results.append(_with_shuffle(spark, packed, shuffled, ranges))
    return outcomes(batches, pa.concat_tables(results))


def _without_shuffle(spark: SparkSession, packed: PackedBatches, ranges: pa.RecordBatch) -> pa.Table:
    def apply(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return apply_ranges(packed, rows)

    inputs = spark.createDataFrame(pa.Table.from_batches([ranges]), from_arrow_schema(_INPUT))
    return inputs.mapInArrow(apply, from_arrow_schema(RESULTS)).toArrow()


def _with_shuffle(spark: SparkSession, packed: PackedBatches, files: pa.RecordBatch, ranges: int) -> pa.Table:
    inputs = spark.createDataFrame(pa.Table.from_batches([files]), from_arrow_schema(_INPUT))

    def read(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return read_changes(packed, rows)

    def apply(changes: pa.Table) -> pa.Table:
        return apply_range(packed, changes)

    changes = inputs.mapInArrow(read, from_arrow_schema(CHANGES_OF_ENTITIES))
    return spread(spark, changes, ranges).applyInArrow(apply, from_arrow_schema(RESULTS)).toArrow()


def ranges_of(batches: Sequence[EntityBatch]) -> pa.RecordBatch:
    """The key ranges of the small batches: what a job without a shuffle begins with."""
    rows = [
        {"entity": number, "key_range": key_range}
        for number, batch in enumerate(batches)
        for key_range in sorted(batch.ranges or ())
    ]
    return pa.RecordBatch.from_pylist(rows, schema=_INPUT)


def inputs_of(batches: Sequence[EntityBatch]) -> pa.RecordBatch:
    """What the first half of a job with a shuffle begins with: of the batches that are not small."""
    # Names of files are random, and so is their order then: Spark gives each task as many that follow one another.
    found: list[tuple[str, int, str | None, int | None]] = sorted(
        (path.rpartition("/")[2], number, path, None)
        for number, batch in enumerate(batches)
        if batch.ranges is None
        for path in batch.events.files
    )
    found += [
        ("", number, None, key_range)
        for number, batch in enumerate(batches)
        if batch.ranges is None
        for key_range in sorted(batch.visit)
    ]
    rows = [{"entity": number, "path": path, "key_range": key_range} for _, number, path, key_range in found]
    return pa.RecordBatch.from_pylist(rows, schema=_INPUT)


def spread(spark: SparkSession, changes: DataFrame, ranges: int) -> GroupedData:
    """The changes grouped by their entity and key range, in as many tasks as there are ranges and shuffle partitions.

    Without that number adaptive execution merges partitions, by the few bytes of the changes, into one task, while what
    takes time is each range's files (docs/storage-layout.md, "Spark settings").
    """
    tasks = max(1, min(ranges, int(spark.conf.get("spark.sql.shuffle.partitions") or 1)))
    return changes.repartition(tasks, "entity", "key_range").groupBy("entity", "key_range")


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


def read_changes(batches: PackedBatches, inputs: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a task of the first half does: the changes in the files it is given, each with its entity and range."""
    for rows in inputs:
        for row in rows.to_pylist():
            number = row["entity"]
            try:
                if row["path"] is None:
                    yield _of(number, _change_without_record(row["key_range"], None))
                else:
                    for changes in batches[number].changes(row["path"]):
                        yield _of(number, changes)
            except Exception:  # noqa: BLE001 - it is the entity's outcome
                yield _of(number, _change_without_record(_FAILED, traceback.format_exc()))


def apply_ranges(batches: PackedBatches, ranges: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a task of a job without a shuffle does: of each entity it meets it reads the events once. In an object store
    most of that is waiting, so entities that are small are worked on beside each other."""
    for rows in ranges:
        of_entity = [
            (number, [row["key_range"] for row in found])
            for number, found in groupby(rows.to_pylist(), key=itemgetter("entity"))
        ]
        for some in _together(batches, of_entity):
            for results in all_done(lambda each: _apply_entity(batches, *each), some, len(some)):
                yield from results.to_batches()


def _together(
    batches: PackedBatches, of_entity: Sequence[tuple[int, list[int]]]
) -> Iterator[list[tuple[int, list[int]]]]:
    """Those that a task works on at a time: one, but for small ones in an object store."""
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
    """The results of an entity's key ranges."""
    paths = [{"entity": number, "path": path} for path in batches[number].events.files]
    inputs = pa.RecordBatch.from_pylist(paths, schema=_INPUT)
    events = pa.Table.from_batches(read_changes(batches, iter([inputs])), CHANGES_OF_ENTITIES)
    failed = events.filter(pc.field("key_range") == _FAILED)
    results = []
    for key_range in key_ranges:
        visited = pa.Table.from_batches([_of(number, _change_without_record(key_range, None))])
        of_range = pa.concat_tables([visited, events.filter(pc.field("key_range") == key_range)])
        results.append(apply_range(batches, failed if failed.num_rows else of_range))
    return pa.concat_tables(results)


def apply_range(batches: PackedBatches, changes: pa.Table) -> pa.Table:
    """What a task of the second half does with the changes of one range: one row of results."""
    number, key_range = changes.column("entity")[0].as_py(), changes.column("key_range")[0].as_py()
    result: Mapping[str, object]
    if key_range == _FAILED:
        result = {"key_range": key_range, "failure": changes.column("error")[0].as_py()}
    else:
        try:
            result = batches[number].task.run(changes.select(CHANGES.names)).to_row()
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


def _of(entity: int, changes: pa.RecordBatch) -> pa.RecordBatch:
    numbers = pa.repeat(pa.scalar(entity, pa.int32()), changes.num_rows)
    return pa.RecordBatch.from_arrays([numbers, *changes.columns], schema=CHANGES_OF_ENTITIES)
