"""`history/<Entity>`: the superseded versions of records, appended batch by batch."""

from __future__ import annotations

from collections.abc import Sequence

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.appended_table import Appended
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.timeline.version_columns import history_schema

LAYER = "history"
ENDS_AT = "_superseded_at"


def name_of(entity: str) -> str:
    """Path of the entity's table below the warehouse."""
    return f"{LAYER}/{entity}"


def open_or_create(warehouse: Warehouse, entity: str, columns: Sequence[Column]) -> Appended:
    """Return the newest snapshot, created with these columns when there is none."""
    statistics = ["Id", "_position", "_valid_from", "_valid_to", ENDS_AT, "_batch"]
    table = Table.open_or_create(
        warehouse, name_of(entity), history_schema(columns), statistics_on=statistics, of_batches=True
    )
    return Appended(table, ENDS_AT)


def open_if_there(warehouse: Warehouse, entity: str) -> Appended | None:
    """Return the newest snapshot, None when there is none."""
    table = Table.open(warehouse, name_of(entity))
    return Appended(table, ENDS_AT) if table else None
