"""Tables that are built beside those that readers use, and put in their place by one commit each.

The new form of a table is a Delta table of its own in a folder below it (`current_state/Account/rebuilt-<id>`). So its
data files lie where the table itself can name them: one commit replaces all files, the schema and the transaction
versions, nothing is copied or renamed, and the table's versions go on. It is the same on an object store. Until that
commit readers see the table as it was.

One process builds a table at a time (`rebuild_claim`). So a folder that is there when the claim is taken, and whose
files the table does not have, was left by a process that was killed, and is removed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import unquote

from pyarrow import fs

from sfcdc_assets.key_ranges.data_file import delta_json
from sfcdc_assets.lake.delta.data_files import DataFile, NewFile
from sfcdc_assets.lake.delta.rebuild_claim import Check, RebuildOvertaken, claimed
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import ConcurrentCommit, TableDamaged, UnreadableTable
from sfcdc_assets.lake.warehouse import Warehouse

PREFIX = "rebuilt-"
LOG = "_delta_log"


@dataclass(frozen=True)
class Beside(Warehouse):
    """The warehouse, but for `tables`: their new forms, in a folder below each."""

    below: str
    tables: tuple[str, ...]
    check_claim: Check = field(repr=False, compare=False)

    def uri(self, table: str) -> str:
        """URI of the new form of a table that is built, and of any other table itself."""
        root = super().uri(table)
        return f"{root}/{self.below}" if table in self.tables else root

    @property
    def present(self) -> Warehouse:
        """The warehouse as readers see it."""
        return Warehouse(self.root)


@contextmanager
def build_beside(warehouse: Warehouse, tables: Sequence[str]) -> Iterator[Beside]:
    """Build tables, of which the last has the claim for all; what a killed process left is removed. Raises
    `RebuildAtWork` where another process builds them."""
    with claimed(warehouse, tables[-1]) as check:
        for table in tables:
            _remove_leftovers(warehouse, table)
        yield Beside(warehouse.root, f"{PREFIX}{uuid.uuid4().hex[:12]}", tuple(tables), check)


def open_if_readable(warehouse: Warehouse, name: str) -> Table | None:
    """Return the table, None where there is none or its log cannot be read as what its files are."""
    try:
        table = Table.open(warehouse, name)
        if table is not None:
            table.files()
    except (TableDamaged, UnreadableTable):
        return None
    return table


def put_in_place(beside: Beside, name: str, present: Table | None, versions: Mapping[str, int]) -> None:
    """Make the table what was built, in one commit through `present`, with these transaction versions.

    `present` is `open_if_readable`: a table that nobody can read has no versions to go on from, so its log makes room
    for a new one. Raises `ConcurrentCommit`, and `RebuildOvertaken` where what was built is gone.
    """
    built = built_table(beside, name)
    if present is None:
        if open_if_readable(beside.present, name) is not None:
            raise ConcurrentCommit(name, "another process has created it meanwhile")
        _delete(beside.present.filesystem(name), LOG)
        present = Table.create_like(beside.present, name, built)
    files = [_below(beside.below, file, built.partition_columns()) for file in built.files()]
    present.rewrite(files, built.schema, versions)


def built_table(beside: Beside, name: str) -> Table:
    """Return what was built of a table, all of its files being there. Raises `RebuildOvertaken`."""
    beside.check_claim()
    built = Table.open(beside, name)
    if built is None:
        raise RebuildOvertaken(name)
    folder = fs.FileSelector("", recursive=True, allow_not_found=True)
    present = {each.path.lstrip("/") for each in beside.filesystem(name).get_file_info(folder)}
    if any(unquote(file.path) not in present for file in built.files()):
        raise RebuildOvertaken(name)
    return built


def finish(beside: Beside) -> None:
    """Remove what only the building needed."""
    for name in beside.tables:
        _delete(beside.present.filesystem(name), f"{beside.below}/{LOG}")


def _remove_leftovers(warehouse: Warehouse, name: str) -> None:
    """Remove the folders that an unfinished building left, but for those whose files the table has."""
    filesystem = warehouse.filesystem(name)
    if filesystem.get_file_info(LOG).type is not fs.FileType.Directory:
        named: list[str] = []
    elif (table := open_if_readable(warehouse, name)) is not None:
        named = [file.path for file in table.files()]
    else:
        return  # nothing says what is a leftover
    for found in filesystem.get_file_info(fs.FileSelector("", allow_not_found=True)):
        folder = found.base_name
        if found.type is fs.FileType.Directory and folder.startswith(PREFIX) and _has_log(filesystem, folder):
            is_in_place = any(path.startswith(f"{folder}/") for path in named)
            _delete(filesystem, f"{folder}/{LOG}" if is_in_place else folder)


def _has_log(filesystem: fs.FileSystem, folder: str) -> bool:
    return filesystem.get_file_info(f"{folder}/{LOG}").type is fs.FileType.Directory


def _delete(filesystem: fs.FileSystem, folder: str) -> None:
    if filesystem.get_file_info(folder).type is fs.FileType.Directory:
        filesystem.delete_dir(folder)


def _below(folder: str, file: DataFile, partitioned: Sequence[str]) -> NewFile:
    found = file.statistics
    statistics = {
        "numRecords": file.rows,
        "minValues": _of(found, "min."),
        "maxValues": _of(found, "max."),
        "nullCount": _of(found, "null_count."),
    }
    partition = {name: str(found[f"partition.{name}"]) for name in partitioned}
    return NewFile(f"{folder}/{file.path}", file.size, json.dumps(statistics), partition)


def _of(statistics: Mapping[str, object], prefix: str) -> dict[str, object]:
    return {
        key.removeprefix(prefix): delta_json(value)
        for key, value in statistics.items()
        if key.startswith(prefix) and value is not None
    }
