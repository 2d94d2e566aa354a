"""`snapshot/<Entity>`: rows read from the org as a whole, with a watermark, and rows read back one by one.

Each page and the entry that says how far the reading has come are one commit (`snapshot_checkpoint`), so a killed
snapshot goes on with the page it was at. A snapshot is a partition (`_snapshot` is its number) and counts once it is
complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

import pyarrow as pa

from sfcdc_assets.change_events.columns import HASHED_METADATA, SYSTEM_COLUMN_PREFIX, Column
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.tables.erasure_receipts import (
    NONE,
    ErasedRecords,
    begin_polled_anew,
    erased_records,
    refused_without_a_trace,
    without_erased_companions,
)
from sfcdc_assets.lake.tables.poll_mark import PollMark
from sfcdc_assets.lake.tables.snapshot_checkpoint import (
    ENTRY,
    SnapshotCheckpoint,
    SnapshotEntry,
    entries_of,
    has_watermark_on,
)
from sfcdc_assets.lake.tables.snapshot_reads import ASKED_AT, READ_BACK, SEEN_UNTIL, CompleteSnapshot, SnapshotReads
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import epoch_ms
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.timeline.read_rows import READ_COLUMNS, read_schema
from sfcdc_assets.timeline.untrusted_rows import UntrustedRecord

LAYER = "snapshot"

_ENTRY_FIELD = pa.field(ENTRY, pa.string())

PAGES = "pages"
"""Transaction of every commit of a page: one that was begun before records were erased is refused by it."""

READ_OF_COLUMNS = pa.schema(
    [
        ("_refetch", pa.int64()),
        ("_snapshot", pa.int32()),
        (SEEN_UNTIL, pa.timestamp("us", "UTC")),
        (ASKED_AT, pa.timestamp("us", "UTC")),
        _ENTRY_FIELD,
    ]
)
"""`_snapshot` is the number of the snapshot a row belongs to, 0 for rows read back one by one; those have the number of
their reading in `_refetch`, and when the org was asked in `_asked_at`; polled ones have `_seen_until`. `_entry` is null
but in the rows that say what is known of a snapshot."""


def name_of(entity: str) -> str:
    """Path of the entity's table below the warehouse."""
    return f"{LAYER}/{entity}"


