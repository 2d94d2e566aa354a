"""The root of the tables: where each one lies, and whether it can be written."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from functools import cached_property
from os.path import join
from pathlib import Path

from pyarrow import fs

from sfcdc_assets.lake.errors import TableNameUnusable, WarehouseNotWritable, WarehousePathUnusable

ENTITIES_AT_ONCE = 48
"""Whose tables an object store is asked for, or given, beside each other: it answers each of a hundred questions about
them after some hundredths of a second, and thousands of them in one."""
_UNUSABLE = re.compile(r"[\x00-\x1f\x7f\[\]^|\\]|%[0-9A-Fa-f]{2}")
"""What delta-rs does not find again in a path, or stops the process at (`[`): it takes the path for a URL."""
_UNUSABLE_IN_A_STORE = re.compile(rf"{_UNUSABLE.pattern}|[?#]|/\.{{0,2}}(?=/)")
"""The same of the path in a store, with a slash at its end: what follows `?` or `#` would be left out, and all tables
would lie in one folder; steps such as `..` lead elsewhere, and an empty one is refused."""
_TABLE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=-]*(/[A-Za-z0-9_][A-Za-z0-9_.=-]*)*", re.ASCII)
"""Names of objects and channels are checked where they enter; this holds whoever forgets it."""


@dataclass(frozen=True)
class Warehouse:
    """A folder, or an object store URI (`s3://bucket/prefix`), below which every table has its own folder."""

    root: str

    @property
    def is_local(self) -> bool:
        """True when the tables lie in a folder of this machine."""
        return "://" not in self.root or self.root.startswith("file://")

    @property
    def looks_at_once(self) -> int:
        """How many entities' tables are looked at beside each other: to open one is work of delta-rs, which does not
        keep Python from going on, and in an object store mostly waiting."""
        return 4 if self.is_local else 32

    @cached_property
    def folder(self) -> Path:
        """The local root as an absolute path, found once: it is part of the name of every file that is opened. Raises
        `WarehousePathUnusable`."""
        folder = Path(self.root.removeprefix("file://")).expanduser().absolute()
        found = _UNUSABLE.search(str(folder))
        if found is not None:
            raise WarehousePathUnusable(str(folder), found[0])
        return folder

    @cached_property
    def _folder(self) -> str:
        return str(self.folder)

    @cached_property
    def _store(self) -> str:
        root = self.root.rstrip("/")
        found = _UNUSABLE_IN_A_STORE.search(f"{root.partition('://')[2]}/")
        if found is not None:
            raise WarehousePathUnusable(root, found[0])
        return root

    def uri(self, table: str) -> str:
        """URI of a table named by its path below the root, such as `current_state/Account`. Raises `TableNameUnusable`
        for a path that could lead out of it, and `WarehousePathUnusable`."""
        if table and not _TABLE.fullmatch(table):
            raise TableNameUnusable(table)
        if self.is_local:
            return join(self._folder, table) if table else self._folder
        return f"{self._store}/{table}"

    def filesystem(self, table: str) -> fs.FileSystem:
        """Return a file system rooted at the table, for tasks that read and write its files themselves. It is pickled
        with what opens the store (`storage_options`); its repr shows none of that."""
        if self.is_local:
            return fs.SubTreeFileSystem(self.uri(table), fs.LocalFileSystem())
        from sfcdc_assets.lake.store.store_files import StoreFiles  # noqa: PLC0415
        from sfcdc_assets.lake.store.store_options import storage_options  # noqa: PLC0415 - tasks on local tables need not import deltalake

        return fs.PyFileSystem(StoreFiles(self.uri(table), storage_options(self.root)))

    def check_writable(self) -> None:
        """Create the local root if need be and write to it; raises `WarehouseNotWritable`.

        An object store is asked once a process; raises `StoreRefused` and `StoreUnavailable`. Raises
        `WarehousePathUnusable` before it writes anything.
        """
        if not self.is_local:
            from sfcdc_assets.lake.store.store_options import check_store  # noqa: PLC0415 - see filesystem()

            check_store(self._store)
            return
        try:
            # Customers' data: its owner says who else may read it.
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            raise WarehouseNotWritable(self.root, error.strerror or str(error)) from error

    def entities(self, layer: str) -> tuple[str, ...]:
        """Entities that have a table in a layer (`current_state`, `snapshot`, ...), in alphabetical order. Raises
        `StoreRefused` and `StoreUnavailable`."""
        folder, files = fs.FileSelector(layer, allow_not_found=True), self.filesystem("")
        if self.is_local:
            found = files.get_file_info(folder)
        else:
            from sfcdc_assets.lake.store.object_stores import store_refusals  # noqa: PLC0415 - see filesystem()

            with store_refusals(self.root):
                found = files.get_file_info(folder)
        return tuple(sorted(info.base_name for info in found if info.type == fs.FileType.Directory))
