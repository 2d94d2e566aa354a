"""An entity's columns as the org has them now, and its tables brought to them (guarantees 6 and 7 for whole columns).

The snapshot table is the layout of record: it is never removed by a rebuild, so it knows every column there ever was
and every change of type. What an administrator changes may change values that no event reports; then the whole entity
is suspect and is read again. That is noted before any table changes, so that a crash in between forgets nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from sfcdc_assets.change_events.columns import (
    Absence,
    Column,
    TypeBefore,
    columns_of_arrow_schema,
)
from sfcdc_assets.change_events.field_types import of_one_family
from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.change_events.retyping import are_read_alike, kept_columns, kept_name
from sfcdc_assets.change_events.type_conversion import widens
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.change_of_channel import next_position, position_of_its_own
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.open_suspect import ENTITY
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.tables.snapshot_reads import CompleteSnapshot
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.org_connection.run_context import RunContext
from sfcdc_assets.runtime import clock
from sfcdc_assets.schema_evolution.reshape import fit
from sfcdc_assets.schema_evolution.schema_changes import NOT_RETIRED, is_retired
from sfcdc_assets.schema_evolution.table_columns import RETIRED, entity_columns, retired_columns
from sfcdc_assets.timeline.suspect import NewSuspect, Reason


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
    wanted = _copied(entity_columns(schemas, entity, taken.table.schema, run.privacy), taken.complete())
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
        again = {column.name for column in present} & set(news.appeared)
        wanted = laid_out(present, _present_from(wanted, again, position), position)
    fit(taken.table, wanted, run)
    mark_retired(taken.table, retired)
    return wanted


def layout_changed(schemas: Schemas, entity: str, snapshot_table: pa.Schema, privacy: Privacy) -> bool:
    """Return whether describe says something of the entity's fields that its columns do not follow yet; no row is
    read."""
    wanted = entity_columns(schemas, entity, snapshot_table, privacy)
    came_back = _marked_retired(snapshot_table) - retired_columns(schemas, entity, wanted)
    return _news(columns_of_arrow_schema(snapshot_table), wanted, came_back).any


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


def laid_out(present: Sequence[Column], wanted: Sequence[Column], position: int) -> tuple[Column, ...]:
    """Return the columns, those that come at the position with it, those whose type changes there with the one that
    they had, and a column for the values of each changed type that not all values of it convert from. A field that
    comes may have been there before, hidden."""
    by_name = {column.name: column for column in present}
    made, kept = [], []
    for column in wanted:
        old = by_name.get(column.name)
        if old is None or are_read_alike(old, column):
            came = replace(column, came_at=position, absences=(_on_its_way(position),))
            made.append(column if old is not None else came)
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
    return tuple(replace(c, absences=(*_ended(c, position), absence)) if c.name in gone else c for c in columns)


def _present_from(columns: Sequence[Column], again: Collection[str], position: int) -> tuple[Column, ...]:
    """Return the columns, those whose fields are there `again` as such from the position on. One that is spelt in
    another case was gone for a moment."""

    def absences(column: Column) -> tuple[Absence, ...]:
        before = column.absences if column.is_absent else (*_ended(column, position), Absence(position))
        return (*before[:-1], replace(before[-1], until=position), _on_its_way(position))

    return tuple(replace(c, absences=absences(c)) if c.name in again else c for c in columns)


def _ended(column: Column, position: int) -> tuple[Absence, ...]:
    """Return the column's absences; none of them awaits a copy from the position on."""
    return tuple(replace(a, until=position, awaits_copy=False) if a.awaits_copy else a for a in column.absences)


def _on_its_way(position: int) -> Absence:
    """Return the absence of a field whose column comes, or comes back, at the position: events from before it was shown
    may not even have landed. What the copy that follows was made after has, when it begins (guarantee 8)."""
    return Absence(position, awaits_copy=True)


def _copied(columns: Sequence[Column], copy: CompleteSnapshot | None) -> tuple[Column, ...]:
    """Return the columns, those that a `copy` has shown since they came as absent up to its watermark only."""

    def absences(column: Column) -> tuple[Absence, ...]:
        if copy is None or not column.absences or copy.position < column.absences[-1].since:
            return column.absences
        return _ended(column, copy.position + 1)

    return tuple(replace(c, absences=absences(c)) for c in columns)


def _note(ledger: Ledger, channel: str, position: int, news: _News, now_ms: int) -> None:
    reason = Reason.RETYPED_FIELD if news.retyped else Reason.NEW_FIELD
    detail = "; ".join([*news.retyped.values(), *([f"new: {', '.join(news.appeared)}"] if news.appeared else [])])
    ledger.note([NewSuspect(ENTITY, reason, position, detail)], channel, position, now_ms)
