"""How one entity's tables stand: each is opened once, and no row is read that the log speaks of.

What is read beside the log: the entries of a snapshot that is being read, entries that are open, and when events were
committed that wait. So it costs the same however many rows an entity has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sfcdc_assets.change_events.privacy import Compounds, Privacy, PrivacyConflict
from sfcdc_assets.entities.freshness import waiting, waiting_reads
from sfcdc_assets.entities.refused_reads import refusal_in
from sfcdc_assets.event_channels.tables.fold import has_state
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables import current_state, history, snapshots
from sfcdc_assets.lake.tables.audits import last_audits
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.damage import LAYERS, damage_of_table, opened
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.gap_reconciliation import LAYER as RECONCILIATION
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.push_topic_state import PushTopicState
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import seconds_text
from sfcdc_assets.schema_evolution.table_columns import conflicts_in
from sfcdc_assets.settings.channel_kinds import POLLED, folder_of
from sfcdc_assets.status.status_report import EntityStatus, SnapshotStatus, TableSize, TopicStatus
from sfcdc_assets.timeline.suspect_behaviour import MISSING_EVENTS

OF_COLUMNS = (current_state.LAYER, history.LAYER, snapshots.LAYER)
"""Tables that have the entity's columns."""


@dataclass(frozen=True)
class LandedStatus:
    """What was landed: `raw_events`, if it is there, and in it, by configured channel in their order, the last position
    of each entity; `now_ms` as epoch ms."""

    events: RawEvents | None
    last: Mapping[str, Mapping[str, int]]
    now_ms: int

    def waiting(self, entity: str, channel: str, after: int) -> tuple[int | None, float | None]:
        """Return how many events of an entity wait, and for how long the oldest has (seconds); None where that cannot
        be read."""
        up_to = self.last.get(channel, {}).get(entity, 0)
        if self.events is None or up_to <= after:
            return 0, 0.0
        try:
            return waiting(self.events, entity, channel, after, up_to, self.now_ms)
        except TableDamaged:
            return None, None


@dataclass(frozen=True)
class EntityLook:
    """What a look at an entity's tables found. `refused`: why a read of the org is not in them, None where all are."""

    status: EntityStatus
    damage: tuple[TableDamaged, ...] = ()
    conflicts: Mapping[str, Sequence[PrivacyConflict]] = field(default_factory=dict)
    refused: str | None = None


def look_at(
    warehouse: Warehouse,
    entity: str,
    landed: LandedStatus,
    of_events: TableDamaged | None,
    privacy: Privacy,
    compounds_of: Callable[[str], Compounds],
) -> EntityLook:
    """Look at one entity's tables; `of_events`: the damage of the entity's part of `raw_events`. A damaged table is
    reported, and does not keep what the others say from being."""
    damage = {} if of_events is None else {of_events.table: of_events}
    tables: dict[str, Table] = {}
    for layer in LAYERS:
        table = opened(warehouse, f"{layer}/{entity}")
        found = damage_of_table(warehouse, entity, table)
        if found is not None:
            damage[found.table] = found
        if isinstance(table, Table):
            tables[layer] = table
    status, conflicts, refused = EntityStatus(entity), dict[str, Sequence[PrivacyConflict]](), None
    try:
        status = _status(warehouse, entity, tables, landed)
        status = replace(status, sizes={layer: size_of(table) for layer, table in tables.items()})
        if not damage:
            refused = refusal_in(_ledger(warehouse, tables))
            columns = {tables[layer].name: tables[layer].schema for layer in OF_COLUMNS if layer in tables}
            conflicts = dict(conflicts_in(entity, columns, privacy, compounds_of))
    except TableDamaged as met:
        damage.setdefault(met.table, met)
    return EntityLook(status, tuple(damage.values()), conflicts, refused)


def size_of(table: Table) -> TableSize:
    """Return what the log says of a table."""
    files = table.file_statistics()
    return TableSize(table.count(), len(files), int(files["size_bytes"].sum() or 0))


def _status(warehouse: Warehouse, entity: str, tables: Mapping[str, Table], of: LandedStatus) -> EntityStatus:
    landed = of.last
    taken = Snapshots(tables[snapshots.LAYER]) if snapshots.LAYER in tables else None
    standing = taken.standing() if taken else None
    copied = SnapshotStatus(*standing) if standing else None
    if current_state.LAYER not in tables:
        return EntityStatus(entity, copied)
    table, ledger = CurrentState(tables[current_state.LAYER]), _ledger(warehouse, tables)
    counts = table.counts()
    channel = next((name for name in landed if taken and taken.has_watermark_on(name)), None)
    applied = table.applied(channel) if channel else None
    carrying = next((name for name in landed if name == channel or entity in landed[name]), None)
    of_entity = ledger.open_suspects(of_the_entity=True) if ledger else []
    watermark = taken.watermark() if taken and channel else 0
    waits: tuple[int | None, float | None] = (0, 0.0)
    if taken and channel == POLLED:
        waits = waiting_reads(taken, table, of.now_ms)
    elif channel:
        waits = of.waiting(entity, channel, max(applied or 0, watermark))
    waiting_events, lag = waits
    missed = tuple(suspect.detail or "" for suspect in of_entity if suspect.reason in MISSING_EVENTS)
    return EntityStatus(
        entity,
        copied,
        rows=counts.rows,
        deleted=counts.deleted,
        suspects=counts.suspects,
        channel=channel,
        applied=applied,
        up_to_date=carrying == channel
        and not missed
        and landed.get(channel or "", {}).get(entity, 0) <= (applied or 0)
        and not (channel == POLLED and waiting_events),
        new_channel=carrying if carrying != channel else None,
        version=table.table.version,
        open_suspects=ledger.counts() if ledger else {},
        missed=missed,
        waiting_events=waiting_events,
        lag_seconds=None if lag is None else round(lag, 1),
    )


def _ledger(warehouse: Warehouse, tables: Mapping[str, Table]) -> Ledger | None:
    return Ledger(tables[RECONCILIATION], warehouse) if RECONCILIATION in tables else None


def topic_statuses(warehouse: Warehouse, landed: Mapping[str, EventTable]) -> Iterator[TopicStatus]:
    """One for each of the landed channels that is a topic's. Raises `TableDamaged`."""
    checked = last_audits(warehouse)
    for channel, events in landed.items():
        if has_state(channel):
            state = PushTopicState.open(warehouse, folder_of(channel))
            counts = state.counts() if state else {}
            at = checked.get(channel)
            yield TopicStatus(
                folder_of(channel),
                channel,
                landed=events.last_position(channel),
                applied=state.applied(channel) if state else None,
                last_check=seconds_text(at) if at else None,
                **counts,
            )
