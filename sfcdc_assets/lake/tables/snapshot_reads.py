"""What a snapshot table has: complete snapshots, records read back one by one, and a snapshot that is being read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.lake.delta.conditions import literal_time
from sfcdc_assets.lake.delta.data_files import DataFile
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.poll_mark import PollMark
from sfcdc_assets.lake.tables.snapshot_checkpoint import SnapshotCheckpoint, entries_of, has_watermark_on
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import utc
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.snapshot.soql import IdWindow

READ_BACK = 0
ASKED_AT = "_asked_at"
"""The column of a row read back that says, by the org's own clock, before when what the org had committed is in it;
null in all other rows, and where that is not known."""
SEEN_UNTIL = "_seen_until"
"""The column of a polled row that says up to when the polls before had seen all changes of the object; null in all
other rows."""


@dataclass(frozen=True)
class CompleteSnapshot:
    """A snapshot all of whose pages are landed: its number, its watermark, the files of its pages, and the last
    read-back before it: readings of one watermark stand in the order in which they were made."""

    number: int
    position: int
    files: tuple[DataFile, ...]
    after_read_back: int = 0

    @property
    def rows(self) -> int:
        """Rows in all pages."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True)
class ReadBackRows:
    """Records read back at one time: the number and the watermark of the reading. `seen_until`: of a poll, what the
    polls before it had seen of the object, UTC."""

    number: int
    position: int
    record_ids: frozenset[str]
    seen_until: datetime | None = None


@dataclass(frozen=True)
class Copied:
    """What a complete snapshot stands for: the channel's events up to `position`, and what the org had committed before
    it was asked, at `asked_at` by the org's own clock; `begun_at` is the same moment by ours."""

    position: int
    asked_at: datetime
    begun_at: datetime


READ_MOMENTS = pa.schema(
    [
        ("Id", pa.string()),
        ("_position", pa.int64()),
        (ASKED_AT, pa.timestamp("us", "UTC")),
        ("_read_at", pa.timestamp("us", "UTC")),
    ]
)
"""Of a record that was read back: the watermark, and when it was asked for, by the org's clock and by ours."""


