"""What one key range's task does: read its rows, follow its records through their timeline, write, and report.

It runs in a Spark worker and does its own file I/O; the driver commits what it reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from sfcdc_assets.apply.applied import Applied
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.key_ranges.data_file import WrittenKeyRange, rows_of_files, rows_where, write_files
from sfcdc_assets.key_ranges.frames import arrow_frame, empty_rows
from sfcdc_assets.key_ranges.key_ranges import KeyRange
from sfcdc_assets.key_ranges.range_rows import RangeRows, RowCounts, is_within
from sfcdc_assets.timeline.changes import CHANGES
from sfcdc_assets.timeline.implied_change import SilentChange
from sfcdc_assets.timeline.read_rows import read_schema
from sfcdc_assets.timeline.suspect import NewSuspect
from sfcdc_assets.timeline.text_values import TEXT_FIELDS
from sfcdc_assets.timeline.timeline import Counts, OrgRead, Timeline
from sfcdc_assets.timeline.version_columns import current_state_schema, history_schema
from sfcdc_assets.timeline.versions import with_batches

FOLLOWED_CELLS = 1_000_000
"""Values that changes have after them, over all columns, of the records that are followed at once: for a moment each
takes some 200 bytes. A backlog has many changes in few records, so that it is not the rows that fill the memory."""
_ONE_TEXT = ["record_id", "field", "position", "origin", "sha256"]
"""Rows of `text_fields` that agree in these say the same."""


@dataclass(frozen=True)
class KeyRangeTask:
    """What the tasks of one batch need beside their changes; pickled to the workers."""

    columns: tuple[Column, ...]
    key_ranges: tuple[KeyRange, ...]
    batch: int
    """Number of the batch."""
    filesystem: fs.FileSystem
    """Rooted at the table."""
    texts: fs.FileSystem
    """Rooted at the entity's text values."""
    history: fs.FileSystem
    """Rooted at the entity's history."""
    reads: fs.FileSystem
    """Rooted at the entity's snapshot table."""
    org_reads: tuple[OrgRead, ...] = ()
    """What was read from the org and is not in the table yet, in the order of its watermarks."""
    read_back_taken: tuple[str, ...] = ()
    """Files that hold rows read back."""
    texts_known: tuple[str, ...] = ()
    """Files of `texts` that may hold rows of earlier reads with the same watermarks."""
    up_to: int = 0
    """The last position that is applied; events after it are there only for readings that have their watermark after
    them."""
    waiting: tuple[tuple[int, int], ...] = ()
    """Spans of the stream in which events wait, or waited, for a snapshot (`reads_in_order.waiting_spans`)."""
    perhaps_older: frozenset[int] = frozenset()
    """Positions of events that may be older than a read before them."""
    read_already: tuple[tuple[str, int, int], ...] = ()
    """Changes that a read-back of their record stands for though they come after it (`OlderEvents.of_records`)."""
    roll_back_to: int | None = None
    """Versions after this position are followed again: a snapshot is put in before them."""
    token: str = ""
    """Begins the names of the files that the attempt writes."""
    suspect_before: int | None = None
    """Where the whole entity became suspect: every living row that stands before it is marked."""
    piece_bytes: int | None = None
    """Of the files that take the place of one of which few rows are changed (`write_files`); None: none is smaller."""

    def run(self, table: pa.Table) -> Applied:
        """Work on the key range that all of the table's changes (`CHANGES`) belong to."""
        by_number = {key_range.number: key_range for key_range in self.key_ranges}
        key_range = by_number[table.column("key_range")[0].as_py()]
        changes = arrow_frame(table.cast(CHANGES)).filter(pl.col("record_id").is_not_null())
        schema = current_state_schema(self.columns)
        reads = list(self._org_reads(key_range))
        concerned = self._concerned(changes, reads)
        parts = [_Part.read(self.filesystem, each, schema, concerned) for each in key_range.parts(concerned)]
        taken = pl.concat([empty_rows(schema), *(part.taken for part in parts)], rechunk=False)
        some = followed_at_once(key_range, changes["record_id"], max(1, FOLLOWED_CELLS // len(self.columns)))
        if len(some) == 1:
            return self._written(key_range, parts, [self._followed(key_range, taken, changes, reads)])
        return self._written(key_range, parts, [self._part_followed(each, taken, changes, reads) for each in some])

    def _part_followed(
        self,
        part: KeyRange,
        taken: pl.DataFrame,
        changes: pl.DataFrame,
        reads: Sequence[tuple[OrgRead, pl.DataFrame]],
    ) -> _Followed:
        """Follow those of a part of the key range. Their rows keep their own texts alone: as polars has filtered them
        they would go on holding those of all versions."""
        within = is_within(part)
        found = self._followed(
            part,
            taken.filter(within),
            changes.filter(is_within(part, "record_id")),
            [(org_read, read.filter(within)) for org_read, read in reads],
        )
        return replace(found, rows=arrow_frame(found.rows.to_arrow().cast(current_state_schema(self.columns))))

    def _followed(
        self,
        key_range: KeyRange,
        taken: pl.DataFrame,
        changes: pl.DataFrame,
        reads: Sequence[tuple[OrgRead, pl.DataFrame]],
    ) -> _Followed:
        """Follow the records, and write what is not held until the task's end."""
        timeline = Timeline(self.columns, taken, self.batch, self.perhaps_older, self.read_already)
        if self.roll_back_to is not None:
            superseded = read_rows(self.history, key_range.versions, key_range, history_schema(self.columns))
            timeline.roll_back(self.roll_back_to, superseded)
        timeline.take(changes, reads, self.up_to)
        if self.suspect_before is not None:
            timeline.suspect_before(self.suspect_before)
        versions = timeline.superseded.sort("Id", "_position").to_arrow().cast(history_schema(self.columns))
        texts = self._once(timeline.new_texts, key_range).sort("record_id", "position").to_arrow().cast(TEXT_FIELDS)
        return _Followed(
            with_batches(taken, timeline.rows, self.batch),
            timeline.changed,
            write_files(versions, self.history, self.token),
            write_files(texts, self.texts, self.token),
            timeline.suspects,
            timeline.silent,
            timeline.counts,
        )

    def _org_reads(self, key_range: KeyRange) -> Iterator[tuple[OrgRead, pl.DataFrame]]:
        """Each reading that has rows in the key range, and every snapshot: what it does not show is gone."""
        schema = read_schema(self.columns).append(pa.field("_refetch", pa.int64()))
        files = self.read_back_taken if any(org_read.read_back for org_read in self.org_reads) else ()
        read_backs = read_rows(self.reads, files, key_range, schema).partition_by("_refetch", as_dict=True)
        for org_read in self.org_reads:
            if org_read.snapshot:
                pages = [page for page in key_range.pages if page in org_read.pages]
                yield org_read, read_rows(self.reads, pages, key_range, schema).drop("_refetch")
            elif (org_read.read_back,) in read_backs:
                yield org_read, read_backs[(org_read.read_back,)].drop("_refetch")

    def _concerned(self, changes: pl.DataFrame, reads: Sequence[tuple[OrgRead, pl.DataFrame]]) -> pl.Series | None:
        """Ids of the records that the batch may change; None for all of them."""
        everything = self.roll_back_to is not None or self.suspect_before is not None
        if everything or any(org_read.snapshot for org_read, _ in reads):
            return None
        return pl.concat([changes["record_id"], *(read["Id"] for _, read in reads)]).unique()

    def _written(self, key_range: KeyRange, parts: Sequence[_Part], followed: Sequence[_Followed]) -> Applied:
        # With a snapshot the key ranges are cut again, so every row moves to its new key range.
        moves = key_range.is_cut or any(org_read.snapshot for org_read in self.org_reads)
        rewritten = parts if moves or any(each.changed for each in followed) else ()
        rows = pl.concat([each.rows for each in followed])
        kept = [part.put_back(rows) for part in rewritten]
        files = [
            file
            for part, rows_of_part in zip(rewritten, kept, strict=True)
            for file in write_files(rows_of_part, self.filesystem, self.token, self.piece_bytes, part.taken.height)
        ]
        return Applied(
            key_range.number,
            tuple(path for part in rewritten for path in part.key_range.files),
            tuple(files),
            tuple(file for each in followed for file in each.superseded),
            tuple(file for each in followed for file in each.texts),
            tuple(suspect for each in followed for suspect in each.suspects),
            tuple(silent for each in followed for silent in each.silent),
            RowCounts.sum(part.rows.counts for part in rewritten),
            RowCounts.sum(RowCounts.of(rows) for rows in kept),
            Counts.sum(each.counts for each in followed),
        )

    def _once(self, new_texts: pl.DataFrame, key_range: KeyRange) -> pl.DataFrame:
        """Without the texts that an earlier read with the same watermark has shown, in this batch or before it."""
        if not self.org_reads or new_texts.is_empty():
            return new_texts
        new_texts = new_texts.unique(_ONE_TEXT, keep="first", maintain_order=True)
        if not self.texts_known:
            return new_texts
        watermarks = [read.position for read in self.org_reads]
        if self.roll_back_to is not None:  # what came after it is removed with this batch
            watermarks = [position for position in watermarks if position <= self.roll_back_to]
        source = rows_of_files(list(self.texts_known), TEXT_FIELDS, self.texts)
        within = pq.filters_to_expression([("record_id", *rest) for _, *rest in key_range.filters])
        known = rows_where(source, within & pc.field("position").isin(watermarks), _ONE_TEXT)
        shown = pa.Table.from_batches(known, pa.schema([TEXT_FIELDS.field(name) for name in _ONE_TEXT]))
        return new_texts.join(arrow_frame(shown), on=_ONE_TEXT, how="anti", nulls_equal=True, maintain_order="left")


def followed_at_once(key_range: KeyRange, record_ids: pl.Series, most: int) -> list[KeyRange]:
    """Return the key range in parts of about so many changes at most, by their records' Ids: one for few changes. All
    changes of a record lie in one part, however many they are."""
    cuts = record_ids.sort().gather_every(most, most).unique().sort() if record_ids.len() > most else ()
    lowers = [key_range.lower, *(cut for cut in cuts if cut > key_range.lower)]
    return [
        replace(key_range, lower=lower, upper=upper)
        for lower, upper in zip(lowers, [*lowers[1:], key_range.upper], strict=True)
    ]


@dataclass(frozen=True)
class _Followed:
    """What became of records: their rows, files for `history` and `text_fields`, entries, and counts."""

    rows: pl.DataFrame
    changed: bool
    superseded: Sequence[WrittenKeyRange]
    texts: Sequence[WrittenKeyRange]
    suspects: Sequence[NewSuspect]
    silent: Sequence[SilentChange]
    counts: Counts


@dataclass(frozen=True)
class _Part:
    """Neighbouring files of a key range, their rows, and those of them that the batch concerns."""

    key_range: KeyRange
    rows: RangeRows
    taken: pl.DataFrame

    @classmethod
    def read(
        cls, filesystem: fs.FileSystem, key_range: KeyRange, schema: pa.Schema, concerned: pl.Series | None
    ) -> _Part:
        rows = RangeRows.read(filesystem, key_range, schema)
        return cls(key_range, rows, rows.take(concerned))

    def put_back(self, rows: pl.DataFrame) -> pa.Table:
        """All rows of the part after the batch: those of `rows` that lie within it, among the others."""
        return self.rows.put_back(rows.filter(is_within(self.key_range)))


def read_rows(filesystem: fs.FileSystem, paths: Sequence[str], key_range: KeyRange, schema: pa.Schema) -> pl.DataFrame:
    """Rows of the key range's range in the wanted columns; a column a file lacks reads null."""
    return pl.concat([empty_rows(schema), *_read(filesystem, paths, key_range, schema)])


def _read(
    filesystem: fs.FileSystem, paths: Sequence[str], key_range: KeyRange, schema: pa.Schema
) -> Iterator[pl.DataFrame]:
    within = pq.filters_to_expression(key_range.filters)
    for path in paths:
        yield arrow_frame(pa.Table.from_batches(rows_where(rows_of_files([path], schema, filesystem), within), schema))
