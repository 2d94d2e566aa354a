"""`lost_checkpoints`: every time a channel's checkpoint was lost, one row each, kept for good."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter

import pyarrow as pa

from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse

NAME = "lost_checkpoints"

_TIME = pa.timestamp("us", "UTC")

LOST_CHECKPOINTS = pa.schema(
    [
        ("channel", pa.string()),
        ("position", pa.int64()),
        ("reason", pa.string()),
        ("lost_at", _TIME),
        ("last_landed_at", _TIME),
    ]
)
"""`position`: that of the break in the channel's order; `lost_at`: when the org refused the checkpoint, by our clock;
`last_landed_at`: when the channel was last landed before. What happened between the two is read from the org."""


@dataclass(frozen=True)
class LostCheckpoint:
    """One row."""

    channel: str
    position: int
    reason: str
    lost_at: datetime
    last_landed_at: datetime | None


def note_lost_checkpoint(
    warehouse: Warehouse, channel: str, position: int, reason: str, at_ms: int, landed_ms: int | None
) -> None:
    """Keep a lost checkpoint, before the order is broken there: a repetition after a crash finds it."""
    if any(checkpoint.position == position for checkpoint in lost_checkpoints(warehouse, channel)):
        return
    row = {
        "channel": channel,
        "position": position,
        "reason": reason,
        "lost_at": _time(at_ms),
        "last_landed_at": None if landed_ms is None else _time(landed_ms),
    }
    table = Table.open_or_create(warehouse, NAME, LOST_CHECKPOINTS)
    table.append(pa.Table.from_pylist([row], schema=LOST_CHECKPOINTS), {channel: position}, {})


def lost_checkpoints(warehouse: Warehouse, channel: str) -> list[LostCheckpoint]:
    """All of a channel, newest first."""
    table = Table.open(warehouse, NAME)
    if table is None:
        return []
    quoted = channel.replace("'", "''")
    rows = table.rows(predicate=f"channel = '{quoted}'")
    return sorted((LostCheckpoint(**row) for row in rows), key=attrgetter("position"), reverse=True)


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
