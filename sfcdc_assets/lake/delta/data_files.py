"""Data files of a table: those that its log names, and those that a commit is to put in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from sfcdc_assets.lake.store.object_stores import store_refusals
from sfcdc_assets.lake.store.store_errors import reason_of


@dataclass(frozen=True)
class DataFile:
    """A live Parquet file of a table: path below the table's root, rows, size in bytes, and its column statistics."""

    path: str
    rows: int
    size: int
    statistics: Mapping[str, Any]

    @property
    def partition(self) -> Mapping[str, str]:
        """Partition column -> value, as the log has it; empty in an unpartitioned table."""
        prefix = "partition."
        return {
            key.removeprefix(prefix): str(value) for key, value in self.statistics.items() if key.startswith(prefix)
        }


_FIXED = {"path", "size_bytes", "modification_time", "num_records"}


def data_files(found: pl.DataFrame) -> tuple[DataFile, ...]:
    """Return the files that rows of `TableReads.file_statistics` describe."""
    return tuple(
        DataFile(
            path=file["path"],
            rows=file["num_records"],
            size=file["size_bytes"],
            statistics={key: value for key, value in file.items() if key not in _FIXED},
        )
        for file in found.iter_rows(named=True)
    )


@dataclass(frozen=True)
class NewFile:
    """A Parquet file that a task wrote below a table's root and that no commit names yet."""

    path: str
    size: int
    statistics: str
    """Delta's JSON form: numRecords, minValues, maxValues, nullCount."""
    partition: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PackedFiles:
    """`added` have the rows of `removed`, all of one partition."""

    added: Sequence[NewFile]
    removed: Sequence[DataFile]


def unreadable(root: str, filesystem: fs.FileSystem, paths: Iterable[str]) -> tuple[str, str] | None:
    """Return the first of the Parquet files that cannot be read, and why. `root`: of the warehouse; what its store
    refuses is in no file, and is raised as `StoreRefused` or `StoreUnavailable`."""
    for path in paths:
        try:
            with store_refusals(root), filesystem.open_input_file(unquote(path)) as source:
                parquet = pq.ParquetFile(source)
                for number in range(parquet.num_row_groups):
                    parquet.read_row_group(number)
        except (OSError, pa.ArrowException) as error:
            return path, reason_of(error)
    return None
