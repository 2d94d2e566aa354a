"""`audits`: what each comparison of an entity's table with the org came to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter

import pyarrow as pa

from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.warehouse import Warehouse

NAME = "audits"

AUDITS = pa.schema(
    [
        ("entity_name", pa.string()),
        ("channel", pa.string()),
        ("position", pa.int64()),
        ("audited_at", pa.timestamp("us", "UTC")),
        ("in_org", pa.int64()),
        ("in_table", pa.int64()),
        ("differences", pa.int64()),
        ("parts_read", pa.int64()),
        ("parts_skipped", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Audit:
    """One comparison: where the table stood, when it began, the live records on both sides, and the parts of the entity
    that were read and that were not for want of budget."""

    entity_name: str
    channel: str
    position: int
    audited_at: datetime
    in_org: int
    in_table: int
    differences: int
    parts_read: int
    parts_skipped: int


@retry_on_conflict
def note_audit(warehouse: Warehouse, audit: Audit) -> None:
    """Keep it."""
    table = Table.open_or_create(warehouse, NAME, AUDITS)
    table.append(pa.Table.from_pylist([vars(audit)], schema=AUDITS), {}, {})


def last_audits(warehouse: Warehouse) -> dict[str, datetime]:
    """Entity -> when it was last compared whole."""
    table = Table.open(warehouse, NAME)
    if table is None:
        return {}
    rows = table.rows(["entity_name", "audited_at"], "parts_skipped = 0")
    return {row["entity_name"]: row["audited_at"] for row in sorted(rows, key=itemgetter("audited_at"))}
