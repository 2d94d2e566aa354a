"""The root of the tables: where each one lies, and whether it can be written."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from pyarrow import fs

from sfcdc_assets.lake.errors import WarehouseNotWritable

ENTITIES_AT_ONCE = 48
"""Whose tables an object store is asked for, or given, beside each other: it answers each of a hundred questions about
them after some hundredths of a second, and thousands of them in one."""


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

    @property
    def folder(self) -> Path:
        """The local root as an absolute path."""
        return Path(self.root.removeprefix("file://")).expanduser().absolute()

    def uri(self, table: str) -> str:
        """URI of a table named by its path below the root, such as `current_state/Account`."""
        if self.is_local:
            return str(self.folder / table)
        return f"{self.root.rstrip('/')}/{table}"

    def filesystem(self, table: str) -> fs.FileSystem:
        """A file system rooted at the table, for tasks that read and write its files themselves. It is pickled with
        what opens the store (`storage_options`); its repr shows none of that."""
        if self.is_local:
            return fs.SubTreeFileSystem(self.uri(table), fs.LocalFileSystem())
        from sfcdc_assets.lake.storage_options import storage_options  # noqa: PLC0415 - tasks on local tables need not import deltalake
        from sfcdc_assets.lake.store_files import StoreFiles  # noqa: PLC0415

        return fs.PyFileSystem(StoreFiles(self.uri(table), storage_options(self.root)))

    def check_writable(self) -> None:
        """Create the local root if need be and write to it; raises `WarehouseNotWritable`.

        An object store is asked once a process; raises `StoreRefused` and `StoreUnavailable`.
        """
        if not self.is_local:
            from sfcdc_assets.lake.store_access import check_store  # noqa: PLC0415 - see filesystem()

            check_store(self.root)
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
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
            from sfcdc_assets.lake.stores import store_refusals  # noqa: PLC0415 - see filesystem()

            with store_refusals(self.root):
                found = files.get_file_info(folder)
        return tuple(sorted(info.base_name for info in found if info.type == fs.FileType.Directory))
