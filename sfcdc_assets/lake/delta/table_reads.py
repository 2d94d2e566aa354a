"""Reading a table: its rows, and what the log says of its files."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any
from urllib.parse import unquote, urlsplit

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from sfcdc_assets.key_ranges.frames import empty_rows
from sfcdc_assets.lake.delta.data_files import DataFile, data_files, unreadable
from sfcdc_assets.lake.delta.table_snapshot import TableSnapshot
from sfcdc_assets.lake.errors import TableDamaged, UnreadableTable
from sfcdc_assets.lake.store.store_errors import FROM_STORE, file_in, reason_of
from sfcdc_assets.lake.store.store_files import StoreFiles
from sfcdc_assets.lake.store.store_options import storage_options
from sfcdc_assets.runtime.concurrency import all_side_by_side

FILES_AT_ONCE = 8
"""That are read beside each other from an object store."""
LOCAL_FILES_AT_ONCE = 2
"""Where few rows of each are wanted: one is read while pages of the other are decompressed."""
HELD_BYTES = 64 * 1024**2
"""A file that is larger, which another client wrote, is read in parts."""
READ_TOGETHER_BYTES = 8 * 1024**2
"""Small files are read several at a time, up to so many bytes."""
HAS_FILES = "has files"
"""The question whether a version has any."""


class TableReads(TableSnapshot):
    """A snapshot whose rows and files can be read."""

    _files: tuple[int, pl.DataFrame] | None = None
    """A version, and what its log says of its files."""

    def scan(self, columns: Sequence[str] | None = None, predicate: str | None = None) -> pa.Table:
        """Rows of this snapshot as Arrow. Reads by `DeltaTable.scan`: others may abort at exit (docs/storage-layout.md,
        "to_pyarrow_table at exit")."""
        if not self._has_files:
            return self.schema.empty_table().select(self.schema.names if columns is None else list(columns))
        with self._reading():
            rows = self._stream(columns, predicate).read_all()
        return self._plain(rows)

    def frame(self, columns: Sequence[str] | None = None, predicate: str | None = None) -> pl.DataFrame:
        """Rows as `scan` gives them, as Polars has them: it takes texts as they are decoded, without a copy. Raises as
        `scan`."""
        if not self._has_files:
            return empty_rows(self.schema if columns is None else pa.schema(map(self.schema.field, columns)))
        with self._reading():
            rows = pl.DataFrame(self._stream(columns, predicate).read_all())
        return rows.cast({pl.Categorical: pl.String})  # of columns that a table is partitioned by

    @property
    def _has_files(self) -> bool:
        """Most reconciliation ledgers are empty, and planning a scan costs milliseconds."""
        return self.answer(HAS_FILES, lambda: bool(self._delta.get_add_actions().num_rows))

    def may_have(self, column: str, value: str) -> bool:
        """Return whether a file may have a row with this value, by the least and greatest that the log keeps of each
        file."""
        return self.answer(("may have", column, value), lambda: self._may_have(column, value))

    def _may_have(self, column: str, value: str) -> bool:
        files = pl.DataFrame(self._delta.get_add_actions(flatten=True))
        if files.is_empty():
            return False
        ends = [f"min.{column}", f"max.{column}"]
        if not set(ends) <= set(files.columns):
            return True
        is_apart = (pl.col(ends[0]) > value) | (pl.col(ends[1]) < value)
        return not bool(files.select(is_apart.fill_null(value=False).all()).item())

    def rows(self, columns: Sequence[str] | None = None, predicate: str | None = None) -> list[dict[str, Any]]:
        """Return the rows that `scan` gives, as Python values; few. By Polars: Arrow imports pandas to make a time."""
        return self.frame(columns, predicate).to_dicts()

    def read_files(self, paths: Sequence[str], columns: Sequence[str]) -> pa.Table:
        """Columns that lie in these files of the table, whole; those that a file lacks are null. Raises as `scan`."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        with self._reading():
            store = self._store
            at_once = 1 if isinstance(store, fs.SubTreeFileSystem) else FILES_AT_ONCE
            found = all_side_by_side(lambda path: _of_file(store, unquote(path), schema), paths, at_once)
        return pa.concat_tables([pa.Table.from_batches([], schema), *found])

    def rows_above(self, column: str, number: int, columns: Sequence[str]) -> pa.Table:
        """Rows in which an integer column, of which the log keeps the greatest, is higher than a number: `scan` with
        that condition, for few rows of a large table. That column of a file is decoded first, and the others for the
        rows that are wanted; a few files are held. Raises as `scan`."""
        greatest = f"max.{column}"
        known = greatest in self.file_statistics().columns
        files = self.files(pl.col(greatest).is_null() | (pl.col(greatest) > number) if known else None)
        if any(file.size > HELD_BYTES for file in files):
            return self.scan(columns, f"{column} > {number}")
        schema = pa.schema([self.schema.field(name) for name in columns])
        shape = pl.DataFrame(pa.Table.from_batches([], schema)).schema  # an empty array would import pandas
        with self._reading():
            store = self._store
            at_once = LOCAL_FILES_AT_ONCE if isinstance(store, fs.SubTreeFileSystem) else FILES_AT_ONCE
            found = all_side_by_side(
                lambda paths: _above(store, paths, shape, pl.col(column) > number), list(_parted(files)), at_once
            )
        return pl.concat([pl.DataFrame(schema=shape), *chain.from_iterable(found)]).to_arrow().cast(schema)

    @property
    def _store(self) -> fs.FileSystem:
        root = self._delta.table_uri
        if root.startswith("file://"):
            return fs.SubTreeFileSystem(unquote(urlsplit(root).path), fs.LocalFileSystem())
        return fs.PyFileSystem(StoreFiles(root, storage_options(root)))

    def batches(self, columns: Sequence[str], predicate: str) -> Iterator[pa.Table]:
        """Yield the rows that `scan` gives, part by part: memory holds one."""
        with self._reading():
            for batch in self._stream(columns, predicate):
                yield self._plain(pa.Table.from_batches([batch]))

    def head(self, predicate: str, count: int) -> pa.Table:
        """Return the first rows that a scan meets; reading stops there."""
        if not self._has_files or count < 1:
            return self.schema.empty_table()
        batches, found = [], 0
        with self._reading():
            for batch in self._stream(None, predicate):
                batches.append(batch)
                found += batch.num_rows
                if found >= count:
                    break
        rows = self._plain(pa.Table.from_batches(batches)) if batches else self.schema.empty_table()
        return rows.slice(0, count)

    def newest(self, by: str, predicate: str, count: int) -> pa.Table:
        """Return the rows with the highest values of an integer column, the highest first. Of a large table the files
        that have them are read, and of these whole rows for the last values alone."""
        statistics = self.file_statistics()
        known = statistics[f"max.{by}"].drop_nulls().sort(descending=True) if f"max.{by}" in statistics.columns else ()
        since = f" and {by} >= {known[count - 1]}" if len(known) >= count > 0 else ""
        found = self.scan([by], f"{predicate} and {by} is not null{since}")[by] if count else pa.array([], pa.int64())
        parts: list[pa.Table] = []
        for value in sorted(pc.unique(found).to_pylist(), reverse=True):
            parts.append(self.head(f"{predicate} and {by} = {value}", count - sum(map(len, parts))))
            if sum(map(len, parts)) >= count:
                break
        return pa.concat_tables(parts) if parts else self.schema.empty_table()

    def count(self) -> int:
        """Rows in this snapshot, from the log alone."""
        return int(self.file_statistics()["num_records"].sum() or 0)

    def file_statistics(self) -> pl.DataFrame:
        """Return what the log says of the live files, one a row: `path`, `num_records`, `size_bytes` and, by column,
        `min.*`, `max.*`, `null_count.*` and `partition.*`; null where it does not. For questions about all files:
        thousands of them are no Python objects here. Raises `UnreadableTable` when files alone do not show the rows."""
        if self._files is None or self._files[0] != self.version:
            self._files = (self.version, self._file_statistics())
        return self._files[1]

    def _file_statistics(self) -> pl.DataFrame:
        protocol, configuration = self._delta.protocol(), self._delta.metadata().configuration
        features = set(protocol.reader_features or ()) - {"timestampNtz"}
        mapped = configuration.get("delta.columnMapping.mode", "none") != "none"
        vectors = configuration.get("delta.enableDeletionVectors", "false") == "true"
        if features or mapped or vectors:
            raise UnreadableTable(self.name, ", ".join(sorted(features)) or "column mapping or deletion vectors")
        return pl.DataFrame(self._delta.get_add_actions(flatten=True))

    def files(self, where: pl.Expr | None = None) -> tuple[DataFile, ...]:
        """Return the live files with their statistics, or those that a condition on `file_statistics` selects; raises
        as that does."""
        found = self.file_statistics()
        return data_files(found if where is None else found.filter(where))

    def _stream(self, columns: Sequence[str] | None, predicate: str | None) -> pa.RecordBatchReader:
        """Stream the rows, not by `pa.table`, which would import pandas to see whether it is given one of its
        frames."""
        selected = list(columns) if columns is not None else None
        return pa.RecordBatchReader.from_stream(self._delta.scan(columns=selected, predicate=predicate))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Raise what cannot be read as `TableDamaged`, with the file, but for what the store refuses."""
        try:
            with self._asking():
                yield
        except FROM_STORE as error:
            self._raise_damaged(error)
            raise

    def _plain(self, rows: pa.Table) -> pa.Table:
        """Return the table's own types: a scan gives view types, which many of Arrow's kernels do not take."""
        schema = self.schema
        return rows.cast(pa.schema([schema.field(name) for name in rows.column_names]))

    def _raise_damaged(self, error: Exception) -> None:
        """Raise `TableDamaged` if the error, or else a look at the files, says which one is."""
        file, reason = file_in(error, self.name), reason_of(error)
        if file is None:
            found = unreadable(self._root, self._store, (each.path for each in self.files()))
            if found is None:
                return
            file, reason = found
        entity = re.search(r"entity_name=([^/]+)/", file)
        raise TableDamaged(self.name, entity[1] if entity else None, file, f"cannot be read ({reason})") from error


def _parted(files: Sequence[DataFile]) -> Iterator[list[str]]:
    """Yield the paths of files that are read together: reading one takes milliseconds, whatever it has."""
    part, size = list[str](), 0
    for file in files:
        if part and size + file.size > READ_TOGETHER_BYTES:
            yield part
            part, size = [], 0
        part.append(unquote(file.path))
        size += file.size
    if part:
        yield part


def _above(store: fs.FileSystem, paths: Sequence[str], shape: pl.Schema, condition: pl.Expr) -> list[pl.DataFrame]:
    found: list[pl.DataFrame] = []
    alike = defaultdict[tuple[tuple[str, pl.DataType], ...], list[bytes]](list)
    for path in paths:
        with store.open_input_file(path) as file:
            content = file.readall()
        alike[tuple(pl.read_parquet_schema(content).items())].append(content)
    for present, contents in alike.items():
        columns = dict(present)
        source = pl.scan_parquet(contents, parallel="prefiltered", hive_partitioning=False)
        rows = source.filter(condition).select(name for name in shape if name in columns).collect()
        if rows.schema != shape:
            lacking = [pl.lit(None, dtype).alias(name) for name, dtype in shape.items() if name not in columns]
            rows = rows.with_columns(lacking).select(list(shape)).cast(shape)
        found.append(rows)
    return found


def _of_file(store: fs.FileSystem, path: str, schema: pa.Schema) -> pa.Table:
    with store.open_input_file(path) as file:
        parquet = pq.ParquetFile(file)
        present = [name for name in schema.names if name in parquet.schema_arrow.names]
        rows = parquet.read(present, use_threads=False)
    arrays = [rows[f.name].cast(f.type) if f.name in present else pa.nulls(len(rows), f.type) for f in schema]
    return pa.Table.from_arrays(arrays, schema=schema)
