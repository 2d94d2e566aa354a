"""`snapshot/<Entity>`: rows read from the org as a whole, pinned to a position, with how far the reading has come.

Each page and the progress after it are one commit, so a killed snapshot goes on with the page it was at. A snapshot is
a partition (`_snapshot` is its number) and counts once it is complete.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.columns import Column, arrow_schema
from sfcdc_assets.lake.table import DataFile, Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.state.baseline import READ_COLUMNS

LAYER = "snapshot"

PLACE_COLUMNS = pa.schema([("_refetch", pa.int64()), ("_snapshot", pa.int32())])
"""`_snapshot` is the number of the snapshot a row belongs to, 0 for rows read back one by one; those have the number of
their reading in `_refetch`."""

REFETCHED = 0


def name_of(entity: str) -> str:
    """Path of the entity's table below the warehouse."""
    return f"{LAYER}/{entity}"


@dataclass(frozen=True)
class CompleteSnapshot:
    """A snapshot all of whose pages are landed: its number, its pin, and the files of its pages."""

    number: int
    position: int
    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        """Rows in all pages."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True)
class Refetches:
    """Refetches not in the table yet: the last one's number, their files and record ids, and their lowest pin."""

    number: int
    files: tuple[DataFile, ...]
    record_ids: frozenset[str]
    first_position: int | None


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
    def open_with(cls, warehouse: Warehouse, entity: str, columns: Sequence[Column]) -> Snapshots:
        """The newest state, created or given the columns it lacks."""
        schema = pa.schema([*arrow_schema(columns), *READ_COLUMNS, *PLACE_COLUMNS])
        table = Table.open_or_create(
            warehouse,
            name_of(entity),
            schema,
            partition_by=["_snapshot"],
            statistics_on=["Id", "_position", "_refetch"],
        )
        present = set(table.schema.names)
        table.add_columns([field for field in schema if field.name not in present])
        return cls(table)

    def progress(self) -> SnapshotProgress | None:
        """Where the newest snapshot stands, None when none was begun."""
        told = self.table.latest_metadata("progress")
        return SnapshotProgress.from_json(json.loads(told)) if told else None

    def begin(self, progress: SnapshotProgress) -> None:
        """Note the pin and the job before the first page is read."""
        self._commit(self.table.schema.empty_table(), progress, progress.started_at_ms)

    def add_page(self, page: pa.Table, progress: SnapshotProgress, now_ms: int) -> None:
        """One page, read up to `now_ms`, and the progress after it, in one commit."""
        rows = page.append_column("_snapshot", pa.repeat(pa.scalar(progress.snapshot_number, pa.int32()), len(page)))
        rows = rows.append_column("_position", pa.repeat(pa.scalar(progress.position, pa.int64()), len(page)))
        started = pa.scalar(progress.started_at_ms * 1000, pa.int64()).cast(pa.timestamp("us", "UTC"))
        rows = rows.append_column("_read_at", pa.repeat(started, len(page)))
        rows = rows.append_column("_refetch", pa.nulls(len(page), pa.int64()))
        self._commit(rows, progress, now_ms)

    def add_refetch(self, rows: pa.Table, now_ms: int) -> int:
        """Rows read back up to `now_ms` (Id, columns, `READ_COLUMNS`); returns the number of the refetch they are."""
        number = (self.table.transaction_version("refetch") or 0) + 1
        rows = rows.append_column("_refetch", pa.repeat(pa.scalar(number, pa.int64()), len(rows)))
        rows = rows.append_column("_snapshot", pa.repeat(pa.scalar(REFETCHED, pa.int32()), len(rows)))
        self.table.append(self._fitting(rows), {"refetch": number, "read_at": now_ms}, {})
        return number

    def read_at(self) -> int:
        """When rows were last read into the table, epoch ms by the clock of the process that did."""
        return self.table.transaction_version("read_at") or 0

    def refetches(self, after: int) -> Refetches:
        """What was read back by refetches numbered higher than `after`."""
        files = tuple(
            file
            for file in self.table.files()
            if str(file.statistics["partition._snapshot"]) == str(REFETCHED) and file.statistics["max._refetch"] > after
        )
        ids: set[str] = set()
        first = None
        if files:
            rows = self.table.scan(["Id", "_position"], f"_snapshot = {REFETCHED} and _refetch > {after}")
            ids, first = set(rows["Id"].to_pylist()), pc.min(rows["_position"]).as_py()
        return Refetches(self.table.transaction_version("refetch") or 0, files, frozenset(ids), first)

    def complete(self) -> CompleteSnapshot | None:
        """The newest complete snapshot, None before the first."""
        number = self.table.transaction_version("complete")
        if number is None:
            return None
        files = tuple(file for file in self.table.files() if str(file.statistics["partition._snapshot"]) == str(number))
        return CompleteSnapshot(number, self.table.transaction_version("pin") or 0, files)

    def sample(self, count: int) -> pa.Table:
        """A few rows of the newest complete snapshot."""
        complete = self.complete()
        if complete is None:
            return self.table.schema.empty_table()
        return self.table.head(f"_snapshot = {complete.number}", count)

    def _commit(self, rows: pa.Table, progress: SnapshotProgress, now_ms: int) -> None:
        versions = {"snapshot": progress.snapshot_number}
        if progress.complete:
            versions |= {"complete": progress.snapshot_number, "pin": progress.position, "read_at": now_ms}
        self.table.append(self._fitting(rows), versions, {"progress": json.dumps(progress.to_json())})

    def _fitting(self, rows: pa.Table) -> pa.Table:
        """The rows with the table's columns: fields come and go, and older rows have what newer ones lack."""
        present = set(self.table.schema.names)
        self.table.add_columns([field for field in rows.schema if field.name not in present])
        schema = self.table.schema
        known = set(rows.column_names)
        return pa.table(
            [rows[field.name] if field.name in known else pa.nulls(len(rows), field.type) for field in schema],
            schema=schema,
        )
