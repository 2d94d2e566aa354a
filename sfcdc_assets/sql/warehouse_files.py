"""Where DuckDB finds the files of a warehouse.

In a folder it opens them by their paths. An object store is read through deltalake, with the credentials that write the
tables: DuckDB's own reader of object stores is an extension to be downloaded, with settings of its own.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Any

from fsspec import AbstractFileSystem
from pyarrow import fs

from sfcdc_assets.lake.delta.data_files import unreadable
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.warehouse import Warehouse

PROTOCOL = "sfcdc"


def location(warehouse: Warehouse, table: str, path: str) -> str:
    """Return the location of a file, for DuckDB in this process."""
    return f"{warehouse.uri(table)}/{path}" if warehouse.is_local else f"{PROTOCOL}://{table}/{path}"


def damage_named_in(error: Exception, warehouse: Warehouse) -> TableDamaged | None:
    """Return what DuckDB could not read, where it names a file of the warehouse and this cannot be read."""
    begins = warehouse.uri("").rstrip("/") if warehouse.is_local else f"{PROTOCOL}:/"
    for path in re.findall(rf"{re.escape(begins)}/([^\"']+?\.parquet)", str(error)):
        table = "/".join(takewhile(lambda each: "=" not in each, path.split("/")[:-1]))  # without its partitions
        file = path.removeprefix(f"{table}/")
        found = unreadable(warehouse.root, warehouse.filesystem(table), [file])
        if found is not None:
            return TableDamaged(table, None, file, f"cannot be read ({found[1]})")
    return None


def location_for_others(warehouse: Warehouse, table: str, path: str) -> str:
    """Return the location of a file, for any DuckDB that reaches the warehouse."""
    return f"{warehouse.uri(table)}/{path}"


class WarehouseFiles(AbstractFileSystem):  # type: ignore[misc]
    """The files of an object store for DuckDB, read only."""

    protocol = PROTOCOL
    cachable = False

    def __init__(self, warehouse: Warehouse) -> None:
        super().__init__()
        self._store: fs.FileSystem = warehouse.filesystem("")

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Size and time of a file."""
        found = self._store.get_file_info([self._strip_protocol(path)])[0]
        if found.type is not fs.FileType.File:
            raise FileNotFoundError(path)
        return {"name": path, "size": found.size, "type": "file", "mtime": found.mtime}

    def modified(self, path: str) -> Any:
        """Return when a file was written."""
        return self.info(path)["mtime"]

    def _open(self, path: str, mode: str = "rb", *_: Any, **__: Any) -> Any:
        if mode != "rb":
            raise PermissionError(f"{path}: the tables are only read")
        return self._store.open_input_file(self._strip_protocol(path))
