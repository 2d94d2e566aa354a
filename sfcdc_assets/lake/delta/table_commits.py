"""What can be committed to a table: rows, files in the place of others, columns; and what keeps it small."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa
from deltalake import Schema, WriterProperties, write_deltalake
from deltalake.transaction import AddAction, RemoveAction

from sfcdc_assets.lake.delta.commit_protocol import CommitProtocol
from sfcdc_assets.lake.delta.data_files import DataFile, NewFile, PackedFiles
from sfcdc_assets.lake.delta.table_snapshot import CHANGE_FEED, CHANGE_FEED_REFUSED
from sfcdc_assets.lake.store.store_errors import FROM_STORE, no_room

log = logging.getLogger(__name__)

STATISTICS_BYTES = 64
"""Bytes of a text that delta-rs keeps as a file's least or greatest value; a longer one is cut off."""


class TableCommits(CommitProtocol):
    """A snapshot on top of which can be committed."""

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

    def append(
        self,
        rows: pa.Table,
        transactions: Mapping[str, int],
        metadata: Mapping[str, str],
        *,
        statistics_bytes: int = STATISTICS_BYTES,
    ) -> None:
        """Append rows (none is fine) with the transaction versions and metadata, in one commit. Of texts the log keeps
        the least and the greatest up to `statistics_bytes`.

        Raises `ConcurrentCommit` when another writer of one of the same applications committed since this handle
        was opened: nothing is in the table then.
        """
        properties = self._properties(transactions, metadata)
        with self._committing(transactions):
            if rows.num_rows:
                self._check_room(rows.nbytes)
                write_deltalake(
                    self._delta,
                    rows,
                    mode="append",
                    writer_properties=WriterProperties(
                        compression="SNAPPY", statistics_truncate_length=statistics_bytes
                    ),
                    commit_properties=properties,
                    post_commithook_properties=self._afterwards(),
                )
            else:
                self._write([], properties)
        self._carry(transactions, changes_files=bool(rows.num_rows))

    def swap_files(
        self,
        added: Sequence[NewFile],
        removed: Sequence[DataFile],
        transactions: Mapping[str, int],
        metadata: Mapping[str, str],
    ) -> None:
        """Replace whole files in one commit. Raises `ConcurrentCommit`: where nothing is removed as `append` does,
        otherwise after any commit since this handle was opened."""
        properties = self._properties(transactions, metadata, only_next=bool(removed))
        with self._committing(transactions):
            self._write(_actions(added, removed), properties)
        self._carry(transactions, changes_files=bool(added or removed))

    def pack_files(self, packed: Sequence[PackedFiles]) -> None:
        """Put files with the same rows in the place of others, in one commit that says that no row has changed.

        Raises `ConcurrentCommit` after any commit since this handle was opened. Writers that only append do not notice
        this one; those that replace rows open the table again.
        """
        actions = [action for each in packed for action in _actions(each.added, each.removed, changes_rows=False)]
        with self._committing():
            self._write(actions, self._properties({}, only_next=True))

    def rewrite(
        self,
        files: Sequence[NewFile],
        schema: pa.Schema,
        transactions: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Replace all files and the schema in one commit; older versions stay readable as they were. Raises
        `ConcurrentCommit`, as does every writer that opened the table before."""
        properties = self._properties(transactions, only_next=True)
        with self._committing(transactions):
            self._write(_actions(files, []), properties, "overwrite", Schema.from_arrow(schema))

    def update_rows(self, source: pa.Table, keys: Sequence[str], columns: Sequence[str], only: str) -> None:
        """Set `columns` of the rows that equal `source` in `keys` and that the condition `only` (on `t`) selects.

        For small tables: files that hold a matching row are rewritten. Raises `ConcurrentCommit` after any commit
        since this handle was opened.
        """
        on = " and ".join([*(f"t.{key} = s.{key}" for key in keys), only])
        with self._committing():
            # `streamed_exec` off: a merge on streams reads the whole table into memory
            # (docs/storage-layout.md, "streamed_exec").
            (
                self._delta.merge(
                    source,
                    on,
                    source_alias="s",
                    target_alias="t",
                    streamed_exec=False,
                    commit_properties=self._properties({}, only_next=True),
                    post_commithook_properties=self._afterwards(),
                )
                .when_matched_update({column: f"s.{column}" for column in columns})
                .execute()
            )

    def upsert(self, rows: pa.Table, key: Sequence[str], transactions: Mapping[str, int]) -> None:
        """Put rows in the place of those with the same key (columns without null), and append the others, in one commit
        with the transaction versions. `rows` have all columns, and each key once.

        Files that hold a row that is replaced are rewritten. Raises `ConcurrentCommit` after any commit since this
        handle was opened.
        """
        with self._committing(transactions):
            self._check_room(rows.nbytes)
            (
                self._delta.merge(
                    rows,
                    " and ".join(f"t.{name} = s.{name}" for name in key),
                    source_alias="s",
                    target_alias="t",
                    streamed_exec=False,  # see update_rows
                    commit_properties=self._properties(transactions, only_next=True),
                    post_commithook_properties=self._afterwards(),
                )
                .when_matched_update_all()
                .when_not_matched_insert_all()
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
                commit_properties=self._properties(transactions, only_next=True),
                post_commithook_properties=self._afterwards(),
            )
        return int(done["num_updated_rows"])

    def delete_rows(self, predicate: str, transactions: Mapping[str, int]) -> int:
        """Delete the rows that a predicate selects, in one commit with the transaction versions; returns how many
        there were. Raises `ConcurrentCommit`."""
        with self._committing(transactions):
            properties = self._properties(transactions, only_next=True)
            done = self._delta.delete(
                predicate, commit_properties=properties, post_commithook_properties=self._afterwards()
            )
        return int(done["num_deleted_rows"] or 0)

    def refuse_change_feed(self) -> bool:
        """Switch off Delta's change data feed where somebody has switched it on; whether it was. What is committed
        stays as it is. Raises `ConcurrentCommit`."""
        if not self.has_change_feed:
            return False
        with self._committing():
            self._delta.alter.set_table_properties({CHANGE_FEED: "false"})
        log.warning("%s: %s. It was switched off again (%s = false).", self.name, CHANGE_FEED_REFUSED, CHANGE_FEED)
        return True


def _actions(
    added: Sequence[NewFile], removed: Sequence[DataFile], *, changes_rows: bool = True
) -> list[AddAction | RemoveAction]:
    now = int(time.time() * 1000)
    actions: list[AddAction | RemoveAction] = [
        AddAction(file.path, file.size, dict(file.partition), now, changes_rows, file.statistics) for file in added
    ]
    return actions + [RemoveAction(file.path, changes_rows, now, file.size, dict(file.partition)) for file in removed]


KEPT_HOURS = 168
"""How long a file stays after a commit took it out of the table: no reader of an older version takes longer."""


class TableUpkeep(TableCommits):
    """A snapshot of a table that can be maintained."""

    def forget_older_versions(self) -> None:
        """Delete the files that only older versions need, at once: what may not be kept may not be read there either.
        Readers of older versions fail."""
        with self._asking():
            self._delta.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    def vacuum(self, hours: int = KEPT_HOURS, *, orphans: bool = False) -> int:
        """Delete files that no version of the last hours needs; returns how many there were.

        `orphans`: also those that no commit names, if they are as old: a task that was killed wrote them.
        """
        with self._asking():
            unused = self._delta.vacuum(retention_hours=hours, dry_run=True, full=orphans)
            if not unused:
                return 0  # it would note in the log that it found none
            try:
                return len(self._delta.vacuum(retention_hours=hours, dry_run=False, full=orphans))
            except FROM_STORE as error:
                if no_room(str(error)) is None:
                    raise
            # There is no room for the note in the log that it makes first. Files are what makes room.
            return sum(self._deleted(path) for path in unused)

    def _deleted(self, path: str) -> bool:
        try:
            self._store.delete_file(path)
        except OSError:
            return False
        return True

    def unnamed(self) -> set[str]:
        """Files below the table that neither this version nor a commit before it names, however new they are: others
        may be about to commit them."""
        with self._asking():
            every, named = (
                self._delta.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=True, full=full)
                for full in (True, False)
            )
        return {*every} - {*named}

    def keep(
        self, *, files_hours: int | None = None, log_hours: int | None = None, cleans_log: bool | None = None
    ) -> bool:
        """Return how long files that were replaced, and the log, are kept at least; whether that is new to the table.

        Checkpoints forget sooner that a file was replaced, and vacuum takes it for an orphan then. `cleans_log`:
        whether writers delete old entries of the log with their commits. Raises `ConcurrentCommit`, as does every
        writer that opened the table before.
        """
        wanted = {} if cleans_log is None else {"delta.enableExpiredLogCleanup": str(cleans_log).lower()}
        wanted |= {
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
        with self._committing():
            self._delta.create_checkpoint()

    def clean_log(self) -> None:
        """Delete commits and checkpoints that are older than the log is kept and that no younger version needs."""
        with self._asking():
            self._delta.cleanup_metadata()
