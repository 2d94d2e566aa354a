"""`snapshot_plan`: which entities waited for a copy when a run of `snapshot` began, with about how many records."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import utc

NAME = "snapshot_plan"

SNAPSHOT_PLAN = pa.schema(
    [
        ("noted_at", pa.timestamp("us", "UTC")),
        ("entity_name", pa.string()),
        ("records", pa.int64()),
        ("place", pa.int32()),
        ("why_not", pa.string()),
    ]
)
"""`place`: in the order of the copies, from 1. `records`: null where the org does not say it. `why_not`: null where
copies were begun, else why none was."""


@retry_on_conflict
def note_plan(warehouse: Warehouse, records: Mapping[str, int | None], now_ms: int, why_not: str | None = None) -> None:
    """Keep it: entities in the order in which they are copied. `why_not`: there is no room for any of them."""
    noted_at = utc(now_ms)
    rows = [
        {"noted_at": noted_at, "entity_name": entity, "records": count, "place": place, "why_not": why_not}
        for place, (entity, count) in enumerate(records.items(), start=1)
    ]
    table = Table.open_or_create(warehouse, NAME, SNAPSHOT_PLAN)
    table.add_columns([field for field in SNAPSHOT_PLAN if field.name not in table.schema.names])
    table.append(pa.Table.from_pylist(rows, schema=SNAPSHOT_PLAN), {}, {})


def planned(warehouse: Warehouse) -> dict[str, int | None]:
    """Entities that waited when a plan was last made for them, in the order of the plans, with their records. Some of
    them are copied since."""
    table = Table.open(warehouse, NAME)
    if table is None:
        return {}
    rows = sorted(table.rows(), key=lambda row: (row["noted_at"], row["place"]))
    newest = {row["entity_name"]: row for row in rows}
    ordered = sorted(newest.values(), key=lambda row: (row["noted_at"], row["place"]))
    return {row["entity_name"]: row["records"] for row in ordered}


def why_no_copy_began(warehouse: Warehouse) -> str | None:
    """Return what the newest plan says; None where copies were begun, or none was ever planned."""
    table = Table.open(warehouse, NAME)
    if table is None or "why_not" not in table.schema.names:
        return None
    newest = max(table.rows(["noted_at", "why_not"]), key=lambda row: row["noted_at"], default=None)
    return newest["why_not"] if newest else None
