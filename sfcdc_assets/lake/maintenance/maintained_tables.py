"""Which tables a warehouse has, and what maintenance may do with each."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial

from sfcdc_assets.event_channels.push_topics.state_rows import ID
from sfcdc_assets.formulas.formula_columns import AS_OF
from sfcdc_assets.lake.delta import rebuild_claim
from sfcdc_assets.lake.delta.data_files import DataFile
from sfcdc_assets.lake.delta.table import Table, is_of_a_cut
from sfcdc_assets.lake.maintenance.pack import Apart, Packing
from sfcdc_assets.lake.tables import (
    audits,
    channel_members,
    consistent_cuts,
    current_state,
    earlier_formula_values,
    erasure_receipts,
    formula_values,
    gap_reconciliation,
    history,
    lost_checkpoints,
    organization,
    push_topic_state,
    quarantine,
    raw_events,
    rolling_audits,
    schemas,
    snapshot_plan,
    snapshots,
    text_fields,
)
from sfcdc_assets.lake.tables.event_table import event_table_names
from sfcdc_assets.lake.tables.object_shapes import VALID_FROM
from sfcdc_assets.lake.tables.raw_event_files import channels_of_files
from sfcdc_assets.lake.tables.raw_event_reads import payloads_dropped
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.salesforce.object_shape import SHAPE_TABLES

SINGLE: Mapping[str, Packing] = {
    consistent_cuts.NAME: Packing(("channel", "position")),
    audits.NAME: Packing(("audited_at",)),
    rolling_audits.NAME: Packing(("at",)),
    schemas.NAME: Packing(("first_seen_at",)),
    channel_members.NAME: Packing(("seen_at",)),
    lost_checkpoints.NAME: Packing(("channel", "position")),
    organization.NAME: Packing(("number",)),
    rebuild_claim.NAME: Packing(("begun_at",)),
    snapshot_plan.NAME: Packing(("noted_at", "place")),
    erasure_receipts.NAME: Packing(("noted_at",)),
    quarantine.NAME: Packing(("channel", "position")),
    **{each.name: Packing((*each.key, VALID_FROM)) for each in SHAPE_TABLES},
}
"""Tables of the whole warehouse beside `raw_events`."""


LAYERS: Mapping[str, Packing | None] = {
    snapshots.LAYER: Packing(("_refetch", "Id")),
    text_fields.LAYER: Packing(("record_id", "position")),
    gap_reconciliation.LAYER: Packing(("opened_position",)),
    push_topic_state.LAYER: Packing((ID,)),
    history.LAYER: Packing(("Id", "_position")),
    current_state.LAYER: None,
    formula_values.LAYER: None,
    earlier_formula_values.LAYER: Packing(("Id", AS_OF)),
}
"""Tables that each entity, or each PushTopic, has. None: its files are the writer's own."""


@dataclass(frozen=True)
class Maintained:
    """A table, and how it is packed (None: not at all)."""

    name: str
    packing: Packing | None

    @property
    def is_of_a_cut(self) -> bool:
        """Whether consistent cuts name its versions."""
        return is_of_a_cut(self.name)


def maintained_tables(warehouse: Warehouse, payload_retention_days: int | None) -> Iterator[Maintained]:
    """Every table there is, `raw_events` first and `current_state` last."""
    yield from landed_tables(warehouse, payload_retention_days)
    for name, packing in SINGLE.items():
        yield Maintained(name, packing)
    for layer, each in LAYERS.items():
        for entity in warehouse.entities(layer):
            yield Maintained(f"{layer}/{entity}", each)


def landed_tables(warehouse: Warehouse, payload_retention_days: int | None) -> Iterator[Maintained]:
    """Yield the tables in which streams land."""
    yield Maintained(raw_events.NAME, _of_raw_events(payload_retention_days))
    for name in event_table_names(warehouse):
        yield Maintained(name, Packing(("position",)))


def _of_raw_events(payload_retention_days: int | None) -> Packing:
    """Channels are kept apart. So are days, where payloads are deleted day by day: a file is rewritten once, when
    all of its payloads may go."""
    apart = _channels if payload_retention_days is None else _channels_and_days
    return Packing(("channel", "position"), apart)


def _channels(table: Table) -> Apart:
    channels = channels_of_files(table)
    return lambda file: channels.get(file.path)


def _channels_and_days(table: Table) -> Apart:
    dropped, channels = cache(partial(payloads_dropped, table)), channels_of_files(table)

    def apart(file: DataFile) -> Hashable:
        of, found = file.statistics, channels.get(file.path, ())
        if found and all(of["max.position"] <= dropped(of["partition.entity_name"], channel) for channel in found):
            return found, None
        received = of["max.received_at"]
        return found, received.date() if received is not None else None

    return apart
