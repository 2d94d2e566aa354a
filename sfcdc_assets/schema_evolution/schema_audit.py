"""The comparison of an entity's columns with its fields in the org, as the schemas of its events have them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from sfcdc_assets.change_events.columns import arrow_schema
from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.maintenance.version_vacuum import version_at
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import utc
from sfcdc_assets.salesforce.api_name import by_any_case
from sfcdc_assets.schema_evolution.schema_changes import (
    KEPT_BEFORE,
    SchemaChange,
    column_type,
    is_retired,
    schema_changes,
)
from sfcdc_assets.schema_evolution.table_columns import entity_columns

TIME_TO_FOLLOW = timedelta(hours=1)
"""After a new schema was seen; the run that applies its first event changes the columns."""
NEWS = timedelta(days=7)
PAST_IS_KEPT = timedelta(hours=1)
"""A table's columns of seven days ago, give or take this: to go back in its log means to open it from nothing."""
KEPT_ENTITIES = 1_000
_PAST: dict[tuple[Warehouse, str], tuple[datetime, int, pa.Schema]] = {}
"""Until when they are kept, of the table that was created then."""


@dataclass(frozen=True)
class SchemaAudit:
    """One entity's columns: those whose field the object no longer has, those that keep the values of a changed type,
    and what is wrong: fields without a column, and columns of another type than their field.

    `schema_seen_at`: when the newest schema was first seen, or seen again; `news`: the changes of the last 7 days.
    """

    entity: str
    columns: int
    retired: tuple[str, ...]
    kept_before: tuple[str, ...]
    missing: tuple[str, ...]
    wrong: tuple[str, ...]
    schema_seen_at: datetime
    news: tuple[SchemaChange, ...]

    @property
    def follows(self) -> bool:
        """Every readable field that events carry has a column of the right type."""
        return not self.missing and not self.wrong

    def may_still_follow(self, now: datetime) -> bool:
        """Return whether the schema is so new that the next run may do it."""
        return now - self.schema_seen_at < TIME_TO_FOLLOW


def audit_schema(
    warehouse: Warehouse, schemas: Schemas, privacy: Privacy, entity: str, now: datetime
) -> SchemaAudit | None:
    """Compare the table's columns with the fields; None for an entity without a table. No row is read."""
    found = CurrentState.open(warehouse, entity)
    if found is None:
        return None
    fields = {field.name: field for field in arrow_schema(entity_columns(schemas, entity, None, privacy))}
    table = {field.name: field for field in found.schema}
    own = by_any_case(table)
    both = [(field, table[own[name.lower()]]) for name, field in fields.items() if name.lower() in own]
    return SchemaAudit(
        entity,
        columns=len(table),
        retired=tuple(name for name, field in table.items() if is_retired(field) and not KEPT_BEFORE.fullmatch(name)),
        kept_before=tuple(name for name in table if KEPT_BEFORE.fullmatch(name)),
        missing=tuple(name for name in fields if name.lower() not in own),
        wrong=tuple(
            f"{field.name} is {column_type(column)}, its field {column_type(field)}"
            for field, column in both
            if field.type != column.type
        ),
        schema_seen_at=utc(schemas.of_entity(entity)[-1].first_seen_at),
        news=schema_changes(columns_before(warehouse, entity, found.table, now), found.schema),
    )


def columns_before(warehouse: Warehouse, entity: str, table: Table, now: datetime) -> pa.Schema:
    """Return a table's columns of seven days ago, or of when it was created. They are kept for an hour: each run
    evaluates the check at its beginning and its end, over all entities."""
    until, created_ms, schema = _PAST.get((warehouse, entity), (now, 0, pa.schema([])))
    if now < until < now + 2 * PAST_IS_KEPT and created_ms == table.created_ms:
        return schema
    past = Table.open(warehouse, table.name, version_at(warehouse, table.name, (now - NEWS).timestamp()))
    schema = past.schema if past is not None else table.schema
    if len(_PAST) >= KEPT_ENTITIES:
        _PAST.clear()
    _PAST[warehouse, entity] = (now + PAST_IS_KEPT, table.created_ms, schema)
    return schema
