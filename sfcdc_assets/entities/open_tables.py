"""An entity's tables as they are: each opened once, none created or changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables import current_state, history, snapshots, text_fields
from sfcdc_assets.lake.tables.appended_table import Appended
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.concurrency import all_side_by_side


@dataclass(frozen=True)
class OpenTables:
    """Handles on one snapshot of each of the entity's tables that there are."""

    entity: str
    taken: Snapshots | None
    ledger: Ledger | None
    current_state: CurrentState | None
    texts: Appended | None
    history: Appended | None

    @classmethod
    def open(cls, warehouse: Warehouse, entity: str) -> OpenTables:
        """Open the newest state of each. Raises `TableDamaged`."""
        of_each: tuple[Callable[[Warehouse, str], Any], ...] = (
            Snapshots.open,
            Ledger.open,
            CurrentState.open,
            text_fields.open_if_there,
            history.open_if_there,
        )
        at_once = 1 if warehouse.is_local else len(of_each)
        return cls(entity, *all_side_by_side(lambda open_one: open_one(warehouse, entity), of_each, at_once))

    @property
    def are_built(self) -> bool:
        """The tables beside `current_state` go with it."""
        return all(each is not None and each.is_built for each in (self.texts, self.history))

    @property
    def schemas_with_columns(self) -> Mapping[str, pa.Schema]:
        """Table -> its schema, of those that have the entity's columns."""
        found = {
            current_state.name_of(self.entity): self.current_state.table if self.current_state else None,
            history.name_of(self.entity): self.history.table if self.history else None,
            snapshots.name_of(self.entity): self.taken.table if self.taken else None,
        }
        return {name: table.schema for name, table in found.items() if table is not None}

    @property
    def versions(self) -> Mapping[str, int]:
        """Table -> its Delta version, of those that a consistent cut names."""
        beside = (self.texts, self.ledger, self.history, self.current_state)
        tables: list[Table] = [each.table for each in beside if each is not None]
        return {table.name: table.version for table in tables}
