"""Which tables a warehouse has, and what maintenance may do with each."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial

from sfcdc_assets.lake import (
    audits,
    channel_filters,
    consistent_cuts,
    current_state,
    gap_reconciliation,
    history,
    lost_checkpoints,
    organization,
    push_topic_state,
    quarantine,
    raw_events,
    schemas,
    snapshot_plan,
    snapshots,
    text_fields,
)
from sfcdc_assets.lake.data_files import DataFile
from sfcdc_assets.lake.event_table import event_table_names
from sfcdc_assets.lake.raw_event_reads import payloads_dropped
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.maintenance.pack import Apart, Packing
from sfcdc_assets.push_topics.state_rows import ID

SINGLE: Mapping[str, Packing] = {
    consistent_cuts.NAME: Packing(("channel", "position")),
    audits.NAME: Packing(("audited_at",)),
    schemas.NAME: Packing(("first_seen_at",)),
    channel_filters.NAME: Packing(("seen_at",)),
    lost_checkpoints.NAME: Packing(("channel", "position")),
    organization.NAME: Packing(("number",)),
    snapshot_plan.NAME: Packing(("noted_at", "place")),
    quarantine.NAME: Packing(("channel", "position")),
}
"""Tables of the whole warehouse beside `raw_events`."""


LAYERS: Mapping[str, Packing | None] = {
    snapshots.LAYER: Packing(("_refetch", "Id")),
    text_fields.LAYER: Packing(("record_id", "position")),
    gap_reconciliation.LAYER: Packing(("opened_position",)),
    push_topic_state.LAYER: Packing((ID,)),
    history.LAYER: Packing(("Id", "_position")),
    current_state.LAYER: None,
}
"""Tables that each entity, or each PushTopic, has. None: its files are the writer's own."""

OF_A_CUT = (text_fields.LAYER, gap_reconciliation.LAYER, history.LAYER, current_state.LAYER)
"""Layers whose versions a consistent cut names."""


@dataclass(frozen=True)
class Maintained:
    """A table, how it is packed (None: not at all), and whether consistent cuts name its versions."""

    name: str
    packing: Packing | None
    is_of_a_cut: bool = False


def maintained_tables(warehouse: Warehouse, payload_retention_days: int | None) -> Iterator[Maintained]:
    """Every table there is, `raw_events` first and `current_state` last."""
    yield Maintained(raw_events.NAME, _of_raw_events(payload_retention_days))
    for name, packing in SINGLE.items():
        yield Maintained(name, packing)
    for name in event_table_names(warehouse):
        yield Maintained(name, Packing(("position",)))
    for layer, each in LAYERS.items():
        for entity in warehouse.entities(layer):
            yield Maintained(f"{layer}/{entity}", each, layer in OF_A_CUT)


def _of_raw_events(payload_retention_days: int | None) -> Packing:
    """Channels are kept apart. So are days, where payloads are given up day by day: a file is rewritten once, when
    all of its payloads may go."""
    apart = _channels if payload_retention_days is None else _channels_and_days
    return Packing(("channel", "position"), apart)


def _channels(table: Table) -> Apart:
    return _channel


def _channel(file: DataFile) -> Hashable:
    return file.statistics["min.channel"], file.statistics["max.channel"]


def _channels_and_days(table: Table) -> Apart:
    dropped = cache(partial(payloads_dropped, table))

    def apart(file: DataFile) -> Hashable:
        of = file.statistics
        if of["max.position"] <= dropped(of["partition.entity_name"], of["max.channel"]):
            return _channel(file), None
        return _channel(file), of["max.received_at"].date()

    return apart
