"""A warehouse of a moment, to see what the store of a real one does."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyarrow import fs

from sfcdc_assets.lake.errors import WarehouseNotWritable
from sfcdc_assets.lake.warehouse import Warehouse


def nearest_folder(folder: Path) -> Path:
    """The folder, or the nearest above it that exists."""
    return next(each for each in (folder, *folder.parents) if each.exists())


@contextmanager
def probe_of(warehouse: Warehouse, name: str) -> Iterator[Warehouse]:
    """A folder of this name below the root, removed at the end. A root that does not exist yet is not created: the
    folder is where the root would be. Raises `WarehouseNotWritable`."""
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
