"""One Delta table: open, read, append once, swap files once.

Exactly-once rests on one rule (docs/storage-layout.md, "Commit protocol" and "Transaction versions"): delta-rs does not
refuse a transaction version it has seen, so the version is read and the commit is made through the SAME handle; a
second writer that opened the same snapshot is then refused. Every write here goes through the handle that
`transaction_version` was read from.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlsplit

import polars as pl
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs

from sfcdc_assets.lake.errors import (
    ConcurrentCommit,
    TableDamaged,
    TableNotWritten,
    UnreadableTable,
    WarehouseNotWritable,
)
from sfcdc_assets.lake.handles import HANDLES, Answers, Held
from sfcdc_assets.lake.store_errors import FROM_STORE, file_in, is_of_the_store, no_room, reason_of, unreadable
from sfcdc_assets.lake.warehouse import Warehouse

KEPT_HOURS = 168
"""How long a file stays after a commit took it out of the table: no reader of an older version takes longer."""


COMMIT_INFO = b'{"commitInfo":'
FIRST_LINE_BYTES = 16_384
NEAR = 16
"""Commits that are read one by one before all are searched."""
FAR = 2_000
"""Commits that are read one by one at most."""
_FOUND: dict[tuple[str, str, str], tuple[int, Mapping[str, Any] | None]] = {}
"""Table's URI and id, key -> up to which version this process searched for the key, and what it found."""
STATISTICS_ON = 32
"""Delta's default: the log keeps statistics of so many columns."""


@dataclass(frozen=True)
class DataFile:
    """A live Parquet file of a table: path below the table's root, rows, size in bytes, and its column statistics."""

    path: str
    rows: int
    size: int
    statistics: Mapping[str, Any]

    @property
    def partition(self) -> Mapping[str, str]:
        """Partition column -> value, as the log has it; empty in an unpartitioned table."""
        prefix = "partition."
        return {
            key.removeprefix(prefix): str(value) for key, value in self.statistics.items() if key.startswith(prefix)
        }


@dataclass(frozen=True)
class NewFile:
    """A Parquet file that a task wrote below a table's root and that no commit names yet."""

    path: str
    size: int
    statistics: str
    """Delta's JSON form: numRecords, minValues, maxValues, nullCount."""
    partition: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PackedFiles:
    """`added` have the rows of `removed`, all of one partition."""

    added: Sequence[NewFile]
    removed: Sequence[DataFile]


