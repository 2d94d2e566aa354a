"""Pack the small files of a table whose rows are only appended.

The new files are written first, while others go on with the table. Then, in an instant, a look shows whether what they
stand for is still there, and one commit puts them in its place. A file that somebody replaced meanwhile is left to him:
its group is given up, and packed the next time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import fs

from sfcdc_assets.lake.data_files import DataFile, PackedFiles
from sfcdc_assets.lake.errors import TableDamaged, TableNotWritten
from sfcdc_assets.lake.retry_on_conflict import retry_on_conflict
from sfcdc_assets.lake.store_errors import reason_of
from sfcdc_assets.lake.stores import store_refusals
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.unreadable_file import unreadable
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.maintenance.packed_file import write_packed
from sfcdc_assets.maintenance.tiers import FULL_BYTES, SMALLEST_BYTES, groups

FILES_IN_A_COMMIT = 5_000


Apart = Callable[[DataFile], Hashable]


def all_together(table: Table) -> Apart:
    """All files of a partition may be packed together."""
    return lambda _: None


@dataclass(frozen=True)
class Packing:
    """How a table is packed: the columns that order its rows and its files; what keeps its files apart beside their
    partition."""

    order: tuple[str, ...]
    apart: Callable[[Table], Apart] = all_together


@dataclass(frozen=True)
class Packed:
    """How many files were packed into how many, and how many groups were given up because others were first."""

    files: int = 0
    into: int = 0
    given_up: int = 0

    def __add__(self, other: Packed) -> Packed:
        return Packed(self.files + other.files, self.into + other.into, self.given_up + other.given_up)


def pack(warehouse: Warehouse, name: str, packing: Packing, full: int = FULL_BYTES) -> Packed:
    """Pack what is worth it; a full file has `full` bytes. Raises `RowsMissing`, `TableDamaged`, `TableNotWritten`, and
    `ConcurrentCommit` when others were first ten times."""
    table = Table.open(warehouse, name)
    if table is None:
        return Packed()
    filesystem = warehouse.filesystem(name)
    done, waiting = Packed(), list[PackedFiles]()
    for each in _written(warehouse, table, filesystem, packing, full):
        waiting.append(each)
        if sum(len(group.removed) for group in waiting) >= FILES_IN_A_COMMIT:
            done, waiting = done + _commit(warehouse, name, waiting, filesystem), []
    return done + _commit(warehouse, name, waiting, filesystem)


def _written(
    warehouse: Warehouse, table: Table, filesystem: fs.FileSystem, packing: Packing, full: int
) -> Iterator[PackedFiles]:
    """New files that no commit names yet, each with those whose rows it has."""
    partitioned = set(table.partition_columns())
    schema = pa.schema([field.remove_metadata() for field in table.schema if field.name not in partitioned])
    statistics_on = table.column_statistics()
    side_by_side: dict[Hashable, list[DataFile]] = defaultdict(list)
    apart = packing.apart(table)
    for file in table.files():
        side_by_side[tuple(file.partition.items()), apart(file)].append(file)
    for files in side_by_side.values():
        files.sort(key=lambda file: _first(file, packing.order))
        for each in groups([max(file.size, SMALLEST_BYTES) for file in files], full):
            removed = [files[index] for index in each]
            with _as_damage(warehouse.root, table.name, filesystem, removed):
                added = write_packed(filesystem, removed, schema, packing.order, statistics_on)
            yield PackedFiles([added], removed)


@contextmanager
def _as_damage(root: str, name: str, filesystem: fs.FileSystem, files: Sequence[DataFile]) -> Iterator[None]:
    """Raises what the store says as `TableDamaged`, with the file, or `TableNotWritten`, but for what it refuses."""
    try:
        with store_refusals(root):
            yield
    except (OSError, pa.ArrowException) as error:
        found = unreadable(root, filesystem, (file.path for file in files))
        if found is None:
            raise TableNotWritten(name, {}, name, reason_of(error)) from error
        raise TableDamaged(
            name, files[0].partition.get("entity_name"), found[0], f"cannot be read ({found[1]})"
        ) from error


def _first(file: DataFile, order: Sequence[str]) -> list[tuple[bool, object]]:
    """Where a file begins in the order; one that the log does not tell this of comes first."""
    firsts = [file.statistics.get(f"min.{name}") for name in order]
    return [(first is not None, first if first is not None else 0) for first in firsts]


@retry_on_conflict
def _commit(warehouse: Warehouse, name: str, written: Sequence[PackedFiles], filesystem: fs.FileSystem) -> Packed:
    if not written:
        return Packed()
    table = Table.open(warehouse, name)
    live = set(table.file_statistics()["path"]) if table is not None else set()
    sound = [each for each in written if all(file.path in live for file in each.removed)]
    if table is not None and sound:
        table.pack_files(sound)
    for each in written:
        if each not in sound:
            _delete(filesystem, each)
    return Packed(
        sum(len(each.removed) for each in sound), sum(len(each.added) for each in sound), len(written) - len(sound)
    )


def _delete(filesystem: fs.FileSystem, written: PackedFiles) -> None:
    """Files that no commit will name; should it fail, vacuum finds them."""
    for file in written.added:
        with suppress(OSError):
            filesystem.delete_file(file.path)
