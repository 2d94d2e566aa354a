"""`current_state/<Entity>`: the current version of each record, in key-range files, with the entity's `Checkpoint`.

Both change in one commit (guarantee 2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.key_ranges.frames import empty_rows
from sfcdc_assets.key_ranges.key_ranges import IdRange
from sfcdc_assets.key_ranges.range_rows import COUNTED, RowCounts
from sfcdc_assets.lake.delta.conditions import literal
from sfcdc_assets.lake.delta.data_files import DataFile, NewFile
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.entity_checkpoint import BATCH, Checkpoint
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.snapshot.soql import IdWindow
from sfcdc_assets.timeline.version_columns import current_state_schema

_PREFIX = "counted "
_OF_BATCH = f"{_PREFIX}{BATCH}"


def noting(counts: RowCounts | None, batch: int) -> dict[str, int]:
    """Return the transaction versions that note the counts after a batch; none where they are not known."""
    if counts is None:
        return {}
    return {_OF_BATCH: batch} | {f"{_PREFIX}{name}": number for name, number in vars(counts).items()}


def noted_counts(table: Table) -> RowCounts | None:
    """Return what was noted of the version that a handle stands at; None where nothing was that holds for it."""
    batch = table.transaction_version(_OF_BATCH)
    if batch is None or batch != table.transaction_version(BATCH):
        return None
    names = RowCounts.__dataclass_fields__
    found = RowCounts(**{name: table.transaction_version(f"{_PREFIX}{name}") or 0 for name in names})
    return found if found.rows == table.count() else None


LAYER = "current_state"

IDS_PER_SCAN = 5_000
"""Ids in one condition: the engine's parser goes one level deeper for each, and 100,000 ended the process."""

AFTER_ALL = "\U0010ffff"
"""A text after every Id."""


def _bytes_of(ids: pa.Array) -> npt.NDArray[np.bytes_]:
    if pc.all(pc.equal(pc.binary_length(ids), 18)).as_py():
        return np.frombuffer(ids.cast(pa.binary(18)).buffers()[1], "S18", len(ids), ids.offset * 18)
    return np.array(ids.to_pylist(), np.bytes_)


def name_of(entity: str) -> str:
    """Path of the entity's table below the warehouse."""
    return f"{LAYER}/{entity}"


def conditions_on_ids(record_ids: Sequence[str]) -> Iterator[str]:
    """Yield conditions of a scan that together name these records, `IDS_PER_SCAN` in each."""
    for start in range(0, len(record_ids), IDS_PER_SCAN):
        listed = ", ".join(map(literal, record_ids[start : start + IDS_PER_SCAN]))
        yield f"Id in ({listed})"


