"""An entity's columns as the org has them now, and its tables brought to them (guarantees 6 and 7 for whole columns).

The snapshot table is the layout of record: it is never removed by a rebuild, so it knows every column there ever was
and every change of type. What an administrator changes may change values that no event reports; then the whole entity
is suspect and is read again. That is noted before any table changes, so that a crash in between forgets nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import (
    PLAIN_METADATA,
    Absence,
    Column,
    TypeBefore,
    arrow_schema,
    columns_of_arrow_schema,
)
from sfcdc_assets.change_events.field_types import of_one_family
from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.change_events.retyping import Step, follow, kept_columns, kept_name, steps
from sfcdc_assets.change_events.type_conversion import widens
from sfcdc_assets.key_ranges.data_file import rows_of_files, write_table
from sfcdc_assets.lake.delta.data_files import NewFile
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.change_of_channel import next_position, position_of_its_own
from sfcdc_assets.lake.tables.gap_reconciliation import ENTITY, Ledger
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.org_connection.run_context import RunContext
from sfcdc_assets.runtime import clock
from sfcdc_assets.schema_evolution.schema_changes import NOT_RETIRED, is_retired
from sfcdc_assets.schema_evolution.table_columns import RETIRED, entity_columns, retired_columns
from sfcdc_assets.timeline.suspect import NewSuspect, Reason

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
    """Return the way of a column's values to what it is to be, by the types that it did not have yet."""
    types = [*(each.type for each in column.types_before), column.type]
    first = min(len(old.types_before), len(types) - 1)
    way = steps(column, kept_columns(wanted, column.name))[first:]
    return way if types[first] is old.type else (Step(types[first], None), *way)


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


@dataclass(frozen=True)
class _News:
    """Columns that are new or came back, and those of which values may have changed silently, with the reason."""

    appeared: tuple[str, ...]
    retyped: dict[str, str]

    @property
    def any(self) -> bool:
        """Whether there is something new."""
        return bool(self.appeared or self.retyped)


def follow_layout(
    run: RunContext, schemas: Schemas, taken: Snapshots | None, ledger: Ledger | None, entity: str, channel: str
) -> tuple[Column, ...]:
    """Return the columns of today, those of `<field>__before_<n>` among them; the snapshot table has them when this
    returns. `taken` and `ledger` are the entity's, if it has them.

    A field that appeared, came back or changed its type, length or scale makes the entity suspect, so that it is read
    again; events wait for that only where values may have changed. The run's Spark is asked for only if files have to
    be written again. Raises `SchemaMissing` and `ConcurrentCommit`.
    """
    if taken is None:
        return entity_columns(schemas, entity, None, run.privacy)
    present = columns_of_arrow_schema(taken.table.schema)
    wanted = entity_columns(schemas, entity, taken.table.schema, run.privacy)
    retired = retired_columns(schemas, entity, wanted)
    were_gone = _marked_retired(taken.table.schema) | {column.name for column in present if column.is_absent}
    came_back = were_gone - retired
    news = _news(present, wanted, came_back)
    gone = retired - {column.name for column in wanted if column.is_absent or column.kept_from}
    if news.any or gone:
        progress = taken.progress()
        watermark = max(taken.highest_position(), progress.position if progress else 0)
    if gone:
        wanted = _absent_from(wanted, gone, next_position(run.warehouse, entity, channel, watermark))
    if news.any:
        position = position_of_its_own(run.warehouse, entity, channel, watermark)
        _note(ledger or Ledger.open_or_create(run.warehouse, entity), channel, position, news, clock.now_ms())
        wanted = laid_out(present, _present_from(wanted, came_back, position), position)
    fit(taken.table, wanted, run)
    mark_retired(taken.table, retired)
    return wanted


def layout_changed(schemas: Schemas, entity: str, snapshot_table: pa.Schema, privacy: Privacy) -> bool:
    """Return whether describe says something of the entity's fields that its columns do not follow yet; no row is
    read."""
    wanted = entity_columns(schemas, entity, snapshot_table, privacy)
    came_back = _marked_retired(snapshot_table) - retired_columns(schemas, entity, wanted)
    return _news(columns_of_arrow_schema(snapshot_table), wanted, came_back).any


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
        table.mark_columns([field.name], PLAIN_METADATA | description)


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


