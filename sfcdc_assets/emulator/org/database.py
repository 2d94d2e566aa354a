"""The one SQLite database of an org and the one lock that guards it; everything the org remembers is in here.

The Pub/Sub half keeps its stored events in the same database, so a commit and its events are there together or not
at all.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from sfcdc_assets.emulator.errors import DatabaseFullError, OrgStoppingError
from sfcdc_assets.emulator.org.sql_functions import SQL_FUNCTIONS, in_order

_PAGE_BYTES = 8192
"""Of a new file. A record of a wide object takes 3 KB: pages of 4 KB, SQLite's own choice, would be a third empty."""
_LOADING_CACHE_KIB = 32 * 1024
_PATIENCE_SECONDS = 0.25
_CANNOT_BE_WRITTEN = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})
_PRIMARY_CODE = 0xFF
"""The bits of an error code that are not its extension."""

logger = logging.getLogger(__name__)


class Database:
    """One connection shared by all threads. Hold `lock` (re-entrant) for whatever must not be interleaved.

    Whatever writes raises DatabaseFullError while the disk is full, and logs it once if something was written before.
    Whatever is interrupted by `taken_over`, or comes after `close`, raises OrgStoppingError.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Open the file, or a database in memory. Survives the death of the process, not that of the machine.

        Raises DatabaseFullError.
        """
        self.lock = threading.RLock()
        self._path = path
        self._depth = 0
        self._is_disk_logged = True
        self._is_closed = False
        self._connection = sqlite3.connect(
            path if path is not None else ":memory:",
            check_same_thread=False,
            isolation_level=None,
            cached_statements=512,
        )
        self._connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        self._run("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = OFF")
        # What was deleted is no secret to whoever has the file; some builds of SQLite write zeros over it.
        self._connection.execute("PRAGMA secure_delete = OFF")
        for name, (arguments, function) in SQL_FUNCTIONS.items():
            self._connection.create_function(name, arguments, function, deterministic=True)
        self._connection.create_collation("sf", in_order)
        self.execute("CREATE TABLE IF NOT EXISTS _setting (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")

    def tell_time(self, clock: Callable[[], int]) -> None:
        """Let SQL ask `sf_now()` for the time: epoch ms."""
        self._connection.create_function("sf_now", 0, clock)

    @property
    def version(self) -> int | None:
        """Another number whenever something was written since; None inside a transaction, whose end may undo it."""
        return None if self._connection.in_transaction else self._connection.total_changes

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside is committed together, or rolled back if an exception leaves. Inner calls join the
        outer one."""
        with self.lock:
            if self._depth == 0:
                self._run("BEGIN IMMEDIATE")
            before = self._connection.total_changes
            self._depth += 1
            try:
                yield
                if self._depth == 1:
                    self._run("COMMIT")
            except BaseException:
                # An interrupted statement that writes, or a full disk, has rolled everything back already.
                if self._depth == 1 and self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1
            if self._depth == 0 and self._connection.total_changes != before:
                self._is_disk_logged = False

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Open a `transaction` that fills the database: what it appends is written once, straight into the file, and
        not by way of the write-ahead log. Killed in its midst, the file is as before when it is opened again."""
        with self.lock:
            if self._depth or self._path is None:
                with self.transaction():
                    yield
                return
            cache = self._connection.execute("PRAGMA cache_size").fetchone()[0]
            self._keep_journal("TRUNCATE")
            self._connection.execute(f"PRAGMA cache_size = -{_LOADING_CACHE_KIB}")
            try:
                with self.transaction():
                    yield
            finally:
                self._connection.execute(f"PRAGMA cache_size = {cache}")
                self._keep_journal("WAL")

    def _run(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        try:
            return self._connection.execute(sql, parameters)
        except sqlite3.Error as error:
            self._explain(error)
            raise

    def _explain(self, error: sqlite3.Error) -> None:
        """Raise OrgUnavailableError in place of an error that says so. A full disk is logged once until something is
        written again."""
        code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
        if self._is_closed or code == sqlite3.SQLITE_INTERRUPT:
            raise OrgStoppingError from error
        if code in _CANNOT_BE_WRITTEN:
            full = DatabaseFullError(self._path, str(error))
            if not self._is_disk_logged:
                self._is_disk_logged = True
                logger.warning("%s", full)
            raise full from error

    def _keep_journal(self, mode: str) -> None:
        """Keep a journal from now on; while another program reads the file, it is kept as before, which is slower and
        as safe."""
        with suppress(sqlite3.OperationalError):
            self._connection.execute(f"PRAGMA journal_mode = {mode}")

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Everything written inside is rolled back at the end, and only that."""
        with self.transaction():
            self._connection.execute("SAVEPOINT undone")
            try:
                yield
            finally:
                self._connection.execute("ROLLBACK TO undone")
                self._connection.execute("RELEASE undone")

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run a statement; returns the number of rows it changed."""
        with self.lock:
            return self._run(sql, parameters).rowcount

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each row of parameters."""
        with self.lock:
            try:
                self._connection.executemany(sql, rows)
            except sqlite3.Error as error:
                self._explain(error)
                raise

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query; for large results use `stream`."""
        with self.lock:
            try:
                return self._connection.execute(sql, parameters).fetchall()
            except sqlite3.Error as error:
                self._explain(error)
                raise

    def row(self, sql: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """Return the first row of a query, or None."""
        with self.lock:
            cursor = self._run(sql, parameters)
            try:
                row: tuple[Any, ...] | None = cursor.fetchone()
            except sqlite3.Error as error:
                self._explain(error)
                raise
            finally:
                cursor.close()
            return row

    def stream(self, sql: str, parameters: Sequence[Any] = (), block: int = 1000) -> Iterator[list[tuple[Any, ...]]]:
        """Rows in blocks, with memory for one block. Consume it while holding `lock`, or rows may change in between."""
        cursor = self._run(sql, parameters)
        try:
            while rows := self._fetched(cursor, block):
                yield rows
        finally:
            cursor.close()

    def _fetched(self, cursor: sqlite3.Cursor, most: int) -> list[tuple[Any, ...]]:
        try:
            return cursor.fetchmany(most)
        except sqlite3.Error as error:
            self._explain(error)
            raise

    def setting(self, key: str) -> str | None:
        """Return a remembered text, or None."""
        row = self.row("SELECT value FROM _setting WHERE key = ?", (key,))
        return row[0] if row else None

    def set_setting(self, key: str, value: str) -> None:
        """Remember a text under a key."""
        self.execute(
            "INSERT INTO _setting VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value)
        )

    @contextmanager
    def taken_over(self) -> Iterator[None]:
        """Take the lock, from whoever has it: short transactions are let through, and statements that take longer end
        with an error; what those had begun to write is undone."""
        while not self.lock.acquire(timeout=_PATIENCE_SECONDS):
            self._connection.interrupt()
        try:
            yield
        finally:
            self.lock.release()

    def close(self) -> None:
        """Close the connection; the org cannot be used afterwards."""
        with self.lock:
            self._is_closed = True
            self._connection.close()


@cache
def quoted(identifier: str) -> str:
    """Return an SQL identifier in double quotes. Identifiers come from object definitions, never from a request."""
    return '"' + identifier.replace('"', '""') + '"'
