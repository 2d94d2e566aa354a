"""Whether an entity's columns are as describe and the settings of privacy want them.

Every tick and run asks this of every entity, and the answer takes milliseconds: it goes through all schemas, field by
field. So the last answer is kept, with all that it follows from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.lake.tables import current_state
from sfcdc_assets.lake.tables.schemas import EventSchema, Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.schema_evolution.layout import layout_changed
from sfcdc_assets.schema_evolution.table_columns import privacy_conflicts

KEPT_ENTITIES = 1_000


@dataclass(frozen=True)
class ColumnLook:
    """`layout_changed`: describe says something of the entity's fields that its columns do not follow yet.
    `privacy_changed`: its tables were written with other settings of privacy."""

    layout_changed: bool
    privacy_changed: bool


@dataclass(frozen=True)
class _Looked:
    known: Sequence[EventSchema]
    privacy: Privacy
    tables: tuple[pa.Schema | None, pa.Schema | None]
    found: ColumnLook

    def is_of(
        self, known: Sequence[EventSchema], privacy: Privacy, tables: tuple[pa.Schema | None, pa.Schema | None]
    ) -> bool:
        """Return whether it follows from the same."""
        same = all(_is_same(then, now) for then, now in zip(self.tables, tables, strict=True))
        return same and (self.known, self.privacy) == (known, privacy)


def look_at_columns(
    warehouse: Warehouse,
    schemas: Schemas,
    entity: str,
    privacy: Privacy,
    snapshot_table: pa.Schema | None,
    table: pa.Schema | None,
) -> ColumnLook:
    """Look at the columns of the tables `snapshot` and `current_state`, None where there is none; tables beside the
    latter have the same columns."""
    known, tables = schemas.of_entity(entity), (snapshot_table, table)
    last = _LAST.get((warehouse, entity))
    if last is not None and last.is_of(known, privacy, tables):
        return last.found
    present = {current_state.name_of(entity): table} if table is not None else {}
    found = ColumnLook(
        layout_changed=snapshot_table is not None and layout_changed(schemas, entity, snapshot_table, privacy),
        privacy_changed=bool(privacy_conflicts(schemas, entity, present, privacy)),
    )
    if len(_LAST) >= KEPT_ENTITIES:
        _LAST.clear()
    _LAST[warehouse, entity] = _Looked(known, privacy, tables, found)
    return found


_LAST: dict[tuple[Warehouse, str], _Looked] = {}


def _is_same(then: pa.Schema | None, now: pa.Schema | None) -> bool:
    """Metadata says what became of columns."""
    return then is now or (then is not None and now is not None and then.equals(now, check_metadata=True))