class Snapshots(SnapshotReads):
    """A handle on one snapshot of an entity's snapshot table. What is added has no record that was erased."""

    def __init__(self, table: Table, warehouse: Warehouse | None = None) -> None:
        """`warehouse`: of a handle that is written through."""
        super().__init__(table)
        self._warehouse = warehouse

    @property
    def _entity(self) -> str:
        return self.table.name.removeprefix(f"{LAYER}/")

    @property
    def _erased(self) -> ErasedRecords:
        return erased_records(self._warehouse) if self._warehouse is not None else NONE

    def _without_erased(self, rows: pa.Table) -> pa.Table:
        if self._warehouse is None:
            return rows
        about_others = without_erased_companions(self._warehouse, self._entity, rows)
        return self._erased.without(about_others)

    @classmethod
    def open(cls, warehouse: Warehouse, entity: str) -> Snapshots | None:
        """Return the newest state, None when no snapshot was ever begun."""
        table = Table.open(warehouse, name_of(entity))
        return cls(table, warehouse) if table else None

    @classmethod
    def open_or_create(cls, warehouse: Warehouse, entity: str, columns: Sequence[Column]) -> Snapshots:
        """Return the newest state, created with these columns when there is none."""
        schema = pa.schema([*read_schema(columns), *READ_OF_COLUMNS])
        table = Table.open_or_create(
            warehouse,
            name_of(entity),
            schema,
            partition_by=["_snapshot"],
            statistics_on=["Id", "_position", "_refetch", ASKED_AT],
        )
        return cls(table, warehouse)

    def go_on_from(self, number: int, read_back: int) -> None:
        """Let the numbers of a new table follow those of the one whose place it will take."""
        self._commit([], replace(self.checkpoint(), snapshot=number, read_back=read_back))

    def versions(self, channel: str) -> dict[str, int]:
        """Return the transaction versions of a table with one complete snapshot, whose watermark lies on the
        channel."""
        checkpoint = self.checkpoint()
        return checkpoint.versions() | {has_watermark_on(channel): checkpoint.complete}

    def begin(self, progress: SnapshotProgress) -> None:
        """Note the watermark and the job before the first page is read.

        Raises `ConcurrentCommit` where a snapshot with its number was begun already: by another process, after this one
        had looked and before it opened the table. Rows of two readings under one number would count twice.
        """
        if self.last_number() >= progress.snapshot_number:
            raise ConcurrentCommit(self.table.name, f"snapshot {progress.snapshot_number} was begun meanwhile")
        checkpoint = replace(self.checkpoint(), snapshot=progress.snapshot_number)
        self._commit([SnapshotEntry(progress).row(self.table.schema)], checkpoint)

    def add_page(
        self,
        page: pa.Table,
        progress: SnapshotProgress,
        now_ms: int,
        untrusted: Sequence[UntrustedRecord] = (),
        *,
        believed: bool = True,
    ) -> None:
        """Add one page, read up to `now_ms`, and the progress after it, in one commit; with the records whose rows, in
        this page or an earlier one, are not believed. With the last one the snapshot counts, unless it is not
        `believed` as a whole: then it waits for `accept`."""
        page = self._without_erased(page)
        erased = self._erased
        rows = page.append_column("_snapshot", pa.repeat(pa.scalar(progress.snapshot_number, pa.int32()), len(page)))
        rows = rows.append_column("_position", pa.repeat(pa.scalar(progress.position, pa.int64()), len(page)))
        started = pa.scalar(progress.started_at_ms * 1000, pa.int64()).cast(pa.timestamp("us", "UTC"))
        rows = rows.append_column("_read_at", pa.repeat(started, len(page)))
        rows = rows.append_column("_refetch", pa.nulls(len(page), pa.int64()))
        unread = sorted(self._columns() - set(progress.fields)) or None
        rows = rows.append_column("_unread", pa.array([unread] * len(page), READ_COLUMNS.field("_unread").type))
        rows = rows.append_column(READ_OF_COLUMNS.field(SEEN_UNTIL), pa.nulls(len(page), pa.timestamp("us", "UTC")))
        rows = rows.append_column(_ENTRY_FIELD, pa.nulls(len(page), pa.string()))
        marks = [
            {
                "Id": each.record_id,
                "_snapshot": progress.snapshot_number,
                "_position": progress.position,
                "_read_at": started.as_py(),
                "_unread": each.unread,
            }
            for each in untrusted
            if not erased.keeps_out(each.record_id)
        ]
        if marks:
            rows = pa.concat_tables([rows, pa.Table.from_pylist(marks, schema=rows.schema)]).sort_by("Id")
        checkpoint, entry = self.checkpoint(), SnapshotEntry(progress)
        if progress.complete:
            entry = replace(entry, counts=believed, after_read_back=checkpoint.read_back)
            checkpoint = replace(checkpoint, whole=entry.number, rows=progress.rows_done)
        if entry.counts:
            self._count(entry, checkpoint, now_ms, [rows])
        else:
            refused = entry.number if progress.complete else checkpoint.refused
            self._commit([rows, entry.row(self.table.schema)], replace(checkpoint, refused=refused))

    def accept(self, channel: str, now_ms: int) -> CompleteSnapshot | None:
        """Let the snapshot that was not believed, taken at a watermark of `channel`, count; None when there is none."""
        number = self.refused()
        if number is None:
            return None
        self._count(replace(entries_of(self.table)[number], counts=True), self.checkpoint(), now_ms, [], channel)
        return self.complete()

    def add_read_back(self, rows: pa.Table, now_ms: int, asked_at: datetime | None = None) -> int:
        """Rows read back up to `now_ms` (Id, columns, `READ_COLUMNS`); returns the number of the read-back they are.
        `asked_at`: before they were read, by the org's own clock, UTC."""
        moment = {"read_back_asked_at": epoch_ms(asked_at)} if asked_at is not None else {}
        return self._add_reading(rows, now_ms, None, moment, asked_at)

    def add_poll(self, rows: pa.Table, now_ms: int, mark: PollMark, seen_until: datetime) -> int:
        """Add rows that a poll has read (as for `add_read_back`), and how far it has come, in one commit; returns the
        number of the read-back they are. `seen_until`: what the polls before had seen, UTC.

        Raises `ConcurrentCommit` where another process has polled the object since this handle was opened: what it read
        may be newer.
        """
        if self._warehouse is not None:
            begin_polled_anew(self._warehouse, self._entity, rows)
        return self._add_reading(rows, now_ms, seen_until, mark.versions())

    def take_over_read_backs(self, present: SnapshotReads) -> None:
        """Add what was read back into the table in whose place this one will be, since that, under the numbers that it
        has there. A column that is not the same there counts as not read."""
        after, last = self.last_read_back(), present.last_read_back()
        if last <= after:
            return
        rows = present.table.scan(None, f"_snapshot = {READ_BACK} and _refetch > {after}")
        differing = sorted(name for name in self._columns() if _is_other(self.table.schema, present.table.schema, name))
        if differing:
            rows = rows.drop_columns([name for name in differing if name in rows.column_names])
            unread = [sorted({*(each or []), *differing}) for each in rows["_unread"].to_pylist()]
            place = rows.schema.get_field_index("_unread")
            rows = rows.set_column(place, rows.schema.field(place), pa.array(unread, rows.schema.field(place).type))
        kept = rows.select([name for name in rows.column_names if name in self.table.schema.names])
        whole = pa.concat_tables([self.table.schema.empty_table(), kept], promote_options="default")
        versions = {"refetch": last, "read_at": present.read_at()}
        asked_at = present.read_back_asked_at()
        if asked_at is not None:
            versions["read_back_asked_at"] = epoch_ms(asked_at)
        self._append(self._without_erased(whole), versions)

    def _add_reading(
        self,
        rows: pa.Table,
        now_ms: int,
        seen_until: datetime | None,
        versions: Mapping[str, int],
        asked_at: datetime | None = None,
    ) -> int:
        rows = self._without_erased(rows)
        # A table of an earlier release has no column for it.
        self.table.add_columns([each for each in READ_OF_COLUMNS if each.name not in self.table.schema.names])
        number, count = self.last_read_back() + 1, len(rows)
        rows = rows.append_column("_refetch", pa.repeat(pa.scalar(number, pa.int64()), count))
        rows = rows.append_column("_snapshot", pa.repeat(pa.scalar(READ_BACK, pa.int32()), count))
        for name, moment in ((SEEN_UNTIL, seen_until), (ASKED_AT, asked_at)):
            column = READ_OF_COLUMNS.field(name)
            rows = rows.append_column(column, pa.repeat(pa.scalar(moment, column.type), count))
        rows = rows.append_column(_ENTRY_FIELD, pa.nulls(count, pa.string()))
        self._append(rows, {"refetch": number, "read_at": now_ms, **versions})
        return number

    def _columns(self) -> set[str]:
        return {name for name in self.table.schema.names if not name.startswith(SYSTEM_COLUMN_PREFIX)}

    def _count(
        self,
        entry: SnapshotEntry,
        checkpoint: SnapshotCheckpoint,
        now_ms: int,
        rows: Sequence[pa.Table],
        channel: str | None = None,
    ) -> None:
        """Commit rows; with them the snapshot counts."""
        of_channel = channel or entry.progress.channel
        counted = replace(
            checkpoint,
            complete=entry.number,
            watermark=entry.position,
            asked_at=entry.progress.asked_at_ms or 0,
            after_read_back=entry.after_read_back,
            first=checkpoint.first if self.has_watermark_on(of_channel) else entry.number,
            read_at=now_ms,
        )
        self._commit([*rows, entry.row(self.table.schema)], counted, {has_watermark_on(of_channel): entry.number})

    def _commit(
        self,
        rows: Sequence[pa.Table],
        checkpoint: SnapshotCheckpoint,
        beside: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Commit what is new of the checkpoint: a read-back beside a snapshot that is being read is no conflict."""
        every = pa.concat_tables([self.table.schema.empty_table(), *rows], promote_options="default")
        self._append(every, {PAGES: 0, **checkpoint.news_since(self.checkpoint()), **beside})

    def _append(self, rows: pa.Table, versions: Mapping[str, int]) -> None:
        if self._warehouse is None:
            self.table.append(rows, versions, {})
            return
        with refused_without_a_trace(self._warehouse, self.table.name, "Id"):
            self.table.append(rows, versions, {})


def _is_other(table: pa.Schema, present: pa.Schema, name: str) -> bool:
    """Return whether values of a column of `present` are not those that the column of the table has."""
    if name not in present.names:
        return True
    ours, theirs = table.field(name), present.field(name)
    keys = [(each.metadata or {}).get(HASHED_METADATA) for each in (ours, theirs)]
    return ours.type != theirs.type or keys[0] != keys[1]