def mark_retired(table: Table, retired: frozenset[str]) -> None:
    """Mark the columns whose fields are gone, and those that came back."""
    table.mark_columns(sorted(retired & set(table.schema.names)), RETIRED)
    table.mark_columns(sorted(_marked_retired(table.schema) - retired), NOT_RETIRED)


def _marked_retired(schema: pa.Schema) -> frozenset[str]:
    return frozenset(field.name for field in schema if is_retired(field))


def _news(present: Sequence[Column], wanted: Sequence[Column], came_back: frozenset[str]) -> _News:
    by_name = {column.name: column for column in present}
    # One in another case was made again, or renamed: which of them no event and no describe says.
    appeared = [c.name for c in wanted if c.name not in by_name or by_name[c.name].field != c.field]
    retyped = {
        column.name: f"{column.name} was {_described(by_name[column.name])}, is {_described(column)}"
        for column in wanted
        if column.name in by_name and may_lose(by_name[column.name], column)
    }
    return _News((*appeared, *sorted(came_back)), retyped)


def may_lose(old: Column, new: Column) -> bool:
    """Return whether values may have changed when a field became `new`: other than by a wider text or number
    (docs/salesforce-streams.md, "Field type conversions")."""
    if old.type is not new.type or not of_one_family(old.salesforce_type, new.salesforce_type):
        return True
    then, now = old.shape or (0, 0, 0), new.shape or (0, 0, 0)
    narrower = any(after < before for before, after in zip(then, now, strict=True))
    return narrower or now[1] - now[2] < then[1] - then[2]


def _described(column: Column) -> str:
    return column.salesforce_type + (f"({', '.join(str(each) for each in column.shape)})" if column.shape else "")


def _metadata_differs(old: Column, new: Column) -> bool:
    then, now = ((c.salesforce_type, c.shape, c.large_text, c.field, c.absences, c.is_formula) for c in (old, new))
    return then != now


def laid_out(present: Sequence[Column], wanted: Sequence[Column], position: int) -> tuple[Column, ...]:
    """Return the columns, those that come at the position with it, those whose type changes there with the one that
    they had, and a column for the values of each changed type that not all values of it convert from."""
    by_name = {column.name: column for column in present}
    made, kept = [], []
    for column in wanted:
        old = by_name.get(column.name)
        if old is None or old.type is column.type:
            made.append(column if old is not None else replace(column, came_at=position))
            continue
        before = (*old.types_before, TypeBefore(position, old.type, old.salesforce_type))
        made.append(replace(column, types_before=before))
        if not widens(old.type, column.type):
            name = kept_name(column.name, len(kept_columns(wanted, column.name)) + 1)
            kept.append(replace(old, name=name, kept_from=column.name, types_before=(), came_at=0, absences=()))
    return (*made, *kept)


def _absent_from(columns: Sequence[Column], gone: frozenset[str], position: int) -> tuple[Column, ...]:
    """Return the columns, those whose fields are `gone` as absent from the position on."""
    absence = Absence(position)
    return tuple(replace(c, absences=(*c.absences, absence)) if c.name in gone else c for c in columns)


def _present_from(columns: Sequence[Column], came_back: frozenset[str], position: int) -> tuple[Column, ...]:
    """Return the columns, those whose fields came back as present from the position on."""
    return tuple(
        replace(c, absences=(*c.absences[:-1], replace(c.absences[-1], until=position)))
        if c.name in came_back and c.is_absent
        else c
        for c in columns
    )


def _note(ledger: Ledger, channel: str, position: int, news: _News, now_ms: int) -> None:
    reason = Reason.RETYPED_FIELD if news.retyped else Reason.NEW_FIELD
    detail = "; ".join([*news.retyped.values(), *([f"new: {', '.join(news.appeared)}"] if news.appeared else [])])
    ledger.note([NewSuspect(ENTITY, reason, position, detail)], channel, position, now_ms)
