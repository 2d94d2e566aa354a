"""What one leaf's task does: read its rows, put reads in their place, resolve and merge its changes, write, and tell.

It runs in a Spark worker and does its own file I/O; the driver commits what it tells (facts/STORAGE.md section 0).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.state.baseline import read_schema
from sfcdc_assets.state.changes import CHANGES
from sfcdc_assets.state.columns import current_state_schema
from sfcdc_assets.state.course import Course, Reading, TextsKnown
from sfcdc_assets.state.history import history_schema
from sfcdc_assets.state.leaves import OPEN_PREFIX, Leaf, closed_prefix, write_leaf
from sfcdc_assets.state.merge import empty_rows
from sfcdc_assets.state.text_fields import write_texts

_FILE = pa.struct([("path", pa.string()), ("size", pa.int64()), ("rows", pa.int64()), ("statistics", pa.string())])
_DOUBT = pa.struct(
    [
        ("record_id", pa.string()),
        ("reason", pa.string()),
        ("position", pa.int64()),
        ("commit_timestamp", pa.timestamp("us", "UTC")),
        ("detail", pa.string()),
    ]
)

_SILENT = pa.struct([("record_id", pa.string()), ("position", pa.int64()), ("detail", pa.string())])

APPLIED = pa.schema(
    [
        ("leaf", pa.int32()),
        ("rewritten", pa.bool_()),
        ("files", pa.list_(_FILE)),
        ("texts", _FILE),
        ("versions_rewritten", pa.bool_()),
        ("versions", pa.list_(_FILE)),
        ("versions_added", pa.int64()),
        ("doubts", pa.list_(_DOUBT)),
        ("silent", pa.list_(_SILENT)),
        ("inserted", pa.int64()),
        ("updated", pa.int64()),
        ("deleted", pa.int64()),
        ("waiting", pa.int64()),
        ("events", pa.int64()),
        ("read_back", pa.int64()),
    ]
)
"""One row for each leaf visited: whether its files are replaced and by what, the file of its text values, whether its
open versions are replaced and the files of open and closed versions, the doubts that opened, records of another entity
that changed silently (see `silent_change`), and counts (records; `waiting` and `events` count changes)."""


@dataclass(frozen=True)
class LeafTask:
    """What the tasks of one batch need beside their changes; pickled to the workers."""

    columns: tuple[Column, ...]
    leaves: tuple[Leaf, ...]
    filesystem: fs.FileSystem
    """Rooted at the table."""
    texts: fs.FileSystem
    """Rooted at the entity's text values."""
    texts_known: TextsKnown
    history: fs.FileSystem
    """Rooted at the entity's history."""
    reads: fs.FileSystem
    """Rooted at the entity's snapshot table."""
    readings: tuple[Reading, ...] = ()
    """What was read from the org and is not in the table yet, in the order of its pins."""
    refetched: tuple[str, ...] = ()
    """Files that hold rows read back."""
    up_to: int = 0
    """The position up to which events are applied."""
    roll_back_to: int | None = None
    """Versions after this position are made anew: a snapshot is put in before them."""
    all_in_doubt: bool = False
    """The whole entity is in doubt: every living row is marked."""

    def run(self, table: pa.Table) -> pa.Table:
        """Work on the leaf that all of the table's changes (`CHANGES`) belong to; returns one row of `APPLIED`."""
        by_number = {leaf.number: leaf for leaf in self.leaves}
        leaf = by_number[table.column("leaf")[0].as_py()]
        changes = arrow_frame(table.cast(CHANGES)).filter(pl.col("record_id").is_not_null())
        schema = current_state_schema(self.columns)
        versions = history_schema(self.columns)
        course = Course(
            self.columns,
            self.texts_known,
            read_rows(self.filesystem, leaf.files, leaf, schema),
            read_rows(self.history, leaf.versions, leaf, versions),
        )
        if self.roll_back_to is not None:
            course.roll_back(self.roll_back_to)
        done = -1
        for reading, rows in self._readings(leaf):
            course.follow(changes.filter(pl.col("position").is_between(done, reading.until, closed="right")))
            course.put(reading, rows)
            done = reading.position
        course.follow(changes.filter(pl.col("position") > done))
        if self.all_in_doubt:
            course.doubt_all()
        return pa.Table.from_pylist([self._written(leaf, course, changes.height)], schema=APPLIED)

    def _readings(self, leaf: Leaf) -> Iterator[tuple[Reading, pl.DataFrame]]:
        """Each reading that has rows in the leaf, and every snapshot: what it does not show is gone."""
        schema = read_schema(self.columns).append(pa.field("_refetch", pa.int64()))
        files = self.refetched if any(reading.refetch for reading in self.readings) else ()
        refetches = read_rows(self.reads, files, leaf, schema).partition_by("_refetch", as_dict=True)
        for reading in self.readings:
            if reading.snapshot:
                pages = [page for page in leaf.pages if page in reading.pages]
                yield reading, read_rows(self.reads, pages, leaf, schema).drop("_refetch")
            elif (reading.refetch,) in refetches:
                yield reading, refetches[(reading.refetch,)].drop("_refetch")

    def _written(self, leaf: Leaf, course: Course, events: int) -> dict[str, object]:
        # With a snapshot the leaves are cut anew, so every row and every open version moves to its new leaf.
        moved = any(reading.snapshot for reading in self.readings)
        rewritten = course.changed or moved
        versions_rewritten = course.versions_added > 0 or moved
        files = (
            write_leaf(course.rows.sort("Id"), current_state_schema(self.columns), self.filesystem) if rewritten else []
        )
        versions = history_schema(self.columns)
        opened = write_leaf(course.opened.sort("Id"), versions, self.history, OPEN_PREFIX) if versions_rewritten else []
        closed = write_leaf(course.closed.sort("Id", "_position"), versions, self.history, closed_prefix(self.up_to))
        texts = write_texts(course.new_texts, self.texts)
        return {
            "leaf": leaf.number,
            "rewritten": rewritten,
            "files": [vars(file) for file in files],
            "texts": vars(texts) if texts else None,
            "versions_rewritten": versions_rewritten,
            "versions": [vars(file) for file in (*opened, *closed)],
            "versions_added": course.versions_added,
            "doubts": course.doubts,
            "silent": course.silent,
            "inserted": course.counts.inserted,
            "updated": course.counts.updated,
            "deleted": course.counts.deleted,
            "waiting": course.counts.waiting,
            "events": events,
            "read_back": course.read_back,
        }


def read_rows(filesystem: fs.FileSystem, paths: Sequence[str], leaf: Leaf, schema: pa.Schema) -> pl.DataFrame:
    """Rows of the leaf's range in the wanted columns; a column a file lacks reads null."""
    return pl.concat([empty_rows(schema), *_read(filesystem, paths, leaf, schema)])


def _read(filesystem: fs.FileSystem, paths: Sequence[str], leaf: Leaf, schema: pa.Schema) -> Iterator[pl.DataFrame]:
    within = pq.filters_to_expression(leaf.filters)
    for path in paths:
        source = ds.dataset(path, schema=schema, filesystem=filesystem, format="parquet")
        yield arrow_frame(source.to_table(filter=within))


def arrow_frame(table: pa.Table) -> pl.DataFrame:
    """An Arrow table as polars."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
