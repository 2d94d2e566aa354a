"""A key range's rows: those that a batch concerns are taken out, and come back changed among the others.

A batch concerns few of the rows. The others are never looked at: they go from the old file to the new one as they are
(docs/storage-layout.md, "Writing a key range").
"""

from __future__ import annotations

import io

import numpy as np
import polars as pl
import pyarrow as pa
from pyarrow import fs

from sfcdc_assets.state.frames import empty_rows
from sfcdc_assets.state.key_ranges import KeyRange
from sfcdc_assets.state.row_counts import RowCounts


class RangeRows:
    """Rows sorted by Id, each Id once."""

    def __init__(self, rows: pl.DataFrame, schema: pa.Schema) -> None:
        self._rows = rows if rows["Id"].is_sorted() else rows.sort("Id")
        self._schema = schema
        self._others = np.arange(rows.height)

    @classmethod
    def read(cls, filesystem: fs.FileSystem, key_range: KeyRange, schema: pa.Schema) -> RangeRows:
        """The rows in the key range's files, in the wanted columns; one that a file lacks reads null."""
        shape = empty_rows(schema)
        files = [_file(filesystem, path, shape.schema) for path in key_range.files]
        rows = pl.concat([shape, *files], rechunk=False)
        within = pl.col("Id") >= key_range.lower
        if key_range.upper is not None:
            within &= pl.col("Id") < key_range.upper
        # Files lie within their key range but where a snapshot cuts new ones.
        return cls(rows.filter(within), schema)

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


def _file(filesystem: fs.FileSystem, path: str, wanted: pl.Schema) -> pl.DataFrame:
    with filesystem.open_input_file(path) as source:
        content = io.BytesIO(source.readall())
    present = pl.read_parquet_schema(content)
    content.seek(0)
    rows = pl.read_parquet(content, columns=[name for name in wanted if name in present], use_statistics=False)
    return rows.select(
        pl.col(name).cast(dtype) if name in present else pl.lit(None, dtype).alias(name)
        for name, dtype in wanted.items()
    )
