"""The timeline of a key range's records: events and reads of the org, one after another in the order of the stream.

A read stands where its watermark is: events up to it come before, later ones are applied on top, whatever was there
first when the tables were built. So rows, versions and texts depend on what was landed alone, and not on the batches in
which it was applied (guarantees 2, 8 and 10).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import datetime

import polars as pl

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.key_ranges.frames import empty_rows
from sfcdc_assets.timeline.absent_fields import without_nulls_of_absent
from sfcdc_assets.timeline.changes import CHANGES
from sfcdc_assets.timeline.enrichment import contradictions, without_proof
from sfcdc_assets.timeline.implied_change import SilentChange, after_gaps, dated, hidden_changes, silently_changed
from sfcdc_assets.timeline.known_changes import Known, without_known, without_read
from sfcdc_assets.timeline.large_text import NOTHING_REBUILT
from sfcdc_assets.timeline.read_rows import missing_from, read_schema
from sfcdc_assets.timeline.resolve import resolve, without_late_proof
from sfcdc_assets.timeline.suspect import NewSuspect, Reason
from sfcdc_assets.timeline.suspect_behaviour import UNMARKED
from sfcdc_assets.timeline.text_values import TEXT_FIELDS, texts_of_changes, texts_of_reads
from sfcdc_assets.timeline.untrusted_rows import believed, marked
from sfcdc_assets.timeline.version_columns import STANDS_AT, history_schema
from sfcdc_assets.timeline.versions import extend


@dataclass(frozen=True)
class OrgRead:
    """What was read from the org at one time: a whole snapshot, or records read back.

    Its rows stand for every event up to `position`. `until` is the last event that is applied before it: the same, or
    one before an entry about the whole entity that the reading answers.
    """

    position: int
    until: int
    snapshot: int = 0
    """Number of the snapshot; 0 for records read back."""
    read_back: int = 0
    """Number of the reading back; 0 for a snapshot."""
    pages: frozenset[str] = frozenset()
    """The snapshot's files."""
    seen_until: datetime | None = None
    """The events up to `until` tell of all that was committed by then; None where that is not known."""
    polled: bool = False
    """The object was asked for what changed; it has no events."""
    may_miss: bool = False
    """Anywhere between `until` and `position` changes may have raised no event."""


