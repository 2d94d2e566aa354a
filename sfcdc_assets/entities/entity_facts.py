"""What an entity's tables say of it: worked out when one of them has changed, and remembered until the next time.

A tick and a run ask for the state of every entity, and most entities are as they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from sfcdc_assets.entities.open_tables import OpenTables
from sfcdc_assets.lake.delta.table_changes import Remembered
from sfcdc_assets.lake.errors import TableDamaged, UnreadableTable
from sfcdc_assets.lake.tables.damage import Unreadable, of_each_entity
from sfcdc_assets.lake.tables.entity_checkpoint import Checkpoint
from sfcdc_assets.lake.tables.open_suspect import OpenSuspect
from sfcdc_assets.lake.warehouse import Warehouse

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
    copied_at: int
    """When the newest snapshot was asked for by the org's clock, epoch ms; 0 where that is not known."""
    suspects: tuple[OpenSuspect, ...]
    """Those that are open."""
    versions: Mapping[str, int]
    """Table -> Delta version, of those that a consistent cut names."""
    schema: pa.Schema | None
    """Of `current_state`."""
    snapshot_schema: pa.Schema | None


def entity_facts(warehouse: Warehouse, channels: Mapping[str, str]) -> dict[str, EntityFacts | Unreadable]:
    """Return the facts of each entity (entity -> channel), from its newest tables, or why these cannot be read. Of rows
    only those of the ledgers are read."""

    def facts(each: tuple[str, str]) -> EntityFacts:
        return _facts(warehouse, *each)

    try:
        found = _REMEMBERED.of(warehouse, list(channels.items()), facts)
    except (TableDamaged, UnreadableTable):  # which is not remembered: somebody may mend it. The others are, by now
        return of_each_entity(
            lambda entity: _REMEMBERED.of(warehouse, [(entity, channels[entity])], facts)[entity, channels[entity]],
            list(channels),
            at_once=1,
        )
    return {entity: found[entity, channel] for entity, channel in channels.items()}


def readable_facts(warehouse: Warehouse, channels: Mapping[str, str]) -> dict[str, EntityFacts]:
    """Return the facts of those entities whose tables can be read."""
    found = entity_facts(warehouse, channels)
    return {entity: each for entity, each in found.items() if isinstance(each, EntityFacts)}


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
        copied_at=taken.checkpoint().asked_at if taken else 0,
        suspects=tuple(ledger.open_suspects()) if ledger else (),
        versions=tables.versions,
        schema=table.schema if table else None,
        snapshot_schema=taken.table.schema if taken else None,
    )
