"""Write rows as a data file that no commit names yet, with the statistics that the log keeps of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from sfcdc_assets.key_ranges.data_file import deleted_on_failure, delta_json
from sfcdc_assets.key_ranges.frames import gathered
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
    return write_parts(filesystem, path, rows.schema, [rows], statistics_on, partition)


def write_parts(
    filesystem: fs.FileSystem,
    path: str,
    schema: pa.Schema,
    parts: Iterable[pa.Table],
    statistics_on: Sequence[str],
    partition: Mapping[str, str] = MappingProxyType({}),
) -> NewFile:
    """Write rows as `write_file` does, of which memory holds a part and a row group."""
    measured = [name for name in statistics_on if _is_ordered(schema.field(name).type)]
    rows, nulls, ends = 0, dict.fromkeys(measured, 0), [schema.empty_table().select(measured)]
    with deleted_on_failure(filesystem, path), filesystem.open_output_stream(path) as sink:
        with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
            for part in gathered(parts, ROWS_IN_A_GROUP):  # each that is written begins a row group
                writer.write_table(part, row_group_size=ROWS_IN_A_GROUP)
                rows += part.num_rows
                nulls = {name: nulls[name] + part[name].null_count for name in measured}
                ends.append(_ends_of(part.select(measured)))
        size = sink.tell()
    statistics = {"numRecords": rows, **_least_and_greatest(pa.concat_tables(ends)), "nullCount": nulls}
    return NewFile(path, size, json.dumps(statistics), partition)


def _ends_of(rows: pa.Table) -> pa.Table:
    """Return two rows with the least and the greatest value of each column."""
    ends = [pa.array(list(pc.min_max(rows[field.name]).values()), field.type) for field in rows.schema]
    return pa.table(ends, schema=rows.schema)


def _least_and_greatest(rows: pa.Table) -> dict[str, object]:
    """Delta's statistics of the columns' values."""
    least: dict[str, object] = {}
    greatest: dict[str, object] = {}
    for name, ends in _ends_of(rows).to_pydict().items():
        low, high = map(delta_json, ends)
        if low is not None and high is not None and max(len(str(low)), len(str(high))) <= LONGEST_STATISTIC:
            least[name], greatest[name] = low, high
    return {"minValues": least, "maxValues": greatest}


def _is_ordered(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_temporal(kind))
