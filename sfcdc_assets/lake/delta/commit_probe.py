"""Whether a store refuses all but one of the commits that are made of one version of a table.

All that no event is lost by stands on this. deltalake makes such commits by a conditional write, by a lock, or, where
settings say so, by neither: so commits are made, not requests of the store's. A store that lets them replace each other
is found as soon as two of them meet, so writers try it at the same moment, and more than once.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import CommitsNotAtomic, ConcurrentCommit, WarehouseNotWritable
from sfcdc_assets.lake.warehouse import Warehouse


def nearest_folder(folder: Path) -> Path:
    """Return the folder, or the nearest above it that exists."""
    return next(each for each in (folder, *folder.parents) if each.exists())


@contextmanager
def probe_of(warehouse: Warehouse, name: str) -> Iterator[Warehouse]:
    """Yield a folder of this name below the root, removed at the end. A root that does not exist yet is not created:
    the folder is where the root would be. Raises `WarehouseNotWritable`."""
    if not warehouse.is_local:
        probe = Warehouse(warehouse.uri(name))
        yield probe
        probe_files: fs.FileSystem = warehouse.filesystem("")
        probe_files.delete_dir(name)
        return
    try:
        folder = tempfile.mkdtemp(prefix=f".{name}-", dir=nearest_folder(warehouse.folder))
    except OSError as error:
        raise WarehouseNotWritable(warehouse.root, error.strerror or str(error)) from error
    try:
        yield Warehouse(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


WRITERS, ROUNDS = 8, 4
_SCHEMA = pa.schema([("number", pa.int64())])


def commits_accepted(probe: Warehouse) -> int:
    """Return the most commits of one version that were accepted, in any round: 1 where no commit can be lost. `probe`:
    a warehouse that is removed afterwards."""
    Table.open_or_create(probe, "commits", _SCHEMA)
    return max(_commits_at_once(probe, number) for number in range(1, ROUNDS + 1))


def check_commits(warehouse: Warehouse) -> None:
    """Raise `CommitsNotAtomic` where commits would be lost, before there is a table of the warehouse."""
    with probe_of(warehouse, f"probe-{uuid4().hex}") as probe:
        accepted = commits_accepted(probe)
    if accepted != 1:
        raise CommitsNotAtomic(warehouse.root, accepted, WRITERS)


def _commits_at_once(probe: Warehouse, number: int) -> int:
    """Return how many were accepted."""
    tables = [Table.open_or_create(probe, "commits", _SCHEMA) for _ in range(WRITERS)]
    together = Barrier(WRITERS)
    row = pa.Table.from_pylist([{"number": number}], schema=_SCHEMA)

    def is_accepted(table: Table) -> bool:
        together.wait()
        try:
            table.append(row, {"probe": number}, {})
        except ConcurrentCommit:
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        return sum(pool.map(is_accepted, tables))
