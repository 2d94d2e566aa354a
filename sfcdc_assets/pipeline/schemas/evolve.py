"""An entity's columns as the org has them now, and its tables brought to them (guarantees 6 and 7 for whole columns).

The snapshot table is the layout of record: it is never removed by a rebuild, so it knows every column there ever was
and every change of type. What an administrator changes may change values that no event reports; then the whole entity
is in doubt and is read again. That is noted before any table changes, so that a crash in between forgets nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import SparkSession

from sfcdc_assets.change_events.columns import PLAIN_METADATA, Column, arrow_schema, columns_of_arrow_schema
from sfcdc_assets.change_events.field_types import of_one_family
from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.change_events.retyping import kept_columns, kept_name
from sfcdc_assets.change_events.type_conversion import widens
from sfcdc_assets.lake.current_state import CurrentState
from sfcdc_assets.lake.data_files import NewFile
from sfcdc_assets.lake.gap_reconciliation import ENTITY, Ledger
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.schemas import Schemas
from sfcdc_assets.lake.snapshots import Snapshots
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.schemas.schema_changes import NOT_RETIRED, is_retired
from sfcdc_assets.pipeline.schemas.table_columns import RETIRED, entity_columns, retired_columns
from sfcdc_assets.state.doubt import Doubt, NewDoubt
from sfcdc_assets.state.reshape import reshape_files, reshape_of


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
    warehouse: Warehouse,
    schemas: Schemas,
    taken: Snapshots | None,
    ledger: Ledger | None,
    spark: Callable[[], SparkSession],
    privacy: Privacy,
    entity: str,
    channel: str,
    now_ms: Callable[[], int],
) -> tuple[Column, ...]:
    """The columns of today, those of `<field>__before_<n>` among them; the snapshot table has them when this returns.
    `taken` and `ledger` are the entity's, if it has them.

    A field that appeared, came back or changed its type, length or scale puts the entity in doubt, so that it is read
    again; events wait for that only where values may have changed. `spark` is called only if files have to be written
    again. Raises `SchemaMissing` and `ConcurrentCommit`.
    """
    if taken is None:
        return entity_columns(schemas, entity, None, privacy)
    taken.upgrade()
    present = columns_of_arrow_schema(taken.table.schema)
    wanted = entity_columns(schemas, entity, taken.table.schema, privacy)
    retired = retired_columns(schemas, entity, wanted)
    news = _news(present, wanted, _marked_retired(taken.table.schema) - retired)
    if news.any:
        progress = taken.progress()
        watermark = max(taken.watermark(), progress.position if progress else 0)
        position = _position_of_its_own(warehouse, entity, channel, watermark)
        _note(ledger or Ledger.open_or_create(warehouse, entity), channel, position, news, now_ms())
        wanted = (*wanted, *_kept(present, wanted, position))
    fit(taken.table, wanted, spark, warehouse)
    mark_retired(taken.table, retired)
    return wanted


def layout_changed(schemas: Schemas, entity: str, snapshot_table: pa.Schema, privacy: Privacy) -> bool:
    """Whether describe says something of the entity's fields that its columns do not follow yet; no row is read."""
    wanted = entity_columns(schemas, entity, snapshot_table, privacy)
    came_back = _marked_retired(snapshot_table) - retired_columns(schemas, entity, wanted)
    return _news(columns_of_arrow_schema(snapshot_table), wanted, came_back).any


