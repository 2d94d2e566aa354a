"""`channel_filters`: filter expressions of channel members, as the org last listed them.

Records outside a filter raise no events, so it is kept where the tables are: who looks at them need not ask the org.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa

from sfcdc_assets import clock
from sfcdc_assets.lake.remembered import Remembered
from sfcdc_assets.lake.retry_on_conflict import retry_on_conflict
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse

NAME = "channel_filters"

FILTERS = pa.schema(
    [
        ("channel", pa.string()),
        ("entity_name", pa.string()),
        ("filter_expression", pa.string()),
        ("seen_at", pa.timestamp("us", "UTC")),
    ]
)
"""The newest row of an entity on a channel counts; null ends a filter."""


def filters_of(warehouse: Warehouse, channel: str) -> dict[str, str]:
    """Entity -> filter expression, of the members of a channel that have one."""
    return _FILTERS.of(warehouse, [channel], lambda each: _filters(warehouse, each))[channel]


_FILTERS = Remembered[str, dict[str, str]](most=100)
"""By channel."""


def _filters(warehouse: Warehouse, channel: str) -> dict[str, str]:
    table = Table.open(warehouse, NAME)
    rows = table.rows() if table else []
    newest = {row["entity_name"]: row for row in sorted(rows, key=_seen_at) if row["channel"] == channel}
    return {entity: row["filter_expression"] for entity, row in newest.items() if row["filter_expression"]}


@retry_on_conflict
def note_filters(warehouse: Warehouse, channel: str, filters: Mapping[str, str]) -> None:
    """Keep what the org lists, where it differs from what is known. Creates no table as long as there is no filter."""
    known = filters_of(warehouse, channel)
    changed = {entity: filters.get(entity) for entity in sorted(known.keys() | filters.keys())}
    changed = {entity: expression for entity, expression in changed.items() if expression != known.get(entity)}
    if not changed:
        return
    now = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
    rows = [
        {"channel": channel, "entity_name": entity, "filter_expression": expression, "seen_at": now}
        for entity, expression in changed.items()
    ]
    Table.open_or_create(warehouse, NAME, FILTERS).append(pa.Table.from_pylist(rows, schema=FILTERS), {}, {})


def _seen_at(row: Mapping[str, datetime]) -> datetime:
    return row["seen_at"]
