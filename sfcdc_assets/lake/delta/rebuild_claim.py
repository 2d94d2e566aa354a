"""One rebuild of a table at a time: a claim that ends with the process that has it, however that ends.

In a folder of this machine it is a lock of the kernel. In an object store it is a lease: a commit to the table
`rebuilds`, of which one process can make the next, and a sign of life every minute; who gave none for ten minutes has
lost it.
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.runtime.times import utc

NAME = "rebuilds"
REBUILDS = pa.schema([("table", pa.string()), ("begun_at", pa.timestamp("us", "UTC")), ("host", pa.string())])
"""One row a claim in an object store."""
LOCKS = ".locks"
"""The folder of a local warehouse with a file for each table that was ever claimed."""
BEAT_SECONDS = 60.0
EXPIRES_MS = 600_000

Check = Callable[[], None]
"""Raises `RebuildOvertaken` where the claim is not ours any more."""


class RebuildAtWork(SfcdcError):
    """The table is being rebuilt by another process."""

    def __init__(self, table: str, ends_by_itself: str) -> None:
        self.table = table
        super().__init__(
            f"{table}: another rebuild of it is at work, and this one changed nothing. Let the other end, or stop it, "
            f"and start again{ends_by_itself}."
        )


class RebuildOvertaken(SfcdcError):
    """What was built is not there any more: another rebuild has begun since."""

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(
            f"{table}: another rebuild has begun while this one stood still, and what this one built is given up. The "
            "tables stay as they are; start the rebuild again when the other has ended."
        )


@contextmanager
def claimed(warehouse: Warehouse, table: str) -> Iterator[Check]:
    """Have the claim on rebuilding a table. Raises `RebuildAtWork`."""
    with (_locked if warehouse.is_local else _leased)(warehouse, table) as check:
        yield check


@contextmanager
def _locked(warehouse: Warehouse, table: str) -> Iterator[Check]:
    folder = warehouse.folder / LOCKS
    folder.mkdir(parents=True, exist_ok=True)
    file = os.open(folder / f"{table.replace('/', '.')}.rebuild", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RebuildAtWork(table, "") from None
        yield lambda: None
    finally:
        os.close(file)


@contextmanager
def _leased(warehouse: Warehouse, table: str) -> Iterator[Check]:
    lease = _Lease(warehouse, table)
    done = threading.Event()
    beating = threading.Thread(target=lease.beat_until, args=(done,), name=f"claim on {table}", daemon=True)
    beating.start()
    try:
        yield lease.check
    finally:
        done.set()
        beating.join()
        with suppress(SfcdcError):
            lease.end()


class _Lease:
    """A claim in an object store, taken when it is made."""

    def __init__(self, warehouse: Warehouse, table: str) -> None:
        self._warehouse, self._table = warehouse, table
        claims, now = Table.open_or_create(warehouse, NAME, REBUILDS), clock.now_ms()
        if now - (claims.transaction_version(self._alive) or 0) < EXPIRES_MS:
            raise RebuildAtWork(table, f"; one that was killed gives way after {EXPIRES_MS // 60_000} minutes")
        self._number = (claims.transaction_version(table) or 0) + 1
        row = {"table": table, "begun_at": utc(now), "host": socket.gethostname()}
        try:
            claims.append(pa.Table.from_pylist([row], REBUILDS), {table: self._number, self._alive: now}, {})
        except ConcurrentCommit:
            raise RebuildAtWork(table, "") from None

    @property
    def _alive(self) -> str:
        return f"{self._table}#alive"

    def beat_until(self, done: threading.Event) -> None:
        """Give signs of life; one that fails is given with the next."""
        while not done.wait(BEAT_SECONDS):
            with suppress(SfcdcError):
                self._note(clock.now_ms())

    def check(self) -> None:
        """See `Check`: a sign of life that another claim has not come before."""
        self._note(clock.now_ms())

    def end(self) -> None:
        """Let others have it at once."""
        self._note(0)

    def _note(self, alive_ms: int) -> None:
        for _ in range(3):  # the other writer may be our own thread
            claims = Table.open_or_create(self._warehouse, NAME, REBUILDS)
            if claims.transaction_version(self._table) != self._number:
                raise RebuildOvertaken(self._table)
            try:
                claims.append(REBUILDS.empty_table(), {self._alive: alive_ms}, {})
            except ConcurrentCommit:
                continue
            return
        raise RebuildOvertaken(self._table)
