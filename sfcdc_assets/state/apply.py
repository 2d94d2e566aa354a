"""Apply: a batch's events to the key ranges they touch, in Spark.

One job a batch: tasks read and decode their files of `raw_events`, the sparse changes (not the wide rows) are shuffled
to their key range, and each key range's task follows its records, writes its new file and reports what it wrote. The
driver commits. No row of the table passes through the JVM or the driver (docs/storage-layout.md, "Applying in Spark
tasks").
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs
from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.raw_event_rows import RAW_EVENTS
from sfcdc_assets.state.changes import CHANGES, RAW_COLUMNS, ChangeReader
from sfcdc_assets.state.key_range_task import APPLIED, KeyRangeTask
from sfcdc_assets.state.key_ranges import KeyRange, range_numbers

_FILES = pa.schema([("path", pa.string())])


@dataclass(frozen=True)
class EventRange:
    """Events of one channel with after < position <= up_to, the files of `raw_events` that may hold them, and the
    positions to leave out because their event was published twice."""

    channel: str
    after: int
    up_to: int
    files: tuple[str, ...]
    filesystem: fs.FileSystem
    schemas: Mapping[str, str]
    """Schema id -> Avro JSON."""
    duplicates: Collection[int] = frozenset()


def apply_events(spark: SparkSession, events: EventRange, task: KeyRangeTask, visit: Collection[int]) -> pa.Table:
    """Run the batch and return what was written, as `APPLIED`. Nothing is committed.

    Key ranges that events name are visited, and those in `visit` besides.
    """
    changes = read_changes(spark, events, task.columns, task.key_ranges)
    if visit:
        visits = pa.Table.from_batches([markers(sorted(visit))])
        changes = changes.unionByName(spark.createDataFrame(visits, from_arrow_schema(CHANGES)))

    def run(key_range: pa.Table) -> pa.Table:
        # Not `task.run` itself: Spark counts a method's `self` as an argument and passes the group's key too.
        return task.run(key_range)

    results = spread(spark, changes, len(task.key_ranges)).applyInArrow(run, from_arrow_schema(APPLIED))
    return results.toArrow().cast(APPLIED)


def spread(spark: SparkSession, changes: DataFrame, key_ranges: int) -> GroupedData:
    """The changes grouped by their key range, in as many tasks as there are key ranges and shuffle partitions.

    Without that number adaptive execution merges partitions, by the few bytes of the changes, into one task, while what
    takes time is each key range's files (docs/storage-layout.md, "Spark settings").
    """
    tasks = max(1, min(key_ranges, int(spark.conf.get("spark.sql.shuffle.partitions") or 1)))
    return changes.repartition(tasks, "key_range").groupBy("key_range")


def read_changes(
    spark: SparkSession, events: EventRange, columns: Sequence[Column], key_ranges: Sequence[KeyRange]
) -> DataFrame:
    """The batch's changes (`CHANGES`) with the key range of each; lazy."""
    if not events.files:
        return spark.createDataFrame([], from_arrow_schema(CHANGES))
    paths = spark.createDataFrame(pa.table({"path": list(events.files)}, schema=_FILES))
    tasks = min(len(events.files), int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
    return paths.repartition(tasks).mapInArrow(event_reader(events, columns, key_ranges), from_arrow_schema(CHANGES))


def event_reader(
    events: EventRange, columns: Sequence[Column], key_ranges: Sequence[KeyRange]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does to the paths of `raw_events` files it is given: their changes, each with its key range."""
    wanted = (
        (pc.field("channel") == events.channel)
        & (pc.field("position") > events.after)
        & (pc.field("position") <= events.up_to)
    )

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = ChangeReader(events.schemas, columns, events.duplicates)
        for batch in batches:
            for path in batch.column("path").to_pylist():
                # Files that delta-rs wrote again (payloads given up, a compaction) come with view types of their own.
                source = ds.dataset(path, schema=RAW_EVENTS, filesystem=events.filesystem, format="parquet")
                for rows in source.to_batches(columns=list(RAW_COLUMNS), filter=wanted, batch_size=8192):
                    if rows.num_rows:
                        yield _with_key_range(reader.read(rows), key_ranges)

    return read


def _with_key_range(changes: pa.RecordBatch, key_ranges: Sequence[KeyRange]) -> pa.RecordBatch:
    numbers = pa.array(range_numbers(key_ranges, changes.column("record_id").to_pylist()), pa.int32())
    return pa.RecordBatch.from_arrays([numbers, *changes.columns[1:]], schema=CHANGES)


def markers(numbers: Sequence[int]) -> pa.RecordBatch:
    """A change without a record for each key range, so that key ranges without events are visited too."""
    rest = [pa.nulls(len(numbers), field.type) for field in list(CHANGES)[1:]]
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int32()), *rest], schema=CHANGES)