class SnapshotReads:
    """A handle on one snapshot of the table, for reading."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def checkpoint(self) -> SnapshotCheckpoint:
        """Return what the table remembers, from the log alone."""
        return SnapshotCheckpoint.of(self.table)

    def progress(self) -> SnapshotProgress | None:
        """Return where the newest snapshot stands, None when none was begun."""
        newest = entries_of(self.table).get(self.last_number())
        return newest.progress if newest else None

    def standing(self) -> tuple[int, int, bool] | None:
        """Return the number of the newest snapshot, how many rows were read and whether that is all of them, None when
        none was begun. From the log alone, but while one is read."""
        found = self.checkpoint()
        if found.snapshot and found.whole == found.snapshot:
            return found.whole, found.rows, True
        progress = self.progress()
        return (progress.snapshot_number, progress.rows_done, progress.complete) if progress else None

    def begun_on(self, channel: str) -> bool:
        """Return whether a snapshot that has its watermark in this channel is being read. From the log alone, but while
        one is: that is asked of each entity by each channel whenever events land."""
        found = self.checkpoint()
        if found.whole == found.snapshot:
            return False
        progress = self.progress()
        return progress is not None and not progress.complete and progress.channel == channel

    def last_number(self) -> int:
        """Return the number of the last snapshot that was begun; 0 before the first."""
        return self.table.transaction_version("snapshot") or 0

    def complete_number(self) -> int:
        """Return the number of the newest complete snapshot; 0 before the first."""
        return self.table.transaction_version("complete") or 0

    def watermark(self) -> int:
        """Return its watermark."""
        return self.table.transaction_version("pin") or 0

    def has_watermark_on(self, channel: str) -> bool:
        """Return whether the newest complete snapshot has its watermark on this channel."""
        complete = self.complete_number()
        return complete > 0 and self.table.transaction_version(has_watermark_on(channel)) == complete

    def channel(self) -> str | None:
        """Return the channel that the newest complete snapshot has its watermark on; None before the first."""
        newest = entries_of(self.table).get(self.complete_number())
        return newest.progress.channel if newest else None

    def channel_before(self) -> str | None:
        """Return the channel that fed the entity before that of today; None where it had no other."""
        first, entries = self.checkpoint().first, entries_of(self.table)
        before = [number for number, entry in entries.items() if entry.counts and number < first]
        return entries[max(before)].progress.channel if before else None

    def complete(self) -> CompleteSnapshot | None:
        """Return the newest complete snapshot, None before the first."""
        found = self.checkpoint()
        return self._snapshot(found.complete, found.watermark, found.after_read_back) if found.complete else None

    def all_complete(self) -> tuple[CompleteSnapshot, ...]:
        """Every complete snapshot since the entity has its channel, oldest first; none that was begun and given up."""
        checkpoint, newest = self.checkpoint(), self.complete()
        if newest is None:
            return ()
        if checkpoint.first == newest.number:
            return (newest,)
        before = [
            self._snapshot(entry.number, entry.position, entry.after_read_back)
            for number, entry in sorted(entries_of(self.table).items())
            if entry.counts and checkpoint.first <= number < newest.number
        ]
        return (*before, newest)

    def asked_at(self) -> datetime | None:
        """Return when the newest complete snapshot was asked for, by the org's own clock; from the log alone. None
        where that is not known."""
        asked_at = self.checkpoint().asked_at
        return utc(asked_at) if asked_at else None

    def copies(self) -> tuple[Copied, ...]:
        """Return what each complete snapshot since the entity has its channel stands for, oldest first; those of which
        the org did not say when it was asked are left out."""
        first = self.checkpoint().first
        return tuple(
            Copied(entry.position, utc(entry.progress.asked_at_ms), utc(entry.progress.started_at_ms))
            for number, entry in sorted(entries_of(self.table).items())
            if entry.counts and number >= first and entry.progress.asked_at_ms
        )

    def refused(self) -> int | None:
        """Return the number of the snapshot that was read whole and not believed; None for none, or when a newer one
        counts."""
        checkpoint = self.checkpoint()
        return checkpoint.refused if checkpoint.refused > checkpoint.complete else None

    def last_read_back(self) -> int:
        """Return the number of the last read-back; 0 before the first."""
        return self.table.transaction_version("refetch") or 0

    def read_at(self) -> int:
        """Return when rows were last read into the table, epoch ms by the clock of the process that did."""
        return self.table.transaction_version("read_at") or 0

    def read_backs(self, after: int, watermark_after: int | None = None) -> tuple[ReadBackRows, ...]:
        """Read-backs numbered higher than `after`, or with a watermark after a position, in the order of their
        watermarks."""
        wanted = f"_refetch > {after}"
        if watermark_after is not None:
            wanted = f"({wanted} or _position > {watermark_after})"
        elif after >= self.last_read_back():
            return ()
        rows = self.table.scan(["Id", "_refetch", "_position", SEEN_UNTIL], f"_snapshot = {READ_BACK} and {wanted}")
        found: dict[tuple[int, int], set[str]] = {}
        seen: dict[tuple[int, int], datetime | None] = {}
        for row in rows.to_pylist():
            reading = (row["_position"], row["_refetch"])
            found.setdefault(reading, set()).add(row["Id"])
            seen[reading] = row[SEEN_UNTIL].astimezone(UTC) if row[SEEN_UNTIL] is not None else None
        return tuple(ReadBackRows(each[1], each[0], frozenset(found[each]), seen[each]) for each in sorted(found))

    def read_back_asked_at(self) -> datetime | None:
        """Return when records were last read back, by the org's own clock; from the log alone. None where that is not
        known."""
        asked_at = self.checkpoint().read_back_asked_at
        return utc(asked_at) if asked_at else None

    def read_moments(self, after: datetime) -> pa.Table:
        """Return when records were read back (`READ_MOMENTS`), of readings that the org was asked for after a time by
        its own clock. Polls are none: what they read has no events."""
        if ASKED_AT not in self.table.schema.names:
            return READ_MOMENTS.empty_table()
        wanted = f"_snapshot = {READ_BACK} and {ASKED_AT} > {literal_time(after)}"
        return self.table.scan(READ_MOMENTS.names, wanted).cast(READ_MOMENTS)

    def read_since(self, after: int) -> pa.ChunkedArray:
        """Return when rows were read, one by one or by polls, in read-backs numbered higher than `after`."""
        if after >= self.last_read_back():
            return pa.chunked_array([], pa.timestamp("us", "UTC"))
        return self.table.scan(["_read_at"], f"_snapshot = {READ_BACK} and _refetch > {after}")["_read_at"]

    def poll_mark(self) -> PollMark:
        """Return how far the polls have come that are in the table, from the log alone."""
        return PollMark.of(self.table)

    def read_back_files(self, numbers: Collection[int] | None = None) -> tuple[DataFile, ...]:
        """Files of rows read back, in no order; of `numbers` those that may hold rows of these readings. A polled
        object gets a file with each poll, and a batch reads those of its own."""
        found = self.table.files(_is_of(READ_BACK))
        return found if numbers is None else tuple(file for file in found if _may_hold(file, numbers))

    def highest_position(self) -> int:
        """Return the highest position that the newest complete snapshot and read-backs stand for; 0 when there are
        none."""
        counted = self.read_back_files()
        return max([self.watermark(), *(file.statistics.get("max._position") or 0 for file in counted)])

    def ids_of(self, number: int, window: IdWindow) -> pa.Table:
        """Return the Ids in a window that the landed pages of a snapshot hold, deleted records' too."""
        within = f" and {window.condition}" if window.condition else ""
        return self.table.scan(["Id"], f"_snapshot = {number}{within}")

    def modified(self, number: int, record_ids: Collection[str]) -> pa.Table:
        """`Id` and `_system_modstamp` of the rows that the pages of a snapshot, so far, have of these records."""
        return self.rows(number, record_ids, ["Id", "_system_modstamp"])

    def rows(self, number: int, record_ids: Collection[str], columns: Sequence[str]) -> pa.Table:
        """Return columns of the rows that the pages of a snapshot, so far, have of these records; they are read part by
        part."""
        wanted = pa.array(sorted(record_ids), pa.string())
        found = [
            rows.filter(pc.is_in(rows["Id"], wanted))
            for rows in self.table.batches(list(columns), f"_snapshot = {number}")
        ]
        return pa.concat_tables([self.table.schema.empty_table().select(list(columns)), *found])

    def sample(self, count: int) -> pa.Table:
        """Return a few rows of the newest complete snapshot."""
        complete = self.complete()
        if complete is None:
            return self.table.schema.empty_table()
        return self.table.head(f"_snapshot = {complete.number}", count)

    def _snapshot(self, number: int, position: int, after_read_back: int) -> CompleteSnapshot:
        return CompleteSnapshot(number, position, self.table.files(_is_of(number)), after_read_back)


def _may_hold(file: DataFile, numbers: Collection[int]) -> bool:
    first, last = file.statistics.get("min._refetch"), file.statistics.get("max._refetch")
    return first is None or last is None or any(first <= number <= last for number in numbers)


def _is_of(number: int) -> pl.Expr:
    """Files of a partition, as a condition on what the log says of them."""
    return pl.col("partition._snapshot").cast(pl.String) == str(number)


def first_read_at(warehouse: Warehouse, entity: str) -> datetime | None:
    """Return when the oldest of the entity's snapshots began to be read: what was before is not known. None before the
    first row."""
    table = Table.open(warehouse, f"snapshot/{entity}")
    found = pc.min(table.scan(["_read_at"], f"_snapshot > {READ_BACK}")["_read_at"]).as_py() if table else None
    return found.astimezone(UTC) if found else None
