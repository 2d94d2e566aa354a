"""The live files of a table, written again without the rows of a record."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from urllib.parse import unquote

import pyarrow as pa

from sfcdc_assets.key_ranges.data_file import deleted_on_failure
from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.delta.data_files import DataFile, NewFile
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.delta.written_file import write_file
from sfcdc_assets.lake.erasure.erasable_tables import Erasable
from sfcdc_assets.lake.warehouse import Warehouse


def rows_found(warehouse: Warehouse, wanted: Erasable) -> int:
    """Return how many rows of the table, as it is now, name the records. Memory holds a file's columns with ids."""
    table = Table.open(warehouse, wanted.table)
    return sum(_count(table, file, wanted) for file in table.files() if wanted.has(file)) if table is not None else 0


@retry_on_conflict
def erase_rows(warehouse: Warehouse, wanted: Erasable) -> int:
    """Write the files again that name the records, in one commit; returns how many rows they were in.

    Writers that opened the table before are refused from then on, whether or not a file was written: what they have
    read may have the records. Memory holds a file. Raises `ConcurrentCommit` after any commit since.
    """
    table = Table.open(warehouse, wanted.table)
    if table is None:
        return 0
    filesystem, names = warehouse.filesystem(wanted.table), _columns(table)
    plain = pa.schema([table.schema.field(name).remove_metadata() for name in names])
    added: list[NewFile] = []
    removed: list[DataFile] = []
    erased = 0
    transactions = wanted.fence(table)
    with ExitStack() as written:
        for file in table.files():
            count = _count(table, file, wanted) if wanted.has(file) else 0
            if not count:
                continue
            erased += count
            removed.append(file)
            rows = wanted.rows.without(table.read_files([file.path], names)).cast(plain)
            if not rows.num_rows:
                continue
            path = f"{_folder(file)}kept-{uuid.uuid4()}.parquet"
            written.enter_context(deleted_on_failure(filesystem, path))
            added.append(write_file(filesystem, path, rows, table.column_statistics(), file.partition))
        if removed:
            table.swap_files(added, removed, {**transactions, **wanted.notes(table)}, {})
        elif transactions:
            table.append(table.schema.empty_table(), transactions, {})
    return erased


def _count(table: Table, file: DataFile, wanted: Erasable) -> int:
    names = _columns(table)
    looked_at = names if wanted.rows.columns is None else [each for each in wanted.rows.columns if each in names]
    return wanted.rows.count(table.read_files([file.path], looked_at))


def _columns(table: Table) -> list[str]:
    """Return the columns that lie in files."""
    partitioned = table.partition_columns()
    return [name for name in table.schema.names if name not in partitioned]


def _folder(file: DataFile) -> str:
    """Return the folder of a file's partition, as its files are named."""
    folder, _, _ = unquote(file.path).rpartition("/")
    return f"{folder}/" if folder else ""