def fit(table: Table, wanted: Sequence[Column], spark: Callable[[], SparkSession], warehouse: Warehouse) -> None:
    """Give a table the columns it lacks, and the types. Where a type differs its files are rewritten, and replaced
    together with the schema in one commit. Raises `ConcurrentCommit`."""
    present = columns_of_arrow_schema(table.schema)
    by_name = {column.name: column for column in present}
    lacking = arrow_schema([column for column in wanted if column.name not in by_name])
    retyped = {c.name: c for c in wanted if c.name in by_name and by_name[c.name].type is not c.type}
    if not retyped:
        table.add_columns(list(lacking))
        changed = [c for c in wanted if c.name in by_name and _metadata_differs(by_name[c.name], c)]
        for field in arrow_schema(changed):
            description = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
            table.mark_columns([field.name], PLAIN_METADATA | description)
        return
    typed = {field.name: field for field in arrow_schema(list(retyped.values()))}
    after = pa.schema([*(typed.get(field.name, field) for field in table.schema), *lacking])
    partitioned = table.partition_columns()
    in_files = pa.schema([field for field in after if field.name not in partitioned])
    before = pa.schema([field for field in table.schema if field.name not in partitioned])
    files = {file.path: file for file in table.files()}
    reshape = reshape_of(before, present, in_files, wanted)
    written = reshape_files(spark(), reshape, list(files), warehouse.filesystem(table.name)) if files else []
    new = [
        NewFile(
            str(each["path"]),
            int(str(each["size"])),
            str(each["statistics"]),
            {name: str(files[str(each["old"])].statistics[f"partition.{name}"]) for name in partitioned},
        )
        for each in written
    ]
    table.rewrite(new, after)


def mark_retired(table: Table, retired: frozenset[str]) -> None:
    """Mark the columns whose fields are gone, and those that came back."""
    table.mark_columns(sorted(retired & set(table.schema.names)), RETIRED)
    table.mark_columns(sorted(_marked_retired(table.schema) - retired), NOT_RETIRED)


def _marked_retired(schema: pa.Schema) -> frozenset[str]:
    return frozenset(field.name for field in schema if is_retired(field))


def _news(present: Sequence[Column], wanted: Sequence[Column], came_back: frozenset[str]) -> _News:
    by_name = {column.name: column for column in present}
    appeared = [column.name for column in wanted if column.name not in by_name]
    retyped = {
        column.name: f"{column.name} was {_described(by_name[column.name])}, is {_described(column)}"
        for column in wanted
        if column.name in by_name and may_lose(by_name[column.name], column)
    }
    return _News((*appeared, *sorted(came_back)), retyped)


def may_lose(old: Column, new: Column) -> bool:
    """Whether values may have changed when a field became `new`: other than by a wider text or number
    (docs/salesforce-streams.md, "Field type conversions")."""
    if old.type is not new.type or not of_one_family(old.salesforce_type, new.salesforce_type):
        return True
    then, now = old.shape or (0, 0, 0), new.shape or (0, 0, 0)
    narrower = any(after < before for before, after in zip(then, now, strict=True))
    return narrower or now[1] - now[2] < then[1] - then[2]


def _described(column: Column) -> str:
    return column.salesforce_type + (f"({', '.join(str(each) for each in column.shape)})" if column.shape else "")


def _metadata_differs(old: Column, new: Column) -> bool:
    return (old.salesforce_type, old.shape, old.large_text) != (new.salesforce_type, new.shape, new.large_text)


def _kept(present: Sequence[Column], wanted: Sequence[Column], position: int) -> list[Column]:
    """A column for the values of each changed type that not all values of it convert from."""
    by_name = {column.name: column for column in present}
    kept = []
    for column in wanted:
        old = by_name.get(column.name)
        if old is not None and old.type is not column.type and not widens(old.type, column.type):
            name = kept_name(column.name, len(kept_columns(wanted, column.name)) + 1)
            kept.append(replace(old, name=name, kept_from=column.name, kept_until=position, kept_for=column.type))
    return kept


def _note(ledger: Ledger, channel: str, position: int, news: _News, now_ms: int) -> None:
    reason = Doubt.RETYPED_FIELD if news.retyped else Doubt.NEW_FIELD
    detail = "; ".join([*news.retyped.values(), *([f"new: {', '.join(news.appeared)}"] if news.appeared else [])])
    ledger.note([NewDoubt(ENTITY, reason, position, detail)], channel, position, now_ms)


def _position_of_its_own(warehouse: Warehouse, entity: str, channel: str, watermark: int) -> int:
    """The position from which on events wait: the one after what is in the rows. Where nothing has landed yet that
    could have it, what the administrator did becomes an entry of the stream, so that a read can have its watermark
    after it."""
    table = CurrentState.open(warehouse, entity)
    position = max(table.applied(channel) or 0 if table else 0, watermark) + 1
    RawEvents.open(warehouse).skip_to(channel, position)
    return position