@dataclass(frozen=True)
class Counts:
    """What became of the records, in records, each counted once: new rows, those that became deleted, and others that
    events or polls changed; rows read back, of polls too; `waiting`: events left for suspect records; `versions`: new
    ones."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    read_back: int = 0
    waiting: int = 0
    versions: int = 0

    @classmethod
    def sum(cls, counts: Iterable[Counts]) -> Counts:
        """All of them together: of different records."""
        return cls(*map(sum, zip(*map(astuple, counts), strict=True)))


class Timeline:
    """One key range's records on their way: `rows` of `current_state`, in no order, the versions `superseded` on it,
    new text values and entries, and `silent` records of another entity that changed with these rows."""

    def __init__(
        self,
        columns: Sequence[Column],
        rows: pl.DataFrame,
        batch: int,
        perhaps_older: frozenset[int] = frozenset(),
        read_already: Sequence[tuple[str, int, int]] = (),
    ) -> None:
        """`batch` is the number of the batch that all of it is written in; `perhaps_older` are positions of events that
        came after a copy of their entity, or a read-back of their record, and were committed shortly before it;
        `read_already` changes that were committed long before a read-back: record, position, watermark of the read."""
        self._columns = columns
        self._batch = batch
        self._perhaps_older = perhaps_older
        self._read_already = read_already
        self._no_changes = empty_rows(CHANGES).with_columns(blocked=pl.lit(False))
        self._no_reads = empty_rows(read_schema(columns)).with_columns(
            read_type=pl.lit(None, pl.String), dated=pl.lit(None, pl.Datetime("us", "UTC"))
        )
        self._superseded = [empty_rows(history_schema(columns))]
        self._texts = [empty_rows(TEXT_FIELDS)]
        self._suspects: list[pl.DataFrame] = []
        self._blocked = empty_rows(CHANGES)
        self.silent: list[SilentChange] = []
        self.rows = rows
        self.changed = False
        self.counts = Counts()

    def roll_back(self, position: int, superseded: pl.DataFrame) -> None:
        """Go back to the versions as they were at `position`; what came after it is followed again.

        `superseded`: rows of `history`, all of those whose version was superseded after `position`.
        """
        before = (pl.col("_position") <= position) & (pl.col("_superseded_at") > position)
        revived = superseded.filter(before).with_columns(
            _in_doubt=pl.lit(False), _read_position=pl.lit(None, pl.Int64), _first_batch=pl.lit(None, pl.Int64)
        )
        read = pl.col("_read_position")
        # A row with its Id alone that stands just before the place is of an event after it, which brings it again.
        is_known = (pl.col("_position") < position) | pl.col("_change_type").is_not_null()
        kept = self.rows.filter((pl.col("_position") <= position) & is_known)
        kept = kept.with_columns(pl.when(read <= position).then(read))
        self.rows = pl.concat([kept, revived.select(kept.columns)])
        self.changed = True

    def take(self, changes: pl.DataFrame, org_reads: Iterable[tuple[OrgRead, pl.DataFrame]], up_to: int) -> None:
        """Take a batch: its readings, in the order of their watermarks, and the changes (`CHANGES`) before, between and
        after them.

        Changes after `up_to` are there only for readings that have their watermark after them, and only those of the
        records that were read are taken: of any other record they wait for their transaction's end (guarantee 5).
        """
        position, left = pl.col("position"), changes
        for org_read, rows in org_reads:
            before = position <= org_read.position
            if org_read.position > up_to and not org_read.snapshot:
                before &= (position <= up_to) | pl.col("record_id").is_in(rows["Id"].implode())
            due, left = left.filter(before), left.filter(~before)
            self.follow(due.filter(position <= org_read.until))
            self.block(due.filter(position > org_read.until))
            self.put(org_read, rows)
        self.follow(left.filter(position <= up_to))

    def follow(self, changes: pl.DataFrame) -> None:
        """Apply changes (`CHANGES`), all of which come after what was followed before."""
        changes = self._news(changes)
        before, known = self.rows, self._known(changes)
        if known is not None:
            changes = known.changes
            self._suspects.append(known.left_out)
        if changes.is_empty():
            return
        resolved = resolve(before, changes, self._columns)
        if known is not None:
            held = known.if_blocked.join(resolved.changes, on="record_id", how="anti")
            self._suspects.append(held)
            blocked = resolved.blocked.join(held, on=["record_id", "position"], how="anti", maintain_order="left")
            resolved = replace(resolved, blocked=blocked)
        self._blocked = pl.concat([self._blocked, resolved.blocked])
        self._suspects.append(resolved.suspects)
        if not (resolved.changes.is_empty() and resolved.suspects.is_empty()):
            self.changed = True
            self._extend(resolved.changes.with_columns(blocked=pl.lit(False)), self._no_reads)
            marks = resolved.suspects.filter(~resolved.suspects["reason"].is_in(_UNMARKED))
            self.rows = marked(self.rows, marks.with_columns(pl.col("position") - 1))
            self._count(before, resolved.changes)
        opened = resolved.suspects.join(resolved.blocked, on=["record_id", "position"], how="semi").height
        self.counts = replace(self.counts, waiting=self.counts.waiting + resolved.blocked.height - opened)
        self.silent += silently_changed(before, resolved.changes, self.rows, self._columns)
        self._texts.append(texts_of_changes(resolved.changes, resolved.rebuilt, self._columns))

    def _news(self, changes: pl.DataFrame) -> pl.DataFrame:
        """Return the changes that no read-back stands for, with what they tell."""
        if self._read_already:
            changes = without_read(self.rows, changes, self._read_already)
        return without_nulls_of_absent(changes, self._columns)

    def _known(self, changes: pl.DataFrame) -> Known | None:
        """Return what reads have shown of the changes; None where none of them may be older than one."""
        return without_known(self.rows, changes, self._perhaps_older) if self._perhaps_older else None

    def block(self, changes: pl.DataFrame) -> None:
        """Block changes that come after an entry about the whole entity: they wait for a read of their record, but for
        those that one has shown already."""
        changes = self._news(changes)
        known = self._known(changes)
        if known is not None:
            shown = pl.concat([known.left_out, known.if_blocked])
            changes = changes.join(shown, on=["record_id", "position"], how="anti", maintain_order="left")
        stands = self.rows.select(pl.col("Id").alias("record_id"), STANDS_AT.alias("stands_at"))
        later = changes.join(stands, on="record_id", how="left", maintain_order="left").filter(
            pl.col("position") > pl.col("stands_at").fill_null(-1)
        )
        self._blocked = pl.concat([self._blocked, later.drop("stands_at")])

    def put(self, org_read: OrgRead, reads: pl.DataFrame) -> None:
        """Put the rows of a reading (the columns, `READ_COLUMNS`) where its watermark is."""
        before, kind = self.rows, "snapshot" if org_read.snapshot else "refetch"
        if org_read.snapshot:
            shown, (reads, untrusted) = reads, believed(reads, org_read.position)
            self._suspects.append(untrusted)
            waiting = self._blocked.select(pl.col("record_id").alias("Id"))
            seen = pl.concat([reads, missing_from(shown, before, waiting, org_read.position)])
        else:
            seen = reads.sort("_position", maintain_order=True)
            self.counts = replace(self.counts, read_back=self.counts.read_back + reads.height)
        seen = self._not_outdated(seen.unique("Id", keep="last", maintain_order=True))
        answered = self._blocked.join(seen.select(pl.col("Id").alias("record_id")), on="record_id", how="semi")
        answered = answered.sort("position", maintain_order=True).unique(["record_id", "position"], maintain_order=True)
        self._blocked = self._blocked.join(answered.select("record_id").unique(), on="record_id", how="anti")
        answered = without_proof(answered, contradictions(before, answered, self._columns))
        answered = without_late_proof(answered, before)
        if org_read.may_miss:
            answered = after_gaps(answered, self._columns)
        lost, ahead = hidden_changes(seen, before, answered, org_read.until, org_read.position, org_read.seen_until)
        self._extend(
            pl.concat([lost, answered, ahead]).with_columns(blocked=pl.lit(True)),
            dated(seen, before, suspects_too=org_read.snapshot > 0).with_columns(
                read_type=pl.lit("POLL" if org_read.polled else kind.upper())
            ),
        )
        self.changed = True
        if org_read.polled:
            self._count(before, seen.select(pl.col("Id").alias("record_id")))
        if org_read.snapshot:
            # No row that the snapshot speaks of is suspect after it, but for those of which it is not believed.
            covered = org_read.position >= STANDS_AT
            freed = self.rows.with_columns((pl.col("_in_doubt") & ~covered).alias("_in_doubt"))
            self.rows = marked(freed, untrusted.with_columns(pl.lit(org_read.until, pl.Int64).alias("position")))
            # What a row that is new pointed at before its snapshot does not matter.
            compared = pl.concat([before, self.rows.join(before.select("Id"), on="Id", how="anti")])
        else:
            compared = before
        self.silent += silently_changed(compared, self._no_changes, self.rows, self._columns)
        self._texts.append(texts_of_changes(answered, NOTHING_REBUILT, self._columns))
        self._texts.append(texts_of_reads(reads, self._columns, kind, before))

    def suspect_before(self, position: int) -> None:
        """Mark every living row that stands before a position, at which the entity as a whole became suspect. A record
        that was read there or later is as it was read."""
        self.changed = True
        concerned = ~pl.col("_is_deleted") & (STANDS_AT.fill_null(0) < position)
        self.rows = self.rows.with_columns((pl.col("_in_doubt") | concerned).alias("_in_doubt"))

    @property
    def superseded(self) -> pl.DataFrame:
        """Rows that `history` gets."""
        return pl.concat(self._superseded)

    @property
    def new_texts(self) -> pl.DataFrame:
        """Rows that `text_fields` gets."""
        return pl.concat(self._texts).with_columns(pl.lit(self._batch, pl.Int64).alias("_batch"))

    @property
    def suspects(self) -> list[NewSuspect]:
        """What became suspect, those that a later reading answered too."""
        return [
            NewSuspect(record_id, Reason(reason), position, detail)
            for found in self._suspects
            for record_id, reason, position, detail in found.select(
                "record_id", "reason", "position", "detail"
            ).iter_rows()
        ]

    def _extend(self, changes: pl.DataFrame, reads: pl.DataFrame) -> None:
        extended = extend(self.rows, changes, reads, self._columns, self._batch)
        self.rows = extended.rows
        self._superseded.append(extended.superseded)
        self.counts = replace(self.counts, versions=self.counts.versions + extended.added)

    def _not_outdated(self, reads: pl.DataFrame) -> pl.DataFrame:
        """Without those that are older than what their row stands for."""
        stands = self.rows.select("Id", STANDS_AT.alias("stands_at"))
        newer = reads.join(stands, on="Id", how="left", maintain_order="left").filter(
            pl.col("stands_at").is_null() | (pl.col("_position") >= pl.col("stands_at"))
        )
        return newer.drop("stands_at")

    def _count(self, before: pl.DataFrame, applied: pl.DataFrame) -> None:
        was = before[["Id", "_is_deleted"]].rename({"_is_deleted": "was_deleted"})
        now = self.rows[["Id", "_is_deleted"]].join(was, on="Id", how="left")
        touched = now.join(applied[["record_id"]], left_on="Id", right_on="record_id", how="semi")
        there, deleted = touched["was_deleted"].drop_nulls().len(), touched.filter(_CAME_TO_BE_DELETED).height
        self.counts = replace(
            self.counts,
            inserted=self.counts.inserted + now["was_deleted"].null_count(),
            updated=self.counts.updated + there - deleted,
            deleted=self.counts.deleted + deleted,
        )


_UNMARKED = sorted(UNMARKED)
_CAME_TO_BE_DELETED = pl.col("_is_deleted") & ~pl.col("was_deleted")
