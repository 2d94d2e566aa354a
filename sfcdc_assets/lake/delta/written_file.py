"""Write rows as a data file that no commit names yet, with the statistics that the log keeps of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    rows, nulls, ends = 0, Counter[str](), [schema.empty_table().select(statistics_on)]
    with deleted_on_failure(filesystem, path), filesystem.open_output_stream(path) as sink:
        with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
            for part in _in_groups(parts):
                writer.write_table(part, row_group_size=ROWS_IN_A_GROUP)
                rows += part.num_rows
                nulls.update({name: part[name].null_count for name in statistics_on})
                ends.append(_ends_of(part.select(statistics_on)))
        size = sink.tell()
    statistics = statistics_of(pa.concat_tables(ends), statistics_on)
    known = statistics["nullCount"]
    assert isinstance(known, dict)
    whole = statistics | {"numRecords": rows, "nullCount": {name: nulls[name] for name in known}}
    return NewFile(path, size, json.dumps(whole), partition)


def _in_groups(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of small parts together: each that is written begins a row group."""
    some: list[pa.Table] = []
    for part in parts:
        some.append(part)
        if sum(each.num_rows for each in some) >= ROWS_IN_A_GROUP:
            yield pa.concat_tables(some)
            some = []
    if some:
        yield pa.concat_tables(some)


def _ends_of(rows: pa.Table) -> pa.Table:
    """Return two rows with the least and the greatest value of each column."""
    ends = {
        field.name: list(pc.min_max(rows[field.name]).values()) if _is_ordered(field.type) else [None, None]
        for field in rows.schema
    }
    return pa.table({name: pa.array(values, rows.schema.field(name).type) for name, values in ends.items()})


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
