"""`text_fields/<Entity>`: every full value of a large text field, appended batch by batch."""

from __future__ import annotations

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.appended_table import Appended
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.timeline.text_values import TEXT_FIELDS

LAYER = "text_fields"


def name_of(entity: str) -> str:
    """Path of the entity's table below the warehouse."""
    return f"{LAYER}/{entity}"


def open_or_create(warehouse: Warehouse, entity: str) -> Appended:
    """Return the newest snapshot, created empty when there is none."""
    statistics = ["record_id", "position", "_batch"]
    table = Table.open_or_create(warehouse, name_of(entity), TEXT_FIELDS, statistics_on=statistics, of_batches=True)
    return Appended(table, "position")


def open_if_there(warehouse: Warehouse, entity: str) -> Appended | None:
    """Return the newest snapshot, None when there is none."""
    table = Table.open(warehouse, name_of(entity))
    return Appended(table, "position") if table else None
