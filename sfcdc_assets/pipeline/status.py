"""How the warehouse stands: each channel's checkpoint and each entity's table, from the tables alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

import pyarrow.compute as pc

from sfcdc_assets.change_events.privacy import NOTHING_PRIVATE, Privacy
from sfcdc_assets.channel_kinds import carries_changes, table_of
from sfcdc_assets.config import Settings
from sfcdc_assets.lake.audits import last_audits
from sfcdc_assets.lake.channel_filters import filters_of
from sfcdc_assets.lake.current_state import CurrentState
from sfcdc_assets.lake.damage import damage_of
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.event_table import EventTable
from sfcdc_assets.lake.gap_reconciliation import Ledger
from sfcdc_assets.lake.landed_table import LandedTable
from sfcdc_assets.lake.raw_events import NAME as RAW_EVENTS_NAME
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.schemas import Schemas
from sfcdc_assets.lake.snapshot_plan import planned
from sfcdc_assets.lake.snapshots import Snapshots
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.landing.lost_checkpoint import KnownLoss, known_losses
from sfcdc_assets.pipeline.landing.same_organization import owner_of
from sfcdc_assets.pipeline.org_reads.refused_reads import refused_reads
from sfcdc_assets.pipeline.push_topics.topic_status import topic_statuses
from sfcdc_assets.pipeline.schemas.table_columns import conflicts_of_entity, private_columns
from sfcdc_assets.pipeline.status_report import (
    ChannelStatus,
    DamageStatus,
    EntityStatus,
    EventTableStatus,
    LostCheckpointStatus,
    PrivacyStatus,
    SnapshotStatus,
    WarehouseStatus,
)
from sfcdc_assets.side_by_side import side_by_side

Found = TypeVar("Found")
AT_ONCE = 8
"""Entities that are looked at beside each other."""
LAYERS = ("current_state", "snapshot", "gap_reconciliation")
"""Their folders name the entities."""


def status_of(warehouse: Warehouse, settings: Settings) -> WarehouseStatus:
    """How far the channels and tables are.

    Makes no API calls and creates no table. A damaged table is named in `damaged`, with what mends it, and does not
    keep the others from being reported.
    """
    damaged: list[TableDamaged] = []
    raw = _unless_damaged(damaged, lambda: Table.open(warehouse, RAW_EVENTS_NAME))
    events = RawEvents(raw, warehouse) if raw else None
    changes = settings.change_channels
    landed = {channel: events.last_positions(channel) if events else {} for channel in changes}
    of_events = {
        channel: table
        for channel in settings.event_channels
        if (table := _unless_damaged(damaged, partial(EventTable.open, warehouse, channel))) is not None
    }
    names = sorted({name for layer in LAYERS for name in warehouse.entities(layer)})
    filters = _unless_damaged(damaged, lambda: {each: filters_of(warehouse, each) for each in changes}) or {}
    audits = _unless_damaged(damaged, lambda: last_audits(warehouse)) or {}
    of_entities = dict(zip(names, _of_each(lambda name: damage_of(warehouse, name), names), strict=True))
    entities = list(_of_each(lambda name: _entity_or_damage(warehouse, landed, name, of_entities[name]), names))
    sound = [name for name in names if not of_entities[name]]
    topics = _unless_damaged(damaged, lambda: tuple(topic_statuses(warehouse, of_events))) or ()
    damaged += [each for found in of_entities.values() for each in found if str(each) not in map(str, damaged)]
    return WarehouseStatus(
        warehouse.root,
        owner_of(warehouse),
        tuple(
            _channel(warehouse, events if carries_changes(channel) else of_events.get(channel), channel, damaged)
            for channel in settings.channels
        ),
        tuple(_with_filter_and_audit(each, filters, audits) for each in entities),
        _unless_damaged(damaged, lambda: _privacy(warehouse, Privacy.of(settings), sound)) or PrivacyStatus(),
        _unless_damaged(damaged, lambda: _refused(warehouse, settings, sound)) or {},
        _unless_damaged(damaged, lambda: _quarantined(warehouse)) or 0,
        tuple(DamageStatus(each.table, each.entity, each.file, str(each)) for each in damaged),
        tuple(_event_table(channel, of_events.get(channel), damaged) for channel in settings.event_channels),
        topics,
        _unless_damaged(damaged, lambda: _waiting(warehouse, entities)) or {},
    )


def _of_each(look: Callable[[str], Found], names: Sequence[str]) -> Iterator[Found]:
    """What a look at each entity finds, some at a time: most of it is opening tables. Raises what a look raises."""
    for found in side_by_side(look, names, AT_ONCE):
        if isinstance(found, Exception):
            raise found
        yield found


def _waiting(warehouse: Warehouse, entities: Sequence[EntityStatus]) -> Mapping[str, int | None]:
    copied = {
        each.entity for each in entities if each.applied is not None or (each.snapshot and each.snapshot.complete)
    }
    return {entity: records for entity, records in planned(warehouse).items() if entity not in copied}


def _unless_damaged(damaged: list[TableDamaged], look: Callable[[], Found]) -> Found | None:
    """What a look at tables finds; None where one is damaged, which is noted."""
    try:
        return look()
    except TableDamaged as damage:
        damaged.append(damage)
        return None


def _quarantined(warehouse: Warehouse) -> int:
    quarantine = Table.open(warehouse, "quarantine")
    return quarantine.count() if quarantine else 0


def _privacy(warehouse: Warehouse, privacy: Privacy, entities: list[str]) -> PrivacyStatus:
    """What the settings hide of each entity, what its tables still have, and the rules that name no column."""
    schemas = Schemas(warehouse)
    seen = [entity for entity in entities if schemas.of_entity(entity)]
    # Rules are compared with every column of every schema, so not where there are none.
    concerned = seen if privacy != NOTHING_PRIVATE else []
    known = {entity: private_columns(schemas, entity, privacy) for entity in concerned}
    of_each = _of_each(lambda entity: conflicts_of_entity(warehouse, schemas, entity, privacy), seen)
    conflicts = dict(zip(seen, of_each, strict=True))
    return PrivacyStatus(
        {entity: columns.left_out for entity, columns in known.items() if columns.left_out},
        {entity: columns.hashed for entity, columns in known.items() if columns.hashed},
        tuple(privacy.unmatched({entity: each.names for entity, each in known.items()})),
        {
            entity: {table: tuple(str(each) for each in found) for table, found in of_tables.items()}
            for entity, of_tables in conflicts.items()
            if of_tables
        },
    )


def _channel(
    warehouse: Warehouse, table: LandedTable | None, channel: str, damaged: list[TableDamaged]
) -> ChannelStatus:
    losses = _unless_damaged(damaged, lambda: known_losses(warehouse, channel)) or []
    lost = tuple(map(_lost_checkpoint, losses))
    status = ChannelStatus(channel, lost_checkpoint=lost[0] if lost else None, lost_checkpoints=lost)
    if table is None:
        return status
    found = table.stored_checkpoint(channel)
    return replace(
        status,
        position=found.position,
        complete_position=found.complete_position,
        replay_id=found.replay_id.hex() or None,
        transport=found.transport if found.begun or found.replay_id else None,
        landed_at=_iso(found.landed_at) if found.landed_at else None,
    )


def _event_table(channel: str, table: EventTable | None, damaged: list[TableDamaged]) -> EventTableStatus:
    status = EventTableStatus(channel, table_of(channel))
    if table is None:
        return status

    def look() -> EventTableStatus:
        newest = table.newest_event()
        moment = newest.isoformat(timespec="seconds") if newest else None
        return replace(status, rows=table.table.count(), problems=table.problems(), newest_event=moment)

    return _unless_damaged(damaged, look) or status


def _lost_checkpoint(loss: KnownLoss) -> LostCheckpointStatus:
    landed = loss.checkpoint.last_landed_at
    return LostCheckpointStatus(
        loss.checkpoint.reason,
        loss.checkpoint.position,
        landed.isoformat(timespec="seconds") if landed else None,
        loss.checkpoint.lost_at.isoformat(timespec="seconds"),
        loss.is_bridged,
        loss.waiting,
    )


def _entity_or_damage(
    warehouse: Warehouse, landed: Mapping[str, Mapping[str, int]], entity: str, found: list[TableDamaged]
) -> EntityStatus:
    """`found`: its damage that is known; what is met besides is added."""
    met: list[TableDamaged] = []
    status = _unless_damaged(met, lambda: _entity(warehouse, landed, entity)) or EntityStatus(entity)
    found += [each for each in met if each.table not in {known.table for known in found}]
    return replace(status, damaged=tuple(str(each) for each in found))


def _entity(warehouse: Warehouse, landed: Mapping[str, Mapping[str, int]], entity: str) -> EntityStatus:
    """`landed`: configured channel, in their order -> entity -> last position."""
    table = CurrentState.open(warehouse, entity)
    snapshots = Snapshots.open(warehouse, entity)
    ledger = Ledger.open(warehouse, entity)
    progress = snapshots.progress() if snapshots else None
    copied = SnapshotStatus(progress.snapshot_number, progress.rows_done, progress.complete) if progress else None
    if table is None:
        return EntityStatus(entity, copied)
    rows = table.table.scan(["_is_deleted", "_in_doubt"])
    channel = next((name for name in landed if snapshots and snapshots.has_watermark_on(name)), None)
    applied = table.applied(channel) if channel else None
    carrying = next((name for name in landed if name == channel or entity in landed[name]), None)
    return EntityStatus(
        entity,
        copied,
        rows=rows.num_rows,
        deleted=pc.sum(rows["_is_deleted"]).as_py() or 0,
        in_doubt=pc.sum(rows["_in_doubt"]).as_py() or 0,
        channel=channel,
        applied=applied,
        up_to_date=carrying == channel and landed.get(channel or "", {}).get(entity, 0) <= (applied or 0),
        new_channel=carrying if carrying != channel else None,
        version=table.table.version,
        open_doubts=ledger.counts() if ledger else {},
    )


def _refused(warehouse: Warehouse, settings: Settings, sound: list[str]) -> dict[str, str]:
    return refused_reads(warehouse, [name for name in sound if not settings.entities or name in settings.entities])


def _with_filter_and_audit(
    status: EntityStatus, filters: Mapping[str, Mapping[str, str]], audits: Mapping[str, datetime]
) -> EntityStatus:
    """With the filter of the events that feed the entity, None for none, and when its table was last compared whole."""
    audited = audits.get(status.entity)
    return replace(
        status,
        filter_expression=filters.get(status.channel or "", {}).get(status.entity),
        last_audit=audited.isoformat(timespec="seconds") if audited else None,
    )


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
