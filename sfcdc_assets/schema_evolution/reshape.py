"""A table brought to other columns: those it lacks are added, and where a type differs its files are written again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import (
    PLAIN_METADATA,
    Column,
    arrow_schema,
    columns_of_arrow_schema,
)
from sfcdc_assets.change_events.retyping import Step, follow, kept_columns, steps
from sfcdc_assets.key_ranges.data_file import rows_of_files, write_table
from sfcdc_assets.lake.delta.data_files import NewFile
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.org_connection.run_context import RunContext

RESHAPED = pa.schema([("old", pa.string()), ("path", pa.string()), ("size", pa.int64()), ("statistics", pa.string())])
"""One row for each file: its path, and that of the one to take its place, with size in bytes and statistics."""


@dataclass(frozen=True)
class Reshape:
    """What is done to each file: the columns it has now, those it is to have, and the ways of the values between."""

    before: pa.Schema
    after: pa.Schema
    ways: Mapping[str, tuple[ColumnType, tuple[Step, ...]]]

    def rows(self, table: pa.Table) -> pa.Table:
        """Return a file's rows (`before`) as `after`; columns that are new are null but for values that did not
        convert."""
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
        source = rows_of_files([path], self.before, filesystem)
        written = write_table(self.rows(source.to_table()), filesystem)
        return {"old": path, "path": written.path, "size": written.size, "statistics": written.statistics}


def reshape_of(before: pa.Schema, present: Sequence[Column], after: pa.Schema, wanted: Sequence[Column]) -> Reshape:
    """Return the way from a table's schema, with the columns it has, to another, with the columns it is to have."""
    by_name = {column.name: column for column in present}
    ways = {}
    for column in wanted:
        old = by_name.get(column.name)
        way = _way(old, column, wanted) if old is not None else ()
        if old is not None and way:
            ways[column.name] = (old.type, way)
    return Reshape(before, after, ways)


def _way(old: Column, column: Column, wanted: Sequence[Column]) -> tuple[Step, ...]:
    """Return the way of a column's values to what it is to be, by the types that it did not have yet; none where they
    stay as they are, though events are read otherwise."""
    types = [*(each.type for each in column.types_before), column.type]
    first = min(len(old.types_before), len(types) - 1)
    way = steps(column, kept_columns(wanted, column.name))[first:]
    way = way if types[first] is old.type else (Step(types[first], None), *way)
    return way if any(step.type is not old.type for step in way) else ()


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
    written: list[Mapping[str, object]] = frame.mapInArrow(run, from_arrow_schema(RESHAPED)).toArrow().to_pylist()
    return written


def _cells(values: pa.ChunkedArray, type_: ColumnType) -> list[Any]:
    """Values as cells: dates as days, timestamps as microseconds."""
    numbers = {ColumnType.DATE: pa.int32(), ColumnType.TIMESTAMP: pa.int64()}
    cells: list[Any] = (values.cast(numbers[type_]) if type_ in numbers else values).to_pylist()
    return cells


def _array(cells: list[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_date32(type_):
        return pa.array(cells, pa.int32()).cast(type_)
    return pa.array(cells, pa.int64()).cast(type_) if pa.types.is_timestamp(type_) else pa.array(cells, type_)


def fit(
    table: Table, wanted: Sequence[Column], run: RunContext, typed_again: Mapping[str, int] = MappingProxyType({})
) -> None:
    """Give a table the columns it lacks, and the types. Where a type differs its files are rewritten, and replaced
    together with the schema in one commit, which has the transaction versions `typed_again`. Raises
    `ConcurrentCommit`."""
    present = columns_of_arrow_schema(table.schema)
    by_name = {column.name: column for column in present}
    lacking = arrow_schema([column for column in wanted if column.name not in by_name])
    retyped = {c.name: c for c in wanted if c.name in by_name and _way(by_name[c.name], c, wanted)}
    if retyped:
        _rewrite(table, present, wanted, retyped, lacking, run, typed_again)
    else:
        table.add_columns(list(lacking))
    changed = [c for c in wanted if c.name in by_name.keys() - retyped and _metadata_differs(by_name[c.name], c)]
    for field in arrow_schema(changed):
        description = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
        said_before = {key.decode() for key in table.schema.field(field.name).metadata or {}}
        plain = {key: value for key, value in PLAIN_METADATA.items() if key in said_before}
        table.mark_columns([field.name], plain | description)


def _rewrite(
    table: Table,
    present: Sequence[Column],
    wanted: Sequence[Column],
    retyped: Mapping[str, Column],
    lacking: pa.Schema,
    run: RunContext,
    typed_again: Mapping[str, int],
) -> None:
    """Replace a table's files by such as have the columns that it is to have."""
    typed = {field.name: field for field in arrow_schema(list(retyped.values()))}
    after = pa.schema([*(typed.get(field.name, field) for field in table.schema), *lacking])
    partitioned = table.partition_columns()
    in_files = pa.schema([field for field in after if field.name not in partitioned])
    before = pa.schema([field for field in table.schema if field.name not in partitioned])
    files = {file.path: file for file in table.files()}
    reshape = reshape_of(before, present, in_files, wanted)
    written = reshape_files(run.spark(), reshape, list(files), run.warehouse.filesystem(table.name)) if files else []
    new = [
        NewFile(
            str(each["path"]),
            int(str(each["size"])),
            str(each["statistics"]),
            {name: str(files[str(each["old"])].statistics[f"partition.{name}"]) for name in partitioned},
        )
        for each in written
    ]
    table.rewrite(new, after, typed_again)


def _metadata_differs(old: Column, new: Column) -> bool:
    then, now = ((c.salesforce_type, c.shape, c.large_text, c.field, c.absences, c.is_formula) for c in (old, new))
    return then != now
