"""Apply: a batch's events to the leaves they touch, in Spark.

One job a batch: tasks read and decode their files of `raw_events`, the sparse changes (not the wide rows) are shuffled
to their leaf, and each leaf's task follows its records, writes its new file and reports what it wrote. The driver
commits. No row of the table passes through the JVM or the driver (docs/storage-layout.md, "Applying in Spark tasks").
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
from sfcdc_assets.change_events.landing import RAW_EVENTS
from sfcdc_assets.state.changes import CHANGES, RAW_COLUMNS, ChangeReader
from sfcdc_assets.state.leaf_task import APPLIED, LeafTask
from sfcdc_assets.state.leaves import Leaf, leaf_numbers

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


def apply_events(spark: SparkSession, events: EventRange, task: LeafTask, visit: Collection[int]) -> pa.Table:
    """Run the batch and return what was written, as `APPLIED`. Nothing is committed.

    Leaves that events name are visited, and those in `visit` besides.
    """
    changes = read_changes(spark, events, task.columns, task.leaves)
    if visit:
        visits = pa.Table.from_batches([markers(sorted(visit))])
        changes = changes.unionByName(spark.createDataFrame(visits, from_arrow_schema(CHANGES)))

    def run(leaf: pa.Table) -> pa.Table:
        # Not `task.run` itself: Spark counts a method's `self` as an argument and passes the group's key too.
        return task.run(leaf)

    results = spread(spark, changes, len(task.leaves)).applyInArrow(run, from_arrow_schema(APPLIED))
    return results.toArrow().cast(APPLIED)


def spread(spark: SparkSession, changes: DataFrame, leaves: int) -> GroupedData:
    """The changes grouped by their leaf, in as many tasks as there are leaves and shuffle partitions.

    Without that number adaptive execution merges partitions, by the few bytes of the changes, into one task, while what
    takes time is each leaf's files (docs/storage-layout.md, "Spark settings").
    """
    tasks = max(1, min(leaves, int(spark.conf.get("spark.sql.shuffle.partitions") or 1)))
    return changes.repartition(tasks, "leaf").groupBy("leaf")


def read_changes(
    spark: SparkSession, events: EventRange, columns: Sequence[Column], leaves: Sequence[Leaf]
) -> DataFrame:
    """The batch's changes (`CHANGES`) with the leaf of each; lazy."""
    if not events.files:
        return spark.createDataFrame([], from_arrow_schema(CHANGES))
    paths = spark.createDataFrame(pa.table({"path": list(events.files)}, schema=_FILES))
    tasks = min(len(events.files), int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
    return paths.repartition(tasks).mapInArrow(event_reader(events, columns, leaves), from_arrow_schema(CHANGES))


def event_reader(
    events: EventRange, columns: Sequence[Column], leaves: Sequence[Leaf]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does to the paths of `raw_events` files it is given: their changes, each with its leaf."""
    wanted = (
        (pc.field("channel") == events.channel)
        & (pc.field("position") > events.after)
        & (pc.field("position") <= events.up_to)
    )

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = ChangeReader(events.schemas, columns, events.duplicates)
        for batch in batches:
            for path in batch.column("path").to_pylist():
                # Files that delta-rs wrote anew (payloads given up, a compaction) come with view types of their own.
                source = ds.dataset(path, schema=RAW_EVENTS, filesystem=events.filesystem, format="parquet")
                for rows in source.to_batches(columns=list(RAW_COLUMNS), filter=wanted, batch_size=8192):
                    if rows.num_rows:
                        yield _with_leaf(reader.read(rows), leaves)

    return read


def _with_leaf(changes: pa.RecordBatch, leaves: Sequence[Leaf]) -> pa.RecordBatch:
    numbers = pa.array(leaf_numbers(leaves, changes.column("record_id").to_pylist()), pa.int32())
    return pa.RecordBatch.from_arrays([numbers, *changes.columns[1:]], schema=CHANGES)


def markers(numbers: Sequence[int]) -> pa.RecordBatch:
    """A change without a record for each leaf, so that leaves without events are visited too."""
    rest = [pa.nulls(len(numbers), field.type) for field in list(CHANGES)[1:]]
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int32()), *rest], schema=CHANGES)
