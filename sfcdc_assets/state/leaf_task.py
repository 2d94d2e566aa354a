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

from sfcdc_assets.change_events.columns import Column, arrow_schema
from sfcdc_assets.state.baseline import READ_COLUMNS, apply_reads, baseline
from sfcdc_assets.state.changes import CHANGES
from sfcdc_assets.state.columns import current_state_schema
from sfcdc_assets.state.history import history_schema, next_versions
from sfcdc_assets.state.leaves import CLOSED_PREFIX, OPEN_PREFIX, Leaf, WrittenLeaf, write_leaf
from sfcdc_assets.state.merge import Merged, empty_rows, merge
from sfcdc_assets.state.text_fields import texts_of_changes, texts_of_reads, write_texts

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
        ("inserted", pa.int64()),
        ("updated", pa.int64()),
        ("deleted", pa.int64()),
        ("waiting", pa.int64()),
        ("events", pa.int64()),
        ("read_back", pa.int64()),
    ]
)
"""One row for each leaf visited: whether its files are replaced and by what, the file of its text values, whether its
open versions are replaced and the files of open and closed versions, the doubts that opened, and counts (records;
`waiting` and `events` count changes)."""


@dataclass(frozen=True)
class Reads:
    """Rows read from the org that wait to be put in place: files below the snapshot table's root.

    `after`: only rows whose `_refetch` number is higher; None for the pages of a whole snapshot.
    """

    filesystem: fs.FileSystem
    files: tuple[str, ...]
    after: int | None


@dataclass(frozen=True)
class TextTarget:
    """Where text values go, and what `text_fields` has already: events up to `after`, refetches up to `refetch`, and,
    with `snapshot`, not yet the snapshot the table is being built from."""

    filesystem: fs.FileSystem
    after: int
    refetch: int
    snapshot: bool


@dataclass(frozen=True)
class LeafTask:
    """What the tasks of one batch need beside their changes; pickled to the workers."""

    columns: tuple[Column, ...]
    leaves: tuple[Leaf, ...]
    filesystem: fs.FileSystem
    """Rooted at the table."""
    texts: TextTarget
    history: fs.FileSystem
    """Rooted at the entity's history."""
    snapshot: Reads | None = None
    """The table is rebuilt from these pages (each leaf names its own)."""
    pin: int = 0
    """The snapshot's position."""
    reads: Reads | None = None
    """Rows read back for records in doubt."""
    unread: frozenset[str] = frozenset()
    """Columns that the org no longer has: reads say nothing about them."""
    all_in_doubt: bool = False
    """The whole entity is in doubt: every living row is marked."""

    def run(self, table: pa.Table) -> pa.Table:
        """Work on the leaf that all of the table's changes (`CHANGES`) belong to; returns one row of `APPLIED`."""
        by_number = {leaf.number: leaf for leaf in self.leaves}
        leaf = by_number[table.column("leaf")[0].as_py()]
        changes = _frame(table.cast(CHANGES)).filter(pl.col("record_id").is_not_null())
        schema = current_state_schema(self.columns)
        base = _rows(self.filesystem, leaf.files, leaf, schema)
        texts, read_rows = [], []
        if self.snapshot is not None:
            pages = _rows(self.snapshot.filesystem, leaf.pages, leaf, self._read_schema())
            vanished = _vanished(base, pages, self.pin)
            base = baseline(base, pages, self.pin)
            read_rows.append(pl.concat([pages, vanished]).with_columns(read_type=pl.lit("SNAPSHOT")))
            if self.texts.snapshot:
                texts.append(texts_of_reads(pages, self.columns, "snapshot"))
        reads = self._reads(leaf)
        if not reads.is_empty():
            base = apply_reads(base, reads)
            read_rows.append(reads.drop("_refetch").with_columns(read_type=pl.lit("REFETCH")))
            texts.append(texts_of_reads(reads.filter(pl.col("_refetch") > self.texts.refetch), self.columns, "refetch"))
        merged = merge(base, changes, self.columns)
        news = merged.resolved.changes.filter(pl.col("position") > self.texts.after)
        texts.append(texts_of_changes(news, merged.resolved.rebuilt, self.columns))
        rewritten = merged.changed or self.snapshot is not None or not reads.is_empty() or self.all_in_doubt
        rows = _doubted(merged.rows) if self.all_in_doubt else merged.rows
        files = write_leaf(rows, schema, self.filesystem) if rewritten else []
        written_texts = write_texts(pl.concat(texts), self.texts.filesystem)
        told = _told(leaf, rewritten, files, written_texts, merged, changes, reads)
        return pa.Table.from_pylist([told | self._versions(leaf, merged, read_rows)], schema=APPLIED)

    def _versions(self, leaf: Leaf, merged: Merged, read_rows: Sequence[pl.DataFrame]) -> dict[str, object]:
        """Follow the leaf's records in `history` and write its new versions."""
        schema = history_schema(self.columns)
        opened = _rows(self.history, leaf.versions, leaf, schema)
        none = empty_rows(self._read_schema()).with_columns(read_type=pl.lit(None, pl.String))
        reads = pl.concat([none, *read_rows])
        following = next_versions(opened, merged.resolved.changes, reads, self.columns)
        # With a snapshot the leaves are cut anew, so every open version moves to its new leaf.
        rewritten = following.added > 0 or self.snapshot is not None
        open_files = write_leaf(following.open, schema, self.history, OPEN_PREFIX) if rewritten else []
        closed_files = write_leaf(following.closed.sort("Id", "_position"), schema, self.history, CLOSED_PREFIX)
        return {
            "versions_rewritten": rewritten,
            "versions": [vars(file) for file in (*open_files, *closed_files)],
            "versions_added": following.added,
        }

    def _reads(self, leaf: Leaf) -> pl.DataFrame:
        schema = self._read_schema().append(pa.field("_refetch", pa.int64()))
        if self.reads is None or self.reads.after is None:
            return empty_rows(schema)
        rows = _rows(self.reads.filesystem, self.reads.files, leaf, schema)
        # A snapshot that was pinned later has them in it, or tells that the record is gone.
        since = self.pin if self.snapshot is not None else 0
        fresh = (pl.col("_refetch") > self.reads.after) & (pl.col("_position") >= since)
        return rows.filter(fresh).sort("_refetch")

    def _read_schema(self) -> pa.Schema:
        read = [column for column in self.columns if column.name not in self.unread]
        return pa.schema([*arrow_schema(read), *READ_COLUMNS])


