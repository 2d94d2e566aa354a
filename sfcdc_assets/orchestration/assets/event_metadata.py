"""What is reported to Dagster of a channel that carries no change events: a materialization of its partition."""

from __future__ import annotations

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.lost_checkpoints import known_losses
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.table_metadata import Metadata, lag_seconds, partition_metadata
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.channel_kinds import folder_of, kind_of, table_of


def event_materialization(assets: OrgAssets, warehouse: Warehouse, report: LandingReport) -> dg.AssetMaterialization:
    """Return what a reading brought, of the channel's partition."""
    tags = {"dagster/data_version": str(report.position)}
    key, partition = assets.keys.of_events(kind_of(report.channel)), folder_of(report.channel)
    return dg.AssetMaterialization(
        key, partition=partition, metadata=event_metadata(assets, warehouse, report), tags=tags
    )


def event_metadata(assets: OrgAssets, warehouse: Warehouse, report: LandingReport) -> Metadata:
    """Figures of the reading, then the table; of a lost checkpoint, what it means."""
    name = table_of(report.channel)
    table = EventTable.open(warehouse, report.channel)
    rows = table.table.count() if table else 0
    shown = assets.settings().sample_rows
    newest = table.newest(report.channel, max(shown, 1)) if table else pa.table({})
    metadata: Metadata = {
        "channel": report.channel,
        "rows": rows,
        "events_landed": report.count,
        "deliveries": report.deliveries,
        "repeated_deliveries": report.repeats,
        "position": report.position,
        "rows_with_problems": table.problems() if table else 0,
    }
    if report.count and newest.num_rows:
        metadata |= lag_seconds(pc.max(newest["created_date"]).as_py(), clock.now_ms())
    if report.lost_checkpoint:
        metadata["lost_checkpoint"] = str(known_losses(warehouse, report.channel)[0])
    schema = table.table.schema if table else pa.schema([])
    return metadata | partition_metadata(warehouse.uri(name), name, rows, schema, newest.slice(0, shown))
