"""Reshape: the files of a table rewritten with other column types, each by a task of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.retyping import Step, follow, kept_columns, steps
from sfcdc_assets.state.data_file import write_table

RESHAPED = pa.schema([("old", pa.string()), ("path", pa.string()), ("size", pa.int64()), ("statistics", pa.string())])
"""One row for each file: its path, and that of the one to take its place, with size in bytes and statistics."""


@dataclass(frozen=True)
class Reshape:
    """What is done to each file: the columns it has now, those it is to have, and the ways of the values between."""

    before: pa.Schema
    after: pa.Schema
    ways: Mapping[str, tuple[ColumnType, tuple[Step, ...]]]

    def rows(self, table: pa.Table) -> pa.Table:
        """A file's rows (`before`) as `after`; columns that are new are null but for values that did not convert."""
        made: dict[str, pa.Array] = {}
        for name, (type_, way) in self.ways.items():
            values = _cells(table.column(name), type_)
            followed = {value: follow(value, type_, way) for value in set(values)}
            made[name] = _array([followed[value][0] for value in values], self.after.field(name).type)
            for step in way:
                if step.kept is not None:
                    kept = [followed[value][1].get(step.kept) for value in values]
                    made[step.kept] = _array(kept, self.after.field(step.kept).type)
        arrays = [
            made[field.name]
            if field.name in made
            else table.column(field.name)
            if field.name in table.column_names
            else pa.nulls(table.num_rows, field.type)
            for field in self.after
        ]
        return pa.table(arrays, schema=self.after)

    def write(self, path: str, filesystem: fs.FileSystem) -> dict[str, object]:
        """Write a file again beside the old one; returns one row of `RESHAPED`."""
        source = ds.dataset(path, schema=self.before, filesystem=filesystem, format="parquet")
        written = write_table(self.rows(source.to_table()), filesystem)
        return {"old": path, "path": written.path, "size": written.size, "statistics": written.statistics}


def reshape_of(before: pa.Schema, present: Sequence[Column], after: pa.Schema, wanted: Sequence[Column]) -> Reshape:
    """From a table's schema, with the columns it has, to another, with the columns it is to have."""
    by_name = {column.name: column for column in present}
    ways = {}
    for column in wanted:
        old = by_name.get(column.name)
        if old is None or old.type is column.type:
            continue
        kept = [each for each in kept_columns(wanted, column.name) if each.name not in by_name]
        way = steps(column, kept) if kept else (Step(column.type, None),)
        if kept and kept[0].type is not old.type:
            way = (Step(kept[0].type, None), *way)
        ways[column.name] = (old.type, way)
    return Reshape(before, after, ways)


def reshape_files(
    spark: SparkSession, reshape: Reshape, paths: Sequence[str], filesystem: fs.FileSystem
) -> list[Mapping[str, object]]:
    """Rows of `RESHAPED`, one for each path. Nothing is committed; the driver holds no row of the table."""
    if not paths:
        return []

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column("path").to_pylist():
                yield pa.RecordBatch.from_pylist([reshape.write(path, filesystem)], schema=RESHAPED)

    frame = spark.createDataFrame(pa.table({"path": list(paths)})).repartition(min(len(paths), 64))
    return frame.mapInArrow(run, from_arrow_schema(RESHAPED)).toArrow().to_pylist()


def _cells(values: pa.ChunkedArray, type_: ColumnType) -> list:
    """Values as cells: dates as days, timestamps as microseconds."""
    if type_ is ColumnType.DATE:
        return values.cast(pa.int32()).to_pylist()
    return values.cast(pa.int64()).to_pylist() if type_ is ColumnType.TIMESTAMP else values.to_pylist()


def _array(cells: list, type_: pa.DataType) -> pa.Array:
    if pa.types.is_date32(type_):
        return pa.array(cells, pa.int32()).cast(type_)
    return pa.array(cells, pa.int64()).cast(type_) if pa.types.is_timestamp(type_) else pa.array(cells, type_)
