"""`snapshot/<Entity>`: rows read from the org as a whole, with a position as its watermark, with how far the reading
has come.

Each page and the progress after it are one commit, so a killed snapshot goes on with the page it was at. A snapshot is
a partition (`_snapshot` is its number) and counts once it is complete.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.columns import SYSTEM_COLUMN_PREFIX, Column
from sfcdc_assets.lake.table import DataFile, Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.snapshot.soql import IdWindow
from sfcdc_assets.state.distrust import Distrusted
from sfcdc_assets.state.read_rows import READ_COLUMNS, read_schema

LAYER = "snapshot"

READ_OF_COLUMNS = pa.schema([("_refetch", pa.int64()), ("_snapshot", pa.int32())])
"""`_snapshot` is the number of the snapshot a row belongs to, 0 for rows read back one by one; those have the number of
their reading in `_refetch`."""

READ_BACK = 0
REFUSED = "refused"
"""Number of the last snapshot that was not believed."""
FIRST = "first"
"""Number of the first snapshot that has its watermark in the channel of today."""


def name_of(entity: str) -> str:
    """Path of the entity's table below the warehouse."""
    return f"{LAYER}/{entity}"


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
class ReadBack:
    """Records read back at one time: the number and the watermark of the reading."""

    number: int
    position: int
    record_ids: frozenset[str]


