"""What an entity's tables say of it: worked out when one of them has changed, and remembered until the next time.

A tick and a run ask for the state of every entity, and most entities are as they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from sfcdc_assets.lake.checkpoint import Checkpoint
from sfcdc_assets.lake.gap_reconciliation import OpenDoubt
from sfcdc_assets.lake.remembered import Remembered
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.applying.open_tables import OpenTables

KEPT_ENTITIES = 1_000


@dataclass(frozen=True)
class EntityFacts:
    """Of an entity that follows a channel, whatever the time is and whatever has landed. `applied`: None where there is
    no table, or none of the channel's events ever was in it; schemas and the snapshot's numbers likewise."""

    checkpoint: Checkpoint
    applied: int | None
    are_built: bool
    snapshot_complete: int
    watermark: int
    has_watermark: bool
    """The newest snapshot's watermark lies on the channel."""
    last_read_back: int
    doubts: tuple[OpenDoubt, ...]
    """Those that are open."""
    versions: Mapping[str, int]
    """Table -> Delta version, of those that a consistent cut names."""
    schema: pa.Schema | None
    """Of `current_state`."""
    snapshot_schema: pa.Schema | None


def entity_facts(warehouse: Warehouse, channels: Mapping[str, str]) -> dict[str, EntityFacts]:
    """Of each entity (entity -> channel), from its newest tables. Of rows only those of the ledgers are read. Raises
    `TableDamaged`."""
    found = _REMEMBERED.of(warehouse, list(channels.items()), lambda each: _facts(warehouse, *each))
    return {entity: found[entity, channel] for entity, channel in channels.items()}


_REMEMBERED = Remembered[tuple[str, str], EntityFacts](KEPT_ENTITIES)
"""By entity and channel."""


def _facts(warehouse: Warehouse, entity: str, channel: str) -> EntityFacts:
    tables = OpenTables.open(warehouse, entity)
    table, taken, ledger = tables.current_state, tables.taken, tables.ledger
    return EntityFacts(
        checkpoint=table.checkpoint(channel) if table else Checkpoint(),
        applied=table.applied(channel) if table else None,
        are_built=table is not None and tables.are_built,
        snapshot_complete=taken.complete_number() if taken else 0,
        watermark=taken.watermark() if taken else 0,
        has_watermark=taken is not None and taken.has_watermark_on(channel),
        last_read_back=taken.last_read_back() if taken else 0,
        doubts=tuple(ledger.open_doubts()) if ledger else (),
        versions=tables.versions,
        schema=table.schema if table else None,
        snapshot_schema=taken.table.schema if taken else None,
    )
