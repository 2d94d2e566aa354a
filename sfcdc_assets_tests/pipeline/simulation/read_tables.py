"""The tables of a simulated, read as any other program reads them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from sfcdc_assets.lake.tables.all_versions import all_versions
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.channel_kinds import table_of
from sfcdc_assets_tests.pipeline.oracle import EPOCH


def rows_of(warehouse: Warehouse, table: str, version: int | None = None) -> list[dict[str, Any]]:
    """All rows, or none if there is no such table."""
    try:
        opened = DeltaTable(warehouse.uri(table), version=version)
    except TableNotFoundError:
        return []
    return pa.table(opened.scan()).to_pylist()


def landed_rows(warehouse: Warehouse, channel: str) -> list[dict[str, Any]]:
    """The events of a channel that has a table of its own, in the order of their positions. There must be one."""
    assert DeltaTable.is_deltatable(warehouse.uri(table_of(channel))), channel
    return sorted(rows_of(warehouse, table_of(channel)), key=lambda row: row["position"])


def versions_of(warehouse: Warehouse, entity: str) -> list[dict[str, Any]]:
    """All versions of an entity's records, none if it has no tables."""
    found = all_versions(warehouse, entity)
    return found.to_pylist() if found is not None else []


def ms(time: datetime) -> int:
    """Epoch milliseconds."""
    return round((time - EPOCH).total_seconds() * 1_000)