class Snapshots:
    """A handle on one snapshot of an entity's snapshot table."""

    def __init__(self, table: Table) -> None:
        self.table = table

    @classmethod
    def open(cls, warehouse: Warehouse, entity: str) -> Snapshots | None:
        """The newest state, None when no snapshot was ever begun."""
        table = Table.open(warehouse, name_of(entity))
        return cls(table) if table else None

    @classmethod
    def open_or_create(cls, warehouse: Warehouse, entity: str, columns: Sequence[Column]) -> Snapshots:
        """The newest state, created with these columns when there is none."""
        schema = pa.schema([*read_schema(columns), *READ_OF_COLUMNS])
        table = Table.open_or_create(
            warehouse,
            name_of(entity),
            schema,
            partition_by=["_snapshot"],
            statistics_on=["Id", "_position", "_refetch"],
        )
        return cls(table)

    def progress(self) -> SnapshotProgress | None:
        """Where the newest snapshot stands, None when none was begun."""
        noted = self.table.latest_metadata("progress")
        return SnapshotProgress.from_json(json.loads(noted)) if noted else None

    def last_number(self) -> int:
        """Number of the last snapshot that was begun; 0 before the first."""
        return self.table.transaction_version("snapshot") or 0

    def go_on_from(self, number: int, read_back: int) -> None:
        """Let the numbers of a new table follow those of the one whose place it will take."""
        self.table.append(self.table.schema.empty_table(), {"snapshot": number, "refetch": read_back}, {})

    def memory(self, channel: str) -> tuple[dict[str, int], dict[str, str]]:
        """All that a table with one complete snapshot, with a watermark on the channel, remembers: transaction versions
        and metadata."""
        number = self.last_number()
        names = ["snapshot", "refetch", "read_at", "complete", "pin", FIRST, _watermark_on(channel)]
        names += [_watermark_of(number), _after_read_back(number)]
        progress = self.table.latest_metadata("progress")
        versions = {name: self.table.transaction_version(name) or 0 for name in names}
        return versions, {"progress": progress} if progress else {}

    def begin(self, progress: SnapshotProgress) -> None:
        """Note the watermark and the job before the first page is read."""
        self._commit(self.table.schema.empty_table(), progress, progress.started_at_ms)

    def add_page(
        self,
        page: pa.Table,
        progress: SnapshotProgress,
        now_ms: int,
        distrusted: Sequence[Distrusted] = (),
        *,
        believed: bool = True,
    ) -> None:
        """One page, read up to `now_ms`, and the progress after it, in one commit; with the records whose rows, in this
        page or an earlier one, are not believed. With the last one the snapshot counts, unless it is not `believed` as
        a whole: then it waits for `accept`."""
        rows = page.append_column("_snapshot", pa.repeat(pa.scalar(progress.snapshot_number, pa.int32()), len(page)))
        rows = rows.append_column("_position", pa.repeat(pa.scalar(progress.position, pa.int64()), len(page)))
        started = pa.scalar(progress.started_at_ms * 1000, pa.int64()).cast(pa.timestamp("us", "UTC"))
        rows = rows.append_column("_read_at", pa.repeat(started, len(page)))
        rows = rows.append_column("_refetch", pa.nulls(len(page), pa.int64()))
        unread = sorted(self._columns() - set(progress.fields)) or None
        rows = rows.append_column("_unread", pa.array([unread] * len(page), READ_COLUMNS.field("_unread").type))
        marks = [
            {
                "Id": each.record_id,
                "_snapshot": progress.snapshot_number,
                "_position": progress.position,
                "_read_at": started.as_py(),
                "_unread": each.unread,
            }
            for each in distrusted
        ]
        if marks:
            rows = pa.concat_tables([rows, pa.Table.from_pylist(marks, schema=rows.schema)]).sort_by("Id")
        self._commit(rows, progress, now_ms, believed)

    def accept(self, channel: str, now_ms: int) -> CompleteSnapshot | None:
        """Let the snapshot that was not believed, taken at a watermark of `channel`, count; None when there is none."""
        number = self.refused()
        if number is None:
            return None
        position = self.table.transaction_version(_refused_watermark_of(number)) or 0
        self.table.append(self.table.schema.empty_table(), self._counts(number, position, channel, now_ms), {})
        return self.complete()

    def refused(self) -> int | None:
        """Number of the snapshot that was read whole and not believed; None for none, or when a newer one counts."""
        number = self.table.transaction_version(REFUSED)
        complete = self.table.transaction_version("complete") or 0
        return number if number is not None and number > complete else None

    def ids_of(self, number: int, window: IdWindow) -> pa.Table:
        """The Ids in a window that the landed pages of a snapshot hold, deleted records' too."""
        within = f" and {window.condition}" if window.condition else ""
        return self.table.scan(["Id"], f"_snapshot = {number}{within}")

    def modified(self, number: int, record_ids: Collection[str]) -> pa.Table:
        """`Id` and `_system_modstamp` of the rows that the pages of a snapshot, so far, have of these records; they
        are read part by part."""
        wanted = pa.array(sorted(record_ids), pa.string())
        columns = ["Id", "_system_modstamp"]
        found = [
            rows.filter(pc.is_in(rows["Id"], wanted)) for rows in self.table.batches(columns, f"_snapshot = {number}")
        ]
        return pa.concat_tables([self.table.schema.empty_table().select(columns), *found])

    def add_read_back(self, rows: pa.Table, now_ms: int) -> int:
        """Rows read back up to `now_ms` (Id, columns, `READ_COLUMNS`); returns the number of the read-back they are."""
        number = (self.table.transaction_version("refetch") or 0) + 1
        rows = rows.append_column("_refetch", pa.repeat(pa.scalar(number, pa.int64()), len(rows)))
        rows = rows.append_column("_snapshot", pa.repeat(pa.scalar(READ_BACK, pa.int32()), len(rows)))
        self.table.append(rows, {"refetch": number, "read_at": now_ms}, {})
        return number

    def read_at(self) -> int:
        """When rows were last read into the table, epoch ms by the clock of the process that did."""
        return self.table.transaction_version("read_at") or 0

    def last_read_back(self) -> int:
        """Number of the last read-back; 0 before the first."""
        return self.table.transaction_version("refetch") or 0

    def read_backs(self, after: int, watermark_after: int | None = None) -> tuple[ReadBack, ...]:
        """Read-backs numbered higher than `after`, or with a watermark after a position, in the order of their
        watermarks."""
        wanted = f"_refetch > {after}"
        if watermark_after is not None:
            wanted = f"({wanted} or _position > {watermark_after})"
        elif after >= self.last_read_back():
            return ()
        rows = self.table.scan(["Id", "_refetch", "_position"], f"_snapshot = {READ_BACK} and {wanted}")
        found: dict[tuple[int, int], set[str]] = {}
        for row in rows.to_pylist():
            found.setdefault((row["_position"], row["_refetch"]), set()).add(row["Id"])
        return tuple(
            ReadBack(number, watermark, frozenset(found[watermark, number])) for watermark, number in sorted(found)
        )

    def read_back_files(self) -> tuple[DataFile, ...]:
        """Files of rows read back, in no order."""
        return tuple(file for file in self.table.files() if _is_of(file, READ_BACK))

    def has_watermark_on(self, channel: str) -> bool:
        """Whether the newest complete snapshot has its watermark in this channel."""
        complete = self.table.transaction_version("complete")
        if complete is None:
            return False
        noted = self.table.transaction_version(_watermark_on(channel))
        if noted is not None:
            return noted == complete
        progress = self.progress()  # a snapshot that an earlier version of this package took
        return progress is not None and (progress.snapshot_number, progress.channel) == (complete, channel)

    def begun_on(self, channel: str) -> bool:
        """Whether a snapshot that has its watermark in this channel is being read."""
        progress = self.progress()
        return progress is not None and not progress.complete and progress.channel == channel

    def highest_position(self) -> int:
        """The highest position that the newest complete snapshot and read-backs stand for; 0 when there are none."""
        counted = self.read_back_files()
        watermark = self.table.transaction_version("pin") or 0
        return max([watermark, *(file.statistics.get("max._position") or 0 for file in counted)])

    def complete(self) -> CompleteSnapshot | None:
        """The newest complete snapshot, None before the first."""
        number = self.table.transaction_version("complete")
        return self._snapshot(number, self.table.transaction_version("pin") or 0) if number is not None else None

    def all_complete(self) -> tuple[CompleteSnapshot, ...]:
        """Every complete snapshot since the entity has its channel, oldest first; none that was begun and given up."""
        newest = self.complete()
        if newest is None:
            return ()
        first = self.table.transaction_version(FIRST) or 1
        watermarks = [
            (number, self.table.transaction_version(_watermark_of(number))) for number in range(first, newest.number)
        ]
        return (
            *(self._snapshot(number, watermark) for number, watermark in watermarks if watermark is not None),
            newest,
        )

    def _snapshot(self, number: int, position: int) -> CompleteSnapshot:
        files = tuple(file for file in self.table.files() if _is_of(file, number))
        return CompleteSnapshot(number, position, files, self.table.transaction_version(_after_read_back(number)) or 0)

    def sample(self, count: int) -> pa.Table:
        """A few rows of the newest complete snapshot."""
        complete = self.complete()
        if complete is None:
            return self.table.schema.empty_table()
        return self.table.head(f"_snapshot = {complete.number}", count)

    def _columns(self) -> set[str]:
        return {name for name in self.table.schema.names if not name.startswith(SYSTEM_COLUMN_PREFIX)}

    def _commit(self, rows: pa.Table, progress: SnapshotProgress, now_ms: int, believed: bool = True) -> None:
        number, position, channel = progress.snapshot_number, progress.position, progress.channel
        versions = {"snapshot": number}
        if progress.complete and believed:
            versions |= self._counts(number, position, channel, now_ms)
        elif progress.complete:
            versions |= {
                REFUSED: number,
                _refused_watermark_of(number): position,
                _after_read_back(number): self.last_read_back(),
            }
        self.table.append(rows, versions, {"progress": json.dumps(progress.to_json())})

    def _counts(self, number: int, position: int, channel: str, now_ms: int) -> dict[str, int]:
        """The transaction versions with which a snapshot counts from now on."""
        read_before = self.table.transaction_version(_after_read_back(number))
        versions = {
            "complete": number,
            "pin": position,
            _watermark_of(number): position,
            _after_read_back(number): self.last_read_back() if read_before is None else read_before,
            _watermark_on(channel): number,
            "read_at": now_ms,
        }
        return versions if self.has_watermark_on(channel) else {FIRST: number, **versions}


def _watermark_of(number: int) -> str:
    return f"pin#{number}"


def _refused_watermark_of(number: int) -> str:
    return f"refused pin#{number}"


def _after_read_back(number: int) -> str:
    return f"after refetch#{number}"


def _watermark_on(channel: str) -> str:
    return f"pinned on {channel}"


def _is_of(file: DataFile, number: int) -> bool:
    return str(file.statistics["partition._snapshot"]) == str(number)
