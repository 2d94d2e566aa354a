"""Write the rows of several files of a table as one, in order."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.lake.data_files import DataFile, NewFile
from sfcdc_assets.lake.written_file import write_file


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
    """The files, all of one partition, as one that no commit names yet, with its rows sorted by the columns of `order`.

    `schema`: that of the table without partition columns; what an older file lacks is null, and view types, as
    deltalake writes them, become plain ones. Raises `RowsMissing`.
    """
    paths = [unquote(file.path) for file in files]
    rows = ds.dataset(paths, schema=schema, filesystem=filesystem, format="parquet").to_table()
    expected = sum(file.rows for file in files)
    if rows.num_rows != expected:
        raise RowsMissing(files[0].path, expected, rows.num_rows)
    present = [(name, "ascending") for name in order if name in schema.names]
    if present:
        rows = rows.sort_by(present)
    partition = files[0].partition
    folder = "".join(f"{name}={value}/" for name, value in partition.items())
    return write_file(filesystem, f"{folder}packed-{uuid.uuid4()}.parquet", rows, statistics_on, partition)
