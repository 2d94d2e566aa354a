"""Pack the small files of a table whose rows are only appended.

The new files are written first, while others go on with the table. Then, in an instant, a look shows whether what they
stand for is still there, and one commit puts them in its place. A file that somebody replaced meanwhile is left to him:
its group is given up, and packed the next time.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.delta.data_files import DataFile, NewFile, PackedFiles, unreadable
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.delta.written_file import write_parts
from sfcdc_assets.lake.errors import TableDamaged, TableNotWritten
from sfcdc_assets.lake.maintenance.rows_in_order import RowsInOrder
from sfcdc_assets.lake.store.object_stores import store_refusals
from sfcdc_assets.lake.store.store_errors import no_room, reason_of
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError


class RowsMissing(SfcdcError):
    """Files do not have the rows that the log says."""

    def __init__(self, path: str, expected: int, found: int) -> None:
        self.expected, self.found = expected, found
        super().__init__(
            f"{path} and the files beside it have {found:,} rows, their log says {expected:,}: they are not packed. "
            "`sfcdc status` says which table is damaged, and what mends it."
        )


def write_packed(
    filesystem: fs.FileSystem,
    files: Sequence[DataFile],
    schema: pa.Schema,
    order: Sequence[str],
    statistics_on: Sequence[str],
) -> NewFile:
    """Return the files, all of one partition, as one that no commit names yet, with its rows sorted by the columns of
    `order`.

    `schema`: that of the table without partition columns; what an older file lacks is null, and view types, as
    deltalake writes them, become plain ones. Raises `RowsMissing`.
    """
    found = RowsInOrder(filesystem, [unquote(file.path) for file in files], schema, order)
    expected = sum(file.rows for file in files)
    if found.rows != expected:
        raise RowsMissing(files[0].path, expected, found.rows)
    partition = files[0].partition
    folder = "".join(f"{name}={value}/" for name, value in partition.items())
    path = f"{folder}packed-{uuid.uuid4()}.parquet"
    return write_parts(filesystem, path, schema, found.parts(), statistics_on, partition)


FULL_BYTES = 32 * 1024 * 1024
"""A file of this size is left as it is. What is packed at one time is this much, in compressed form."""
SMALLEST_BYTES = 64 * 1024
"""What a smaller file counts as: to have it costs no less. So at most 512 are packed at one time."""


TIMES_LARGEST = 2
"""How many times its largest file a group of files has at least, to be packed: each row is written again as often as
its file can grow so."""
OFTEN_TIMES_LARGEST = 8
"""The same of what is packed every ten minutes. A cut that is kept for a day keeps the files that it names, so where
rows are written again each hour, every hour's cut has files of its own: six times what lives after a day, with 8
twice."""


def groups(sizes: Sequence[int], full: int = FULL_BYTES, times: int = TIMES_LARGEST) -> list[range]:
    """Files to pack, as ranges of indices of `sizes`, each of two or more and `times` its largest file; in order,
    without overlap."""
    found: list[range] = []
    for run in _runs(sizes, full):
        found += _balanced(sizes, run, times)
    return found


def _runs(sizes: Sequence[int], full: int) -> Iterator[range]:
    """Yield the files in ranges that fit into a full one; a full one ends the range before it."""
    start, total = 0, 0
    for index, size in enumerate(sizes):
        if total + size > full:
            yield range(start, index)
            start, total = index, 0
        total += size
    yield range(start, len(sizes))


def _balanced(sizes: Sequence[int], run: range, times: int) -> Iterator[range]:
    """Yield the range without files that are too large beside the others; these part it."""
    waiting = [run]
    while waiting:
        each = waiting.pop()
        if len(each) < 2:
            continue
        largest = max(each, key=lambda index: sizes[index])
        if times * sizes[largest] <= sum(sizes[index] for index in each):
            yield each
        else:
            waiting += [range(largest + 1, each.stop), range(each.start, largest)]


FILES_IN_A_COMMIT = 5_000


Apart = Callable[[DataFile], Hashable]


def all_together(_table: Table) -> Apart:
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


def pack(
    warehouse: Warehouse, name: str, packing: Packing, full: int = FULL_BYTES, times: int = TIMES_LARGEST
) -> Packed:
    """Pack what is worth it (`groups`); a full file has `full` bytes. Raises `RowsMissing`, `TableDamaged`,
    `TableNotWritten`, and `ConcurrentCommit` when others were first ten times."""
    table = Table.open(warehouse, name)
    if table is None:
        return Packed()
    filesystem = warehouse.filesystem(name)
    done, waiting = Packed(), list[PackedFiles]()
    try:
        for each in _written(warehouse, table, filesystem, packing, full, times):
            waiting.append(each)
            if sum(len(group.removed) for group in waiting) >= FILES_IN_A_COMMIT:
                done, waiting = done + commit_packed(warehouse, name, waiting, filesystem), []
    except SfcdcError:
        commit_packed(warehouse, name, waiting, filesystem)  # a file that cannot be read keeps no others from it
        raise
    return done + commit_packed(warehouse, name, waiting, filesystem)


def packable(table: Table, packing: Packing) -> int:
    """Return how many files would be packed into fewer; from the log alone."""
    return sum(len(each) for each in _groups(table, packing, FULL_BYTES, TIMES_LARGEST))


def _written(
    warehouse: Warehouse, table: Table, filesystem: fs.FileSystem, packing: Packing, full: int, times: int
) -> Iterator[PackedFiles]:
    """Yield new files that no commit names yet, each with those whose rows it has."""
    partitioned = set(table.partition_columns())
    schema = pa.schema([field.remove_metadata() for field in table.schema if field.name not in partitioned])
    statistics_on = table.column_statistics()
    for removed in _groups(table, packing, full, times):
        with report_damage(warehouse.root, table.name, filesystem, removed):
            added = write_packed(filesystem, removed, schema, packing.order, statistics_on)
        yield PackedFiles([added], removed)


def _groups(table: Table, packing: Packing, full: int, times: int) -> Iterator[list[DataFile]]:
    """Files to pack together."""
    side_by_side: dict[Hashable, list[DataFile]] = defaultdict(list)
    apart = packing.apart(table)
    for file in table.files():
        side_by_side[tuple(file.partition.items()), apart(file)].append(file)
    for files in side_by_side.values():
        files.sort(key=lambda file: _first(file, packing.order))
        for each in groups([max(file.size, SMALLEST_BYTES) for file in files], full, times):
            yield [files[index] for index in each]


@contextmanager
def report_damage(root: str, name: str, filesystem: fs.FileSystem, files: Sequence[DataFile]) -> Iterator[None]:
    """Raise what the store says as `TableDamaged`, with the file, or `TableNotWritten`, but for what it refuses."""
    try:
        with store_refusals(root):
            yield
    except (OSError, pa.ArrowException) as error:
        if (full := no_room(str(error))) is not None:
            raise TableNotWritten(name, {}, name, full) from error
        found = unreadable(root, filesystem, (file.path for file in files))
        if found is None:
            raise TableNotWritten(name, {}, name, reason_of(error)) from error
        raise TableDamaged(
            name, files[0].partition.get("entity_name"), found[0], f"cannot be read ({found[1]})"
        ) from error


def _first(file: DataFile, order: Sequence[str]) -> list[tuple[bool, object]]:
    """Return where a file begins in the order; one that the log does not tell this of comes first."""
    firsts = [file.statistics.get(f"min.{name}") for name in order]
    return [(first is not None, first if first is not None else 0) for first in firsts]


@retry_on_conflict
def commit_packed(warehouse: Warehouse, name: str, written: Sequence[PackedFiles], filesystem: fs.FileSystem) -> Packed:
    """Put files in the place of those whose rows they have, of which none was replaced meanwhile; the others are
    deleted. Raises `ConcurrentCommit` when others were first ten times."""
    if not written:
        return Packed()
    table = Table.open(warehouse, name)
    live = set(table.file_statistics()["path"]) if table is not None else set()
    sound = [each for each in written if all(file.path in live for file in each.removed)]
    if table is not None and sound:
        try:
            table.pack_files(sound)
        except TableNotWritten:
            for each in written:
                _delete(filesystem, each)
            raise
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
