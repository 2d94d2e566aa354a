"""The course of a leaf's records: events and readings of the org, one after another in the order of the stream.

A reading stands where its pin is: events up to it come before, later ones are applied on top, whatever was there first
when the tables were made. So the rows, versions and texts depend on what was landed alone, and not on the batches in
which it was applied (guarantees 2, 8 and 10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import polars as pl

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.state.baseline import apply_reads, baseline, read_schema
from sfcdc_assets.state.changes import CHANGES
from sfcdc_assets.state.distrust import believed
from sfcdc_assets.state.history import next_versions, versions_as_of
from sfcdc_assets.state.merge import MergeCounts, empty_rows, merge
from sfcdc_assets.state.silent_change import dated_by_reading, silently_changed
from sfcdc_assets.state.text_fields import no_texts, texts_of_changes, texts_of_reads


@dataclass(frozen=True)
class Reading:
    """What was read from the org at one time: a whole snapshot, or records read back.

    Its rows stand for every event up to `position`. `until` is the last event that is applied before it: the same, or
    one before a doubt about the whole entity that the reading answers.
    """

    position: int
    until: int
    snapshot: int = 0
    """Number of the snapshot; 0 for records read back."""
    refetch: int = 0
    """Number of the reading back; 0 for a snapshot."""
    pages: frozenset[str] = frozenset()
    """The snapshot's files."""


@dataclass(frozen=True)
class TextsKnown:
    """What `text_fields` has already: events up to `after`, refetches up to `refetch`, snapshots up to `snapshot`."""

    after: int
    refetch: int
    snapshot: int


class Course:
    """One leaf's records on their way: `rows` of `current_state`; `opened` versions and those `closed` by now; text
    values and doubts that are new; `silent` records of another entity that changed with these rows."""

    def __init__(
        self, columns: Sequence[Column], texts_known: TextsKnown, rows: pl.DataFrame, opened: pl.DataFrame
    ) -> None:
        self._columns = columns
        self._texts_known = texts_known
        self._no_changes = empty_rows(CHANGES)
        self._no_reads = empty_rows(read_schema(columns)).with_columns(read_type=pl.lit(None, pl.String))
        self._texts = [no_texts()]
        self._doubts: list[pl.DataFrame] = []
        self.silent: list[dict[str, object]] = []
        self.rows = rows
        self.opened = opened
        self.closed = opened.clear()
        self.changed = False
        self.versions_added = 0
        self.read_back = 0
        self.counts = MergeCounts()

    def roll_back(self, position: int) -> None:
        """Go back to the versions as they were at `position`; what came after it is followed anew. `opened` holds the
        closed versions after it too."""
        self.opened, self.closed = versions_as_of(self.opened, position)

    def follow(self, changes: pl.DataFrame) -> None:
        """Apply changes (`CHANGES`), all of which come after what was followed before."""
        if changes.is_empty():
            return
        merged = merge(self.rows, changes, self._columns)
        self.silent += silently_changed(self.rows, merged.resolved.changes, merged.rows, self._columns)
        self.rows = merged.rows
        self.changed |= merged.changed
        self.counts = _sum(self.counts, merged.counts)
        self._doubts.append(merged.resolved.doubts)
        news = merged.resolved.changes.filter(pl.col("position") > self._texts_known.after)
        self._texts.append(texts_of_changes(news, merged.resolved.rebuilt, self._columns))
        self._versions(merged.resolved.changes, self._no_reads)

    def put(self, reading: Reading, reads: pl.DataFrame) -> None:
        """Put the rows of a reading (the columns, `READ_COLUMNS`) in place."""
        self.changed = True
        before = self.rows
        if reading.snapshot:
            kind, known = "snapshot", self._texts_known.snapshot >= reading.snapshot
            shown, (reads, doubts) = reads, believed(reads, reading.position)
            self._doubts.append(doubts)
            vanished = _vanished(self.rows, shown, reading.position)
            dated = dated_by_reading(reads, self._told(reading.position), held_too=True)
            self.rows = baseline(self.rows, reads, reading.position, doubts["record_id"].to_list())
            # What a row that is new pointed at before its snapshot does not matter.
            before = pl.concat([before, self.rows.join(before.select("Id"), on="Id", how="anti")])
            seen = pl.concat([dated, vanished])
        else:
            kind, known = "refetch", self._texts_known.refetch >= reading.refetch
            seen = dated_by_reading(reads, self._told(reading.position))
            self.rows = apply_reads(self.rows, reads)
            self.read_back += reads.height
        self.silent += silently_changed(before, self._no_changes, self.rows, self._columns)
        if not known:
            self._texts.append(texts_of_reads(reads, self._columns, kind, before))
        self._versions(self._no_changes, seen.with_columns(read_type=pl.lit(kind.upper())))

    def _told(self, position: int) -> pl.DataFrame:
        """`Id`, `_in_doubt` and `_commit_timestamp` of the records as they were at a position: those that went on since
        (the tables are rolled back then) have it in their versions."""
        later = self.rows.filter(pl.col("_position") > position).select("Id")
        rolled_back = self.opened.join(later, on="Id", how="semi").select(
            "Id", pl.lit(False).alias("_in_doubt"), pl.col("_valid_from").alias("_commit_timestamp")
        )
        return pl.concat([self.rows.join(later, on="Id", how="anti").select(rolled_back.columns), rolled_back])

    def doubt_all(self) -> None:
        """Mark every living row: the entity as a whole is in doubt."""
        self.changed = True
        self.rows = self.rows.with_columns((pl.col("_in_doubt") | ~pl.col("_is_deleted")).alias("_in_doubt"))

    @property
    def new_texts(self) -> pl.DataFrame:
        """Rows of `TEXT_FIELDS` that the table has not."""
        return pl.concat(self._texts)

    @property
    def doubts(self) -> list[dict[str, object]]:
        """What came into doubt, those that a later reading answered too."""
        return [doubt for found in self._doubts for doubt in found.to_dicts()]

    def _versions(self, changes: pl.DataFrame, reads: pl.DataFrame) -> None:
        following = next_versions(self.opened, changes, reads, self._columns)
        self.opened = following.open
        self.closed = pl.concat([self.closed, following.closed])
        self.versions_added += following.added


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
        "_unread": pl.lit(None, pl.List(pl.String)),
    }
    return gone.with_columns(**marks).select(pages.columns)


def _sum(first: MergeCounts, second: MergeCounts) -> MergeCounts:
    return MergeCounts(*(getattr(first, field.name) + getattr(second, field.name) for field in fields(MergeCounts)))