class Table:
    """A handle on one snapshot of a Delta table. Not refreshed by others' commits: open it again to see them."""

    def __init__(self, name: str, delta: DeltaTable) -> None:
        self.name = name
        self._delta = delta
        self._held: Held | None = None
        self._answers = Answers()
        self._files: tuple[int, pl.DataFrame] | None = None
        """A version, and what its log says of its files."""

    @classmethod
    def open(cls, warehouse: Warehouse, name: str, version: int | None = None) -> Table | None:
        """The table's newest snapshot, or that of a version; None when it does not exist. Raises `TableDamaged`."""
        uri, log = warehouse.uri(name), partial(warehouse.filesystem, name)
        try:
            if version is not None:
                return cls(name, DeltaTable(uri, version=version))
            handle = HANDLES.take(uri, log)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise TableDamaged(name, None, None, f"cannot be read ({reason_of(error)})") from error
        table = cls(name, handle.delta)
        table._answers = handle.answers
        table._held = Held(table, uri, log, handle)
        return table

    @classmethod
    def open_or_create(
        cls,
        warehouse: Warehouse,
        name: str,
        schema: pa.Schema,
        *,
        partition_by: Sequence[str] = (),
        statistics_on: Sequence[str] = (),
    ) -> Table:
        """The table's newest snapshot; created empty, with `schema`, when it does not exist.

        `statistics_on`: the columns whose minimum and maximum the log keeps for each file; Delta's default is the
        first 32 columns, of which a wide table's last ones are none.
        Raises `WarehouseNotWritable` when it cannot be created.
        """
        found = cls.open(warehouse, name)
        if found is not None:
            return found
        try:
            delta = DeltaTable.create(
                warehouse.uri(name),
                schema,
                mode="ignore",
                partition_by=list(partition_by) or None,
                configuration={"delta.dataSkippingStatsColumns": ",".join(statistics_on)} if statistics_on else None,
            )
        except (OSError, DeltaError) as error:
            made_by_another = cls.open(warehouse, name)
            if made_by_another is not None:
                return made_by_another
            raise WarehouseNotWritable(warehouse.uri(name), reason_of(error)) from error
        return cls(name, delta)

    @classmethod
    def create_like(cls, warehouse: Warehouse, name: str, other: Table) -> Table:
        """A new empty table with the schema, the partition columns and the settings of another. Raises
        `ConcurrentCommit` when there is one already."""
        try:
            delta = DeltaTable.create(
                warehouse.uri(name),
                other.schema,
                partition_by=other.partition_columns() or None,
                configuration=dict(other._delta.metadata().configuration) or None,
            )
        except DeltaError as error:
            if cls.open(warehouse, name) is None:
                raise
            raise ConcurrentCommit(name, "another process has created it meanwhile") from error
        return cls(name, delta)

    @property
    def version(self) -> int:
        """Delta version of this snapshot."""
        return self._delta.version()

    @property
    def created_ms(self) -> int:
        """When the table was created, by the creator's clock (ms, UTC)."""
        return self._delta.metadata().created_time or 0

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema, with the fields' metadata."""
        return self._answers.of(self.version, "schema", lambda: pa.schema(self._delta.schema().to_arrow()))

    def schema_at(self, moment: datetime) -> pa.Schema:
        """Arrow schema as it was at a time, or at the beginning if the table is younger."""
        past = DeltaTable(self._delta.table_uri)
        past.load_as_version(moment)
        return pa.schema(past.schema().to_arrow())

    def transaction_version(self, application: str) -> int | None:
        """The highest version that `application` has committed as of this snapshot; None when it never has."""
        question = _transaction(application)
        return self._answers.of(self.version, question, lambda: self._delta.transaction_version(application))

    def latest_metadata(self, key: str) -> str | None:
        """The newest commit's custom metadata under `key`, searching back through the log that is kept."""
        commit = self.latest_commit(key)
        return None if commit is None else str(commit[key])

    def latest_metadata_of(self, prefix: str) -> str | None:
        """The newest commit's custom metadata under a key that begins so and has a value, in the log that is kept."""
        for commit in self._delta.history():
            for key, value in commit.items():
                if key.startswith(prefix) and value:
                    return str(value)
        return None

    def scan(self, columns: Sequence[str] | None = None, predicate: str | None = None) -> pa.Table:
        """Rows of this snapshot as Arrow. Reads by `DeltaTable.scan`: others may abort at exit (docs/storage-layout.md,
        "to_pyarrow_table at exit")."""
        if not self._answers.of(self.version, _HAS_FILES, lambda: bool(self._delta.get_add_actions().num_rows)):
            # Most ledgers of doubts are empty, and planning a scan costs milliseconds.
            return self.schema.empty_table().select(self.schema.names if columns is None else list(columns))
        with self._reading():
            reader = self._delta.scan(columns=list(columns) if columns is not None else None, predicate=predicate)
            rows = pa.table(reader)
        return self._plain(rows)

    def batches(self, columns: Sequence[str], predicate: str) -> Iterator[pa.Table]:
        """The rows that `scan` gives, part by part: memory holds one."""
        with self._reading():
            for batch in self._delta.scan(columns=list(columns), predicate=predicate):
                yield self._plain(pa.Table.from_batches([pa.record_batch(batch)]))

    def head(self, predicate: str, count: int) -> pa.Table:
        """The first rows that a scan meets; reading stops there."""
        batches, found = [], 0
        with self._reading():
            for batch in self._delta.scan(predicate=predicate):
                batches.append(pa.record_batch(batch))
                found += batches[-1].num_rows
                if found >= count:
                    break
        rows = self._plain(pa.Table.from_batches(batches)) if batches else self.schema.empty_table()
        return rows.slice(0, count)

    def _plain(self, rows: pa.Table) -> pa.Table:
        """The table's own types: a scan gives view types, which many of Arrow's kernels do not take."""
        schema = self.schema
        return rows.cast(pa.schema([schema.field(name) for name in rows.column_names]))

    def count(self) -> int:
        """Rows in this snapshot, from the log alone."""
        return int(self.file_statistics()["num_records"].sum() or 0)

    def file_statistics(self) -> pl.DataFrame:
        """What the log says of the live files, one a row: `path`, `num_records`, `size_bytes` and, by column, `min.*`,
        `max.*`, `null_count.*` and `partition.*`; null where it does not. For questions about all files: thousands of
        them are no Python objects here. Raises `UnreadableTable` when files alone do not tell the rows."""
        if self._files is None or self._files[0] != self.version:
            self._files = (self.version, self._file_statistics())
        return self._files[1]

    def _file_statistics(self) -> pl.DataFrame:
        protocol, configuration = self._delta.protocol(), self._delta.metadata().configuration
        features = set(protocol.reader_features or ()) - {"timestampNtz"}
        mapped = configuration.get("delta.columnMapping.mode", "none") != "none"
        vectors = configuration.get("delta.enableDeletionVectors", "false") == "true"
        if features or mapped or vectors:
            raise UnreadableTable(self.name, ", ".join(sorted(features)) or "column mapping or deletion vectors")
        return pl.DataFrame(self._delta.get_add_actions(flatten=True))

    def files(self, where: pl.Expr | None = None) -> tuple[DataFile, ...]:
        """The live files with their statistics, or those that a condition on `file_statistics` selects; raises as that
        does."""
        found = self.file_statistics()
        fixed = {"path", "size_bytes", "modification_time", "num_records"}
        return tuple(
            DataFile(
                path=file["path"],
                rows=file["num_records"],
                size=file["size_bytes"],
                statistics={key: value for key, value in file.items() if key not in fixed},
            )
            for file in (found if where is None else found.filter(where)).iter_rows(named=True)
        )

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """Add nullable columns, in a commit of their own; older rows read null. Raises `ConcurrentCommit`."""
        if fields:
            with self._committing():
                self._delta.alter.add_columns(list(Schema.from_arrow(pa.schema(list(fields))).fields))

    def mark_columns(self, names: Sequence[str], metadata: Mapping[str, str]) -> None:
        """Set metadata of columns that do not have it yet; each is a commit of its own. Raises `ConcurrentCommit`."""
        for name in names:
            present = {key.decode(): value.decode() for key, value in (self.schema.field(name).metadata or {}).items()}
            if not metadata.items() <= present.items():
                with self._committing():
                    self._delta.alter.set_column_metadata(name, {**present, **metadata})

    def append(self, rows: pa.Table, transactions: Mapping[str, int], metadata: Mapping[str, str]) -> None:
        """Append rows (none is fine) with the transaction versions and metadata, in one commit.

        Raises `ConcurrentCommit` when another writer of one of the same applications committed since this handle
        was opened: nothing is in the table then.
        """
        properties = self._properties(transactions, metadata)
        with self._committing(transactions):
            if rows.num_rows:
                self._check_room(rows.nbytes)
                write_deltalake(self._delta, rows, mode="append", commit_properties=properties)
            else:
                self._delta.create_write_transaction(
                    [], "append", self._delta.schema(), self.partition_columns() or None, commit_properties=properties
                )
                self._delta.update_incremental()
        self._carry(transactions, [_HAS_FILES] if rows.num_rows else [])

    def _carry(self, transactions: Mapping[str, int], forgotten: Sequence[object]) -> None:
        """Answers that a commit of this handle did not change need not be asked for again, if no other came between."""
        changed: dict[object, int] = {
            _transaction(application): version for application, version in transactions.items()
        }
        self._answers.carry(self.version, changed, forgotten)

    def swap_files(
        self,
        added: Sequence[NewFile],
        removed: Sequence[DataFile],
        transactions: Mapping[str, int],
        metadata: Mapping[str, str],
    ) -> None:
        """Replace whole files of an unpartitioned table in one commit. Raises `ConcurrentCommit`: where nothing is
        removed as `append` does, otherwise after any commit since this handle was opened."""
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.size, {}, now, True, file.statistics) for file in added
        ]
        actions += [RemoveAction(file.path, True, now, file.size, {}) for file in removed]
        with self._committing(transactions):
            self._delta.create_write_transaction(
                actions,
                "append",
                self._delta.schema(),
                commit_properties=self._properties(transactions, metadata, only_next=bool(removed)),
            )
        self._delta.update_incremental()
        self._carry(transactions, [_HAS_FILES] if added or removed else [])

    def pack_files(self, packed: Sequence[PackedFiles], metadata: Mapping[str, str] = MappingProxyType({})) -> None:
        """Put files with the same rows in the place of others, in one commit that says that no row has changed.

        Raises `ConcurrentCommit` after any commit since this handle was opened. Writers that only append do not notice
        this one; those that replace rows open the table again.
        """
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = []
        for each in packed:
            actions += [
                AddAction(file.path, file.size, dict(file.partition), now, False, file.statistics)
                for file in each.added
            ]
            actions += [RemoveAction(file.path, False, now, file.size, dict(file.partition)) for file in each.removed]
        with self._committing():
            self._delta.create_write_transaction(
                actions,
                "append",
                self._delta.schema(),
                self.partition_columns() or None,
                commit_properties=self._properties({}, metadata, only_next=True),
            )
        self._delta.update_incremental()

    def rewrite(
        self,
        files: Sequence[NewFile],
        schema: pa.Schema,
        transactions: Mapping[str, int] = MappingProxyType({}),
        metadata: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Replace all files and the schema in one commit; older versions stay readable as they were. Raises
        `ConcurrentCommit`, as does every writer that opened the table before."""
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.size, dict(file.partition), now, True, file.statistics) for file in files
        ]
        with self._committing(transactions):
            self._delta.create_write_transaction(
                actions,
                "overwrite",
                Schema.from_arrow(schema),
                self.partition_columns() or None,
                commit_properties=self._properties(transactions, metadata, only_next=True),
            )
        self._delta.update_incremental()

    def update_rows(self, source: pa.Table, keys: Sequence[str], columns: Sequence[str]) -> None:
        """Set `columns` of the rows that equal `source` in `keys`; raises `ConcurrentCommit`.

        For small tables: files that hold a matching row are rewritten.
        """
        on = " and ".join(f"t.{key} = s.{key}" for key in keys)
        with self._committing():
            # `streamed_exec` off: a merge on streams reads the whole table into memory
            # (docs/storage-layout.md, "streamed_exec").
            (
                self._delta.merge(source, on, source_alias="s", target_alias="t", streamed_exec=False)
                .when_matched_update({column: f"s.{column}" for column in columns})
                .execute()
            )

    def set_null(self, column: str, predicate: str, transactions: Mapping[str, int]) -> int:
        """Set a column of the rows that a predicate selects to null; returns how many rows that were.

        The files that hold such a row, by their statistics, are rewritten, in one commit with the transaction
        versions. Raises `ConcurrentCommit`.
        """
        with self._committing(transactions):
            done = self._delta.update(
                updates={column: "NULL"},
                predicate=predicate,
                commit_properties=self._properties(transactions, {}, only_next=True),
            )
        return int(done["num_updated_rows"])

    def forget_older_versions(self) -> None:
        """Delete the files that only older versions need, at once: what may not be kept may not be read there either.
        Readers of older versions fail."""
        self._delta.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    def delete_rows(self, predicate: str, transactions: Mapping[str, int]) -> int:
        """Delete the rows that a predicate selects, in one commit with the transaction versions; returns how many
        there were. Raises `ConcurrentCommit`."""
        with self._committing(transactions):
            properties = self._properties(transactions, {}, only_next=True)
            done = self._delta.delete(predicate, commit_properties=properties)
        return int(done["num_deleted_rows"] or 0)

    def vacuum(self, hours: int = KEPT_HOURS, *, orphans: bool = False, versions: Sequence[int] = ()) -> int:
        """Delete files that no version of the last hours needs; returns how many there were.

        `orphans`: also those that no commit names, if they are as old: a task that was killed wrote them. `versions`:
        older ones that stay readable.
        """
        kept = list(versions) or None
        if not self._delta.vacuum(retention_hours=hours, dry_run=True, full=orphans, keep_versions=kept):
            return 0  # it would note in the log that it found none
        return len(self._delta.vacuum(retention_hours=hours, dry_run=False, full=orphans, keep_versions=kept))

    def keep(self, *, files_hours: int | None = None, log_hours: int | None = None) -> bool:
        """How long files that were replaced, and the log, are kept at least; whether that is new to the table.

        Checkpoints forget sooner that a file was replaced, and vacuum takes it for an orphan then. Raises
        `ConcurrentCommit`, as does every writer that opened the table before.
        """
        wanted = {
            name: f"interval {hours} hours"
            for name, hours in (
                ("delta.deletedFileRetentionDuration", files_hours),
                ("delta.logRetentionDuration", log_hours),
            )
            if hours is not None
        }
        if wanted.items() <= self._delta.metadata().configuration.items():
            return False
        with self._committing():
            self._delta.alter.set_table_properties(wanted)
        return True

    def checkpoint(self) -> None:
        """Write the state of this version beside the log, so that opening reads no commit before it."""
        self._delta.create_checkpoint()

    def clean_log(self) -> None:
        """Delete commits and checkpoints that are older than the log is kept and that no younger version needs."""
        self._delta.cleanup_metadata()

    def column_statistics(self) -> tuple[str, ...]:
        """The columns whose minimum and maximum the log keeps."""
        named = self._delta.metadata().configuration.get("delta.dataSkippingStatsColumns")
        partitioned = self.partition_columns()
        present = [name for name in self.schema.names if name not in partitioned]
        return tuple(name for name in present if name in named.split(",")) if named else tuple(present[:STATISTICS_ON])

    def newest_commit(self) -> Mapping[str, Any]:
        """What is told of the newest commit; nothing where its file is gone."""
        return self._commit_info(self.version) or {}

    def latest_commit(self, key: str) -> Mapping[str, Any] | None:
        """The newest commit that has custom metadata under `key`, with all that is told of it; None if none is kept.

        Commits since the last search of this process, or the last few, are read by their names; only otherwise are all
        that are kept listed and read.
        """
        checkpoint = (self._delta.table_uri, str(self._delta.metadata().id), key)
        searched, found = _FOUND.get(checkpoint, (-1, None))
        if searched > self.version:
            searched, found = -1, None
        is_known = 0 <= self.version - searched <= FAR and searched >= 0
        first = searched if is_known else max(-1, self.version - NEAR)
        commit: Mapping[str, Any] | None = None
        for version in range(self.version, first, -1):
            commit = self._commit_info(version)
            if commit is None or key in commit:
                break
        if commit is None or key not in commit:
            is_read = is_known and (commit is not None or self.version == searched)
            commit = found if is_read else self._search(key)
        _FOUND[checkpoint] = (self.version, commit)
        return commit

    def _search(self, key: str) -> Mapping[str, Any] | None:
        limit = NEAR
        while True:
            history = self._delta.history(limit)
            for commit in history:
                if key in commit:
                    return commit
            if len(history) < limit:
                return None
            limit *= 8

    def _commit_info(self, version: int) -> Mapping[str, Any] | None:
        """What is told of a commit; None where its file is gone."""
        store = fs.PyFileSystem(DeltaStorageHandler(self._delta.table_uri))
        try:
            with store.open_input_file(f"_delta_log/{version:020}.json") as source:
                first, *more = source.read(FIRST_LINE_BYTES).split(b"\n", 1)
                if not more or COMMIT_INFO not in first:  # it is the first line of what deltalake writes
                    source.seek(0)
                    first = next((line for line in source.read().splitlines() if COMMIT_INFO in line), b"{}")
        except OSError:
            return None
        info: Mapping[str, Any] = json.loads(first).get("commitInfo", {})
        return info

    def _check_room(self, size: int) -> None:
        """Refuse on a disk that has no room for so many bytes, before a file is begun: of a file that cannot be ended
        delta-rs tells by a panic of one of its threads too, in many lines on standard error."""
        uri = urlsplit(self._delta.table_uri)
        if uri.scheme == "file" and shutil.disk_usage(unquote(uri.path)).free < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    @contextmanager
    def _committing(self, transactions: Mapping[str, int] = MappingProxyType({})) -> Iterator[None]:
        """Raises what fails to be committed as `ConcurrentCommit`, `TableNotWritten` or `TableDamaged`."""
        try:
            with self._spoiled_by_failure():
                yield
        except CommitFailedError as error:
            raise ConcurrentCommit(self.name, str(error)) from error
        except FROM_STORE as error:
            if not is_of_the_store(error):
                raise
            if no_room(str(error)) is None:
                self._raise_damaged(error)
            channels = {name: version for name, version in transactions.items() if _is_channel(name)}
            raise TableNotWritten(self.name, channels, self._delta.table_uri, reason_of(error)) from error

    @contextmanager
    def _spoiled_by_failure(self) -> Iterator[None]:
        """Nobody uses a handle again through which something failed."""
        try:
            yield
        except BaseException:
            if self._held is not None:
                self._held.spoil()
            raise

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Raises what cannot be read as `TableDamaged`, with the file."""
        try:
            with self._spoiled_by_failure():
                yield
        except FROM_STORE as error:
            self._raise_damaged(error)
            raise

    def _raise_damaged(self, error: Exception) -> None:
        """Raise `TableDamaged` if the error, or else a look at the files, tells which one is."""
        file, reason = file_in(error, self.name), reason_of(error)
        if file is None:
            handler = fs.PyFileSystem(DeltaStorageHandler(self._delta.table_uri))
            found = unreadable(handler, (each.path for each in self.files()))
            if found is None:
                return
            file, reason = found
        entity = re.search(r"entity_name=([^/]+)/", file)
        raise TableDamaged(self.name, entity[1] if entity else None, file, f"cannot be read ({reason})") from error

    def partition_columns(self) -> list[str]:
        """Columns whose values are in the paths of the files and not in the files."""
        return list(self._delta.metadata().partition_columns)

    @staticmethod
    def _properties(
        transactions: Mapping[str, int], metadata: Mapping[str, str], *, only_next: bool = False
    ) -> CommitProperties:
        """`only_next`: the commit is refused unless it is the next one after this handle's version.

        A commit that removes files must be. delta-rs lets one pass that removes a file which an OPTIMIZE has removed
        meanwhile (https://github.com/delta-io/delta-rs/pull/3982): the rows would be in the table twice.
        """
        return CommitProperties(
            custom_metadata=dict(metadata),
            max_commit_retries=0 if only_next else None,
            app_transactions=[Transaction(application, version) for application, version in transactions.items()],
        )


_HAS_FILES = "has files"


def _transaction(application: str) -> tuple[str, str]:
    return "transaction", application


def _is_channel(application: str) -> bool:
    return application.startswith("/data/") and "#" not in application
