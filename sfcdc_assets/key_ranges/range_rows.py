"""A key range's rows: those that a batch concerns are taken out, and come back changed among the others.

A batch concerns few of the rows. The others are never looked at: they go from the old file to the new one as they are
(docs/storage-layout.md, "Writing a key range").
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from sfcdc_assets.key_ranges.frames import arrow_frame, empty_rows
from sfcdc_assets.key_ranges.key_ranges import MAX_BYTES, KeyRange

COUNTED = ("_is_deleted", "_in_doubt")
"""The columns that rows are counted by."""


@dataclass(frozen=True)
class RowCounts:
    """Rows in all, those of deleted records, and those that are suspect."""

    rows: int = 0
    deleted: int = 0
    suspects: int = 0

    @classmethod
    def of(cls, rows: pl.DataFrame | pa.Table) -> RowCounts:
        """Count rows with the columns `COUNTED`; a null is no."""
        flags = rows.select(list(COUNTED))
        frame = flags if isinstance(flags, pl.DataFrame) else pl.DataFrame(flags)
        deleted, suspects = (int(frame[name].sum()) for name in COUNTED)
        return cls(frame.height, deleted, suspects)

    @classmethod
    def sum(cls, counts: Iterable[RowCounts]) -> RowCounts:
        """All of them together."""
        total = cls()
        for each in counts:
            total += each
        return total

    def __add__(self, other: RowCounts) -> RowCounts:
        return RowCounts(self.rows + other.rows, self.deleted + other.deleted, self.suspects + other.suspects)

    def __sub__(self, other: RowCounts) -> RowCounts:
        return RowCounts(self.rows - other.rows, self.deleted - other.deleted, self.suspects - other.suspects)


EVERYTHING = KeyRange(0, "", None)
ROWS_AT_ONCE = 8_192


class RangeRows:
    """Rows sorted by Id, each Id once."""

    def __init__(self, rows: pl.DataFrame, schema: pa.Schema) -> None:
        self._rows = rows if rows["Id"].is_sorted() else rows.sort("Id")
        self._schema = schema
        self._others = np.arange(rows.height)

    @classmethod
    def read(cls, filesystem: fs.FileSystem, key_range: KeyRange, schema: pa.Schema) -> RangeRows:
        """Return the rows in the key range's files, in the wanted columns; one that a file lacks reads null."""
        shape = empty_rows(schema)
        # Files lie within their key range but where a snapshot cuts new ones, or those of other clients are cut.
        files = [rows for path in key_range.files for rows in rows_within(filesystem, path, shape.schema, key_range)]
        return cls(pl.concat([shape, *files], rechunk=False), schema)

    @property
    def counts(self) -> RowCounts:
        """Of the rows that were read."""
        return RowCounts.of(self._rows)

    def take(self, concerned: pl.Series | None) -> pl.DataFrame:
        """Take out the rows with these Ids, or all of them. Once."""
        if concerned is None:
            self._others = self._others[:0]
            return self._rows
        is_concerned = self._rows["Id"].is_in(concerned.implode())
        self._others = (~is_concerned).arg_true().to_numpy().astype(np.int64)
        return self._rows.filter(is_concerned)

    def put_back(self, rows: pl.DataFrame) -> pa.Table:
        """All rows, sorted: those that were left, and these, which have the Ids of those taken out or new ones."""
        back = rows.sort("Id")
        if not len(self._others):
            return back.to_arrow().cast(self._schema)
        ids = self._rows["Id"].gather(self._others)
        places = ids.search_sorted(back["Id"]).to_numpy().astype(np.int64)
        order = np.insert(self._others, places, self._rows.height + np.arange(back.height))
        both = pa.concat_tables([self._rows.to_arrow().cast(self._schema), back.to_arrow().cast(self._schema)])
        return both.take(pa.array(order))


def rows_within(filesystem: fs.FileSystem, path: str, wanted: pl.Schema, key_range: KeyRange) -> Iterator[pl.DataFrame]:
    """Yield a file's rows in the key range, in these columns; one that it lacks reads null. Of a file that is larger
    than those this package writes, rows outside of the range are never held."""
    with filesystem.open_input_file(path) as source:
        if source.size() <= MAX_BYTES:
            yield conformed(_whole(io.BytesIO(source.readall()), wanted), wanted).filter(is_within(key_range))
        else:
            for rows in parts_of(source, wanted, key_range):
                yield conformed(rows, wanted)


def parts_of(
    source: pa.NativeFile, wanted: Collection[str], key_range: KeyRange = EVERYTHING, rows: int = ROWS_AT_ONCE
) -> Iterator[pl.DataFrame]:
    """Yield a file's rows in the key range, so many at a time, with those of the wanted columns that it has."""
    parquet = pq.ParquetFile(source)
    present = [name for name in parquet.schema_arrow.names if name in wanted]
    groups = [number for number in range(parquet.num_row_groups) if _may_lie(parquet.metadata, number, key_range)]
    for batch in parquet.iter_batches(rows, groups, present, use_threads=False) if groups else ():
        found = arrow_frame(pa.Table.from_batches([batch])).filter(is_within(key_range))
        if found.height:
            yield found


def _may_lie(metadata: pq.FileMetaData, number: int, key_range: KeyRange) -> bool:
    """Return whether a row group may have rows in the key range."""
    group = metadata.row_group(number)
    columns = (group.column(index) for index in range(group.num_columns))
    statistics = next((each.statistics for each in columns if each.path_in_schema == "Id"), None)
    if statistics is None or not statistics.has_min_max:
        return True
    return bool(statistics.max >= key_range.lower and (key_range.upper is None or statistics.min < key_range.upper))


def is_within(key_range: KeyRange, column: str = "Id") -> pl.Expr:
    """Return whether a row's Id lies in the range. `column`: the one that has it."""
    within = pl.col(column) >= key_range.lower
    return within if key_range.upper is None else within & (pl.col(column) < key_range.upper)


def _whole(content: io.BytesIO, wanted: pl.Schema) -> pl.DataFrame:
    present = pl.read_parquet_schema(content)
    content.seek(0)
    return pl.read_parquet(content, columns=[name for name in wanted if name in present], use_statistics=False)


def conformed(rows: pl.DataFrame, wanted: pl.Schema) -> pl.DataFrame:
    """Return the rows in the wanted columns and types; a column that they lack is null."""
    if rows.schema == wanted and rows.columns == wanted.names():
        return rows
    return rows.select(
        pl.col(name).cast(dtype) if name in rows.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in wanted.items()
    )
