"""Write the rows of several files of a table as one, in order, with the statistics that the log keeps of it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from datetime import date, datetime
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.lake.data_files import DataFile, NewFile

ROWS_IN_A_GROUP = 16_384
LONGEST_STATISTIC = 100
"""Characters; of a column with a longer minimum or maximum the log keeps none."""


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
    path = f"{folder}packed-{uuid.uuid4()}.parquet"
    with filesystem.open_output_stream(path) as sink:
        pq.write_table(rows, sink, compression="zstd", row_group_size=ROWS_IN_A_GROUP)
        size = sink.tell()
    return NewFile(path, size, json.dumps(statistics_of(rows, statistics_on)), partition)


def statistics_of(rows: pa.Table, names: Sequence[str]) -> dict[str, object]:
    """Delta's statistics of the rows, of those columns that an order says something of."""
    least: dict[str, object] = {}
    greatest: dict[str, object] = {}
    nulls: dict[str, int] = {}
    for name in names:
        column = rows[name]
        if not _is_ordered(column.type):
            continue
        nulls[name] = column.null_count
        found = pc.min_max(column)
        low, high = _json(found["min"].as_py()), _json(found["max"].as_py())
        if low is not None and high is not None and max(len(str(low)), len(str(high))) <= LONGEST_STATISTIC:
            least[name], greatest[name] = low, high
    return {"numRecords": rows.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def _is_ordered(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_temporal(kind)


def _json(value: object) -> object:
    """A statistic in Delta's JSON form: times as ISO 8601 with microseconds in UTC."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value