class CurrentState:
    """A handle on one snapshot of an entity's table."""

    def __init__(self, table: Table) -> None:
        self.table = table

    @classmethod
    def open(cls, warehouse: Warehouse, entity: str) -> CurrentState | None:
        """Return the newest snapshot, None when the entity has no table yet."""
        table = Table.open(warehouse, name_of(entity))
        return cls(table) if table else None

    @classmethod
    def open_or_create(cls, warehouse: Warehouse, entity: str, columns: Sequence[Column]) -> CurrentState:
        """Return the newest snapshot, created with these columns when there is none."""
        schema = current_state_schema(columns)
        statistics = ["Id", "_position", "_batch"]
        table = Table.open_or_create(warehouse, name_of(entity), schema, statistics_on=statistics, of_batches=True)
        return cls(table)

    def applied(self, channel: str) -> int | None:
        """Position up to which the channel's events are in the table; None when none ever was."""
        return self.table.transaction_version(channel)

    def checkpoint(self, channel: str) -> Checkpoint:
        """Return what the entity's tables have, of an entity that follows the channel."""
        return Checkpoint.of(self.table, channel)

    def fence(self) -> None:
        """Have every writer refused that opened the table before. Raises `ConcurrentCommit` when one was faster."""
        batch = self.table.transaction_version(BATCH) or 0
        self.table.append(self.table.schema.empty_table(), {BATCH: batch}, {})

    def not_suspect(self, record_ids: Sequence[str]) -> dict[str, int]:
        """Record id -> position its row stands for, of those rows that are not suspect."""
        found: dict[str, int] = {}
        for of_records in conditions_on_ids(sorted(record_ids)):
            rows = self.table.scan(["Id", "_position", "_read_position"], f"{of_records} and not _in_doubt")
            stands_at = pc.max_element_wise(rows["_position"], rows["_read_position"])
            found |= zip(rows["Id"].to_pylist(), stands_at.to_pylist(), strict=True)
        return found

    def living_of(self, record_ids: Sequence[str]) -> set[str]:
        """Return those of the records that have a row that is not deleted."""
        found: set[str] = set()
        for of_records in conditions_on_ids(record_ids):
            found |= set(self.table.scan(["Id"], f"{of_records} and not _is_deleted")["Id"].to_pylist())
        return found

    def rows_of(self, record_ids: Sequence[str], columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the rows of those of the records that have one, with all columns or these."""
        none = self.table.schema if columns is None else pa.schema(map(self.table.schema.field, columns))
        found = [self.table.frame(columns, of_records) for of_records in conditions_on_ids(record_ids)]
        return pl.concat(found) if found else empty_rows(none)

    def stamps_of(self, record_ids: Sequence[str]) -> dict[str, datetime]:
        """Return when the org committed what is in the rows of those of the records that have one, UTC."""
        found: dict[str, datetime] = {}
        for of_records in conditions_on_ids(record_ids):
            rows = self.table.scan(["Id", "_commit_timestamp"], of_records).to_pylist()
            found |= {row["Id"]: row["_commit_timestamp"].astimezone(UTC) for row in rows if row["_commit_timestamp"]}
        return found

    def living(self) -> int:
        """Rows that are not deleted."""
        return sum(rows.num_rows for rows in self.table.batches(["_is_deleted"], "not _is_deleted"))

    def living_ids(self) -> npt.NDArray[np.bytes_]:
        """Return the Ids of the rows that are not deleted, in order, as bytes as wide as the longest: 18, but for what
        the org calls an Id and is none (`EntityDefinition`)."""
        found = [
            _bytes_of(part)
            for rows in self.table.batches(["Id"], "not _is_deleted")
            for part in rows["Id"].cast(pa.binary()).chunks
        ]
        ids = np.concatenate([np.empty(0, "S18"), *found])
        ids.sort()
        return ids

    def counts(self) -> RowCounts:
        """Rows, those of deleted records and those suspect: as the last batch noted them, otherwise by reading two
        columns of every row (see `note_counts`)."""
        noted = noted_counts(self.table)
        return noted if noted is not None else RowCounts.of(self.table.scan(COUNTED))

    def note_counts(self) -> bool:
        """Note the counts of a table whose last batch did not; whether there was anything to do. Batches go on from
        there. Raises `ConcurrentCommit`."""
        if noted_counts(self.table) is not None:
            return False
        batch = self.table.transaction_version(BATCH) or 0
        self.table.append(self.table.schema.empty_table(), {BATCH: batch, **noting(self.counts(), batch)}, {})
        return True

    def first_living(self, window: IdWindow, count: int) -> list[str]:
        """Return the lowest Ids of a window's rows that are not deleted, in order. However many rows the window has,
        `count` of them are held."""
        within = f" and {window.condition}" if window.condition else ""
        found = pl.Series("Id", [], pl.String)
        for rows in self.table.batches(["Id"], f"not _is_deleted{within}"):
            found = pl.concat([found, pl.Series("Id", rows["Id"], pl.String)]).sort().head(count)
        return found.to_list()

    def files(self) -> dict[str, DataFile]:
        """Return the table's files by path."""
        return {file.path: file for file in self.table.files()}

    def beginnings(self, after: str) -> list[str]:
        """Return the Ids after this one at which files begin, in order, as far as their statistics say."""
        statistics = self.table.file_statistics()
        if "min.Id" not in statistics.columns:
            return []
        return statistics.filter(pl.col("min.Id") > after)["min.Id"].unique().sort().to_list()

    def id_windows(self, rows_at_once: int) -> Iterator[IdWindow]:
        """Ranges of Ids that together are all, each of as many key-range files as have so many rows."""
        lower: str | None = None
        rows = 0
        files = self.table.files()
        for first, file in sorted(
            zip((each.first for each in id_ranges(files)), files, strict=True), key=itemgetter(0)
        ):
            if rows >= rows_at_once and lower != first:
                yield IdWindow(lower, first)
                lower, rows = first, 0
            rows += file.rows
        yield IdWindow(lower, None)

    def newest_rows(self, count: int) -> pa.Table:
        """Return the `count` rows with the highest `_position`, the highest first: a sample of what changed last."""
        return self.table.newest("_position", "Id is not null", count)

    @property
    def schema(self) -> pa.Schema:
        """The table's Arrow schema; column order is that of the table."""
        return self.table.schema

    def commit(
        self,
        added: Sequence[NewFile],
        removed: Sequence[DataFile],
        channel: str,
        checkpoint: Checkpoint,
        counts: RowCounts | None,
        run: Mapping[str, str],
        notes: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Swap files, move the checkpoint and note the counts of the rows that there are then, where they are known,
        and other transaction versions. Raises `ConcurrentCommit`."""
        noted = {**noting(counts, checkpoint.batch), **notes}
        self.table.swap_files(added, removed, {**checkpoint.versions(channel), **noted}, run)


def id_ranges(files: Sequence[DataFile]) -> list[IdRange]:
    """Return the Id range of each file, from its statistics; every Id where another writer kept none."""
    ends = [(file.statistics.get("min.Id"), file.statistics.get("max.Id")) for file in files]
    return [
        IdRange(
            file.path,
            "" if first is None else first,
            AFTER_ALL if last is None else last,
            file.size,
            file.rows or 0,
        )
        for file, (first, last) in zip(files, ends, strict=True)
    ]
