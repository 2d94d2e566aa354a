"""Apply: the batch's events to the leaves they touch, in Spark.

One job a batch: tasks read and decode their files of `raw_events`, the sparse changes (not the wide rows) are shuffled
to their leaf, and each leaf's task folds, merges, writes its new file and tells what it wrote. The driver commits. No
row of the table passes through the JVM or the driver (facts/STORAGE.md section 0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.state.baseline import baseline
from sfcdc_assets.state.changes import CHANGES, RAW_COLUMNS, UNDECODABLE, ChangeReader
from sfcdc_assets.state.columns import current_state_schema
from sfcdc_assets.state.leaves import Leaf, leaf_numbers, write_leaf
from sfcdc_assets.state.merge import empty_rows, merge

APPLIED = pa.schema(
    [
        ("leaf", pa.int32()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("rows", pa.int64()),
        ("statistics", pa.string()),
        ("inserted", pa.int64()),
        ("updated", pa.int64()),
        ("deleted", pa.int64()),
        ("in_doubt", pa.int64()),
        ("events", pa.int64()),
        ("undecodable", pa.list_(pa.struct([("position", pa.int64()), ("error", pa.string())]))),
    ]
)
"""One row for each file written; counts and undecodable events stand in a leaf's first row (path null: no rows)."""

_FILES = pa.schema([("path", pa.string())])


@dataclass(frozen=True)
class EventRange:
    """Events of one channel with after < position <= up_to, and the files of `raw_events` that may hold them."""

    channel: str
    after: int
    up_to: int
    files: tuple[str, ...]
    filesystem: fs.FileSystem


@dataclass(frozen=True)
class ApplyTask:
    """What the tasks of one batch need; pickled to the workers."""

    columns: tuple[Column, ...]
    schemas: Mapping[str, str]
    leaves: tuple[Leaf, ...]
    events: EventRange
    filesystem: fs.FileSystem
    """Rooted at the table."""
    page_filesystem: fs.FileSystem | None = None
    """Rooted at the snapshot table, with `pages` in the leaves: the leaves' rows are rebuilt from it."""
    pin: int = 0
    """The snapshot's position."""


def apply_events(spark: SparkSession, task: ApplyTask) -> pa.Table:
    """Run the batch and return what was written, as `APPLIED`. Nothing is committed.

    With a snapshot every leaf is rewritten, otherwise only those that events name.
    """
    changes = read_changes(spark, task)
    if task.page_filesystem is not None:
        numbers = pa.array([leaf.number for leaf in task.leaves], pa.int32())
        markers = pa.Table.from_batches([_marker(numbers)])
        changes = changes.unionByName(spark.createDataFrame(markers, from_arrow_schema(CHANGES)))
    results = changes.groupBy("leaf").applyInArrow(_leaf_merger(task), from_arrow_schema(APPLIED))
    return results.toArrow().cast(APPLIED)


def read_changes(spark: SparkSession, task: ApplyTask) -> DataFrame:
    """The batch's changes (`CHANGES`) with the leaf of each; lazy."""
    if not task.events.files:
        return spark.createDataFrame([], from_arrow_schema(CHANGES))
    paths = spark.createDataFrame(pa.table({"path": list(task.events.files)}, schema=_FILES))
    tasks = min(len(task.events.files), int(spark.conf.get("spark.sql.shuffle.partitions", "4")))
    return paths.repartition(tasks).mapInArrow(_event_reader(task), from_arrow_schema(CHANGES))


def _event_reader(task: ApplyTask) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    events = task.events
    wanted = (
        (pc.field("channel") == events.channel)
        & (pc.field("position") > events.after)
        & (pc.field("position") <= events.up_to)
    )

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = ChangeReader(task.schemas, task.columns)
        for batch in batches:
            for path in batch.column("path").to_pylist():
                source = ds.dataset(path, filesystem=events.filesystem, format="parquet")
                for rows in source.to_batches(columns=list(RAW_COLUMNS), filter=wanted, batch_size=8192):
                    if rows.num_rows:
                        yield _with_leaf(reader.read(rows), task.leaves)

    return read


def _with_leaf(changes: pa.RecordBatch, leaves: Sequence[Leaf]) -> pa.RecordBatch:
    numbers = pa.array(leaf_numbers(leaves, changes.column("record_id").to_pylist()), pa.int32())
    return pa.RecordBatch.from_arrays([numbers, *changes.columns[1:]], schema=CHANGES)


def _marker(numbers: pa.Array) -> pa.RecordBatch:
    """A change without a record for each leaf, so that leaves without events are visited too."""
    rest = [pa.nulls(len(numbers), field.type) for field in list(CHANGES)[1:]]
    return pa.RecordBatch.from_arrays([numbers, *rest], schema=CHANGES)


def _leaf_merger(task: ApplyTask) -> Callable[[pa.Table], pa.Table]:
    schema = current_state_schema(task.columns)
    by_number = {leaf.number: leaf for leaf in task.leaves}

    def merge_leaf(table: pa.Table) -> pa.Table:
        leaf = by_number[table.column("leaf")[0].as_py()]
        frame = pl.from_arrow(table.cast(CHANGES))
        assert isinstance(frame, pl.DataFrame)
        changes = frame.filter(pl.col("record_id").is_not_null())
        base = _read_rows(task.filesystem, leaf.files, leaf, schema)
        if task.page_filesystem is not None:
            base = baseline(base, _read_pages(task.page_filesystem, leaf, schema), task.pin)
        rows, counts = merge(base, changes, task.columns)
        bad = changes.filter(pl.col("change_type") == UNDECODABLE).select("position", "error").unique("position")
        first = {
            "inserted": counts.inserted,
            "updated": counts.updated,
            "deleted": counts.deleted,
            "in_doubt": counts.in_doubt,
            "events": changes.height,
            "undecodable": bad.to_dicts(),
        }
        written = [
            {"path": file.path, "size": file.size, "rows": file.rows, "statistics": file.statistics}
            for file in write_leaf(rows, schema, task.filesystem)
        ]
        results = written or [{"path": None}]
        results[0] = {**results[0], **first}
        return pa.Table.from_pylist([{"leaf": leaf.number, **row} for row in results], schema=APPLIED)

    return merge_leaf


def _read_rows(filesystem: fs.FileSystem, paths: Sequence[str], leaf: Leaf, schema: pa.Schema) -> pl.DataFrame:
    """Rows of the leaf's range in the table's present columns; a column the file lacks reads null."""
    frames = [empty_rows(schema)]
    for path in paths:
        rows = ds.dataset(path, schema=schema, filesystem=filesystem, format="parquet").to_table(
            filter=pq.filters_to_expression(leaf.filters)
        )
        frames.append(pl.DataFrame(rows))
    return pl.concat(frames)


def _read_pages(filesystem: fs.FileSystem, leaf: Leaf, schema: pa.Schema) -> pl.DataFrame:
    """Rows of the leaf's range in the snapshot's pages, with the table's columns and the read's own."""
    fields = [field for field in schema if not field.name.startswith("_")]
    wanted = pa.schema(
        [
            *fields,
            ("_is_deleted", pa.bool_()),
            ("_system_modstamp", pa.timestamp("us", "UTC")),
            ("_master_record_id", pa.string()),
        ]
    )
    return _read_rows(filesystem, leaf.pages, leaf, wanted)