def _rows(filesystem: fs.FileSystem, paths: Sequence[str], leaf: Leaf, schema: pa.Schema) -> pl.DataFrame:
    """Rows of the leaf's range in the wanted columns; a column a file lacks reads null."""
    return pl.concat([empty_rows(schema), *_read(filesystem, paths, leaf, schema)])


def _read(filesystem: fs.FileSystem, paths: Sequence[str], leaf: Leaf, schema: pa.Schema) -> Iterator[pl.DataFrame]:
    within = pq.filters_to_expression(leaf.filters)
    for path in paths:
        source = ds.dataset(path, schema=schema, filesystem=filesystem, format="parquet")
        yield _frame(source.to_table(filter=within))


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _vanished(base: pl.DataFrame, pages: pl.DataFrame, pin: int) -> pl.DataFrame:
    """Living rows that a snapshot no longer shows, as reads of what is not there (see `baseline`)."""
    gone = base.join(pages.select("Id"), on="Id", how="anti").filter(
        (pl.col("_position") <= pin) & ~pl.col("_is_deleted")
    )
    read_at = pages["_read_at"].max() if pages.height else None
    marks = {
        "_is_deleted": pl.lit(True),
        "_system_modstamp": pl.lit(None, pl.Datetime("us", "UTC")),
        "_master_record_id": pl.lit(None, pl.String),
        "_position": pl.lit(pin, pl.Int64),
        "_read_at": pl.lit(read_at, pl.Datetime("us", "UTC")),
    }
    return gone.with_columns(**marks).select(pages.columns)


def _doubted(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns((pl.col("_in_doubt") | ~pl.col("_is_deleted")).alias("_in_doubt"))


def _told(
    leaf: Leaf,
    rewritten: bool,
    files: Sequence[WrittenLeaf],
    texts: WrittenLeaf | None,
    merged: Merged,
    changes: pl.DataFrame,
    reads: pl.DataFrame,
) -> dict[str, object]:
    counts = merged.counts
    return {
        "leaf": leaf.number,
        "rewritten": rewritten,
        "files": [vars(file) for file in files],
        "texts": vars(texts) if texts else None,
        "doubts": merged.resolved.doubts.to_dicts(),
        "inserted": counts.inserted,
        "updated": counts.updated,
        "deleted": counts.deleted,
        "waiting": counts.waiting,
        "events": changes.height,
        "read_back": reads.height,
    }
