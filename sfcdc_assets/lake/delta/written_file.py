"""Write rows as a data file that no commit names yet, with the statistics that the log keeps of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from sfcdc_assets.key_ranges.data_file import deleted_on_failure, delta_json
from sfcdc_assets.lake.delta.data_files import NewFile

ROWS_IN_A_GROUP = 16_384
LONGEST_STATISTIC = 100
"""Characters; of a column with a longer minimum or maximum the log keeps none."""


def write_file(
    filesystem: fs.FileSystem,
    path: str,
    rows: pa.Table,
    statistics_on: Sequence[str],
    partition: Mapping[str, str] = MappingProxyType({}),
) -> NewFile:
    """Return the rows, without partition columns, as a file below the table's root."""
    with deleted_on_failure(filesystem, path), filesystem.open_output_stream(path) as sink:
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
        low, high = delta_json(found["min"].as_py()), delta_json(found["max"].as_py())
        if low is not None and high is not None and max(len(str(low)), len(str(high))) <= LONGEST_STATISTIC:
            least[name], greatest[name] = low, high
    return {"numRecords": rows.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def _is_ordered(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_temporal(kind))
