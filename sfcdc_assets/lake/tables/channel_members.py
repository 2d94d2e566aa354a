"""`channel_members`: which entities each channel carries, and with which filter, as the org last listed it.

It is kept where the tables are: who looks at them need not ask the org, and who asks the org can tell what has changed
since somebody last did.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

import pyarrow as pa

from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.delta.conditions import literal
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.delta.table_changes import Remembered
from sfcdc_assets.lake.tables.organization import organization_of
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import utc
from sfcdc_assets.salesforce.channel_members import Member

NAME = "channel_members"

_TIME = pa.timestamp("us", "UTC")

MEMBERS = pa.schema(
    [
        ("organization_id", pa.string()),
        ("channel", pa.string()),
        ("entity_name", pa.string()),
        ("member_id", pa.string()),
        ("created_at", _TIME),
        ("modified_at", _TIME),
        ("filter_expression", pa.string()),
        ("seen_at", _TIME),
    ]
)
"""The newest row of an entity on a channel counts, of those that `organization_id`, which the warehouse belongs to, has
listed: members of another org have other ids and times. `member_id` is null: it is not on the channel (any more)."""


def noted_members(warehouse: Warehouse, channel: str) -> Mapping[str, Member | None]:
    """Entity -> how it was on the channel when somebody last asked; None: not any more. Empty: nobody has asked the org
    that the warehouse belongs to."""
    return _MEMBERS.of(warehouse, [channel], lambda each: _members(warehouse, each))[channel]


def filters_of(warehouse: Warehouse, channel: str) -> dict[str, str]:
    """Entity -> filter expression, of the members of a channel that have one."""
    members = noted_members(warehouse, channel)
    return {entity: each.filter_expression for entity, each in members.items() if each and each.filter_expression}


_MEMBERS = Remembered[str, Mapping[str, Member | None]](most=100)
"""By channel."""


def _members(warehouse: Warehouse, channel: str) -> Mapping[str, Member | None]:
    table = Table.open(warehouse, NAME)
    rows = table.rows(predicate=f"channel = {literal(channel)}") if table else []
    owner = organization_of(warehouse) if rows else None
    newest = {row["entity_name"]: row for row in sorted(rows, key=_seen_at) if row["organization_id"] == owner}
    return MappingProxyType({entity: _member(row) for entity, row in newest.items()})


@retry_on_conflict
def note_members(warehouse: Warehouse, channel: str, members: Mapping[str, Member | None], now_ms: int) -> None:
    """Keep what the org lists now of these entities. Creates no table where nothing is listed, nor before the warehouse
    belongs to an org: its first landing claims it, and what is listed then is the beginning."""
    owner = organization_of(warehouse)
    if owner is None:
        return
    known = noted_members(warehouse, channel)
    rows = [
        {
            "organization_id": owner,
            "channel": channel,
            "entity_name": entity,
            "member_id": member.id if member else None,
            "created_at": member.created_at if member else None,
            "modified_at": member.modified_at if member else None,
            "filter_expression": member.filter_expression if member else None,
            "seen_at": utc(now_ms),
        }
        for entity, member in sorted(members.items())
        if entity not in known or known[entity] != member
    ]
    if rows:
        Table.open_or_create(warehouse, NAME, MEMBERS).append(pa.Table.from_pylist(rows, schema=MEMBERS), {}, {})


def _member(row: Mapping[str, object]) -> Member | None:
    if row["member_id"] is None:
        return None
    created, modified, expression = row["created_at"], row["modified_at"], row["filter_expression"]
    return Member(
        str(row["member_id"]),
        created if isinstance(created, datetime) else None,
        modified if isinstance(modified, datetime) else None,
        str(expression) if expression is not None else None,
    )


def _seen_at(row: Mapping[str, datetime]) -> datetime:
    return row["seen_at"]
