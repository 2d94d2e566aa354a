"""What the materializations show: what a batch did in figures that can be plotted, then the table.

A figure has one name in every layer: `rows`, `rows_changed`, `lag_seconds`, `suspect_records`, `events`, `deliveries`,
`api_requests`, `seconds`. `lag_seconds` is what the change that waited longest took from its commit in the org until it
was visible; the org's clock and ours take part in it.
"""

from collections.abc import Collection, Mapping, Sequence

import dagster as dg
import pyarrow as pa

from sfcdc_assets.apply.apply_changes import ApplyReport
from sfcdc_assets.apply.catch_up import Applied
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables import (
    consistent_cuts,
    current_state,
    gap_reconciliation,
    history,
    raw_events,
    text_fields,
)
from sfcdc_assets.lake.tables.consistent_cuts import Cut
from sfcdc_assets.lake.tables.lost_checkpoints import lost_checkpoints
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.orchestration.assets import column_lineage
from sfcdc_assets.orchestration.assets.keys import AssetKeys
from sfcdc_assets.orchestration.assets.tables_metadata import TableLook
from sfcdc_assets.orchestration.assets.unreported_batches import HeldBatches
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.table_metadata import (
    Metadata,
    lag_seconds,
    partition_metadata,
    sample_metadata,
    table_metadata,
    timestamp,
)
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.schema_evolution.schema_changes import SchemaChange, schema_changes


def channel_materialization(assets: OrgAssets, warehouse: Warehouse, report: LandingReport) -> dg.AssetMaterialization:
    """Return where a channel stands after a poll; if its checkpoint was lost, why, and which time is bridged by reading
    the org. Dagster's graph shows an external asset that was only ever observed as missing."""
    metadata: Metadata = {
        "position": report.position,
        "complete_position": report.complete_position,
        "events_landed": report.count,
        "deliveries": report.deliveries,
        "repeated_deliveries": report.repeats,
        "api_requests": report.api_requests,
        "transaction_open": not report.is_complete,
        "polled_at": timestamp(clock.now_ms()),
    }
    for lost in lost_checkpoints(warehouse, report.channel)[:1] if report.lost_checkpoint else ():
        metadata["lost_checkpoint"] = lost.reason
        metadata["bridged_to"] = dg.MetadataValue.timestamp(lost.lost_at)
        if lost.last_landed_at:
            metadata["bridged_from"] = dg.MetadataValue.timestamp(lost.last_landed_at)
    return dg.AssetMaterialization(assets.keys.of_channel(report.channel), metadata=metadata)


def raw_events_metadata(
    assets: OrgAssets,
    warehouse: Warehouse,
    report: LandingReport,
    entities: Collection[str],
) -> dict[str, tuple[Metadata, str]]:
    """Return what a poll brought for each entity, with the newest of its events (without payloads); and its data
    version, the position of its last event. A poll may bring events of hundreds: what they share is looked at once."""
    events = RawEvents.open(warehouse)
    last, rows = events.last_positions(report.channel), events.counts()
    newest = _newest(events, entities, report.channel, assets.settings().sample_rows)
    of_table = table_metadata(
        warehouse.uri(raw_events.NAME),
        raw_events.NAME,
        events.table.schema,
        column_lineage.of_raw_events(assets.keys, report.channel),
    )
    return {
        entity: (
            _raw_events_metadata(
                report,
                entity,
                {
                    **of_table,
                    "dagster/partition_row_count": rows.get(entity, 0),
                    **sample_metadata(newest.get(entity)),
                },
            ),
            str(last.get(entity, 0)),
        )
        for entity in entities
    }


def _newest(events: RawEvents, entities: Collection[str], channel: str, count: int) -> Mapping[str, pa.Table]:
    return events.newest(entities, channel, count) if count else {}


def _raw_events_metadata(report: LandingReport, entity: str, of_table: Metadata) -> Metadata:
    landed = report.events.get(entity, 0)
    return {
        "channel": report.channel,
        "events_landed": landed,
        "deliveries": landed,
        "rows": of_table["dagster/partition_row_count"],
        "events_quarantined_in_channel": report.quarantined,
        "position": report.position,
        "complete_position": report.complete_position,
        "transaction_open": not report.is_complete,
        **({"lag_seconds": round(report.waited[entity], 1)} if entity in report.waited else {}),
        **of_table,
    }


def text_fields_metadata(keys: AssetKeys, warehouse: Warehouse, report: ApplyReport, table: TableLook) -> Metadata:
    """Return how many values the batch added, and a sample of them."""
    name = text_fields.name_of(report.entity)
    lineage = column_lineage.of_text_fields(keys)
    return {
        "values_added": report.texts,
        "rows": table.rows,
        "to_position": report.to_position,
        "delta_version": table.version,
        **partition_metadata(warehouse.uri(name), name, table.rows, table.schema, table.sample, lineage),
    }


def gap_reconciliation_metadata(keys: AssetKeys, warehouse: Warehouse, applied: Applied, table: TableLook) -> Metadata:
    """Entries opened, healed and still open, and what the healing cost."""
    report, read = applied.report, applied.read
    name = gap_reconciliation.name_of(report.entity)
    metadata: Metadata = {
        "suspect_records": sum(report.open_suspects.values()),
        "suspects_opened": dict(report.suspects_opened),
        "suspects_healed": report.suspects_healed,
        "suspects_open": dict(report.open_suspects),
        "changes_waiting": report.waiting,
        "rows": table.rows,
        "delta_version": table.version,
        **partition_metadata(
            warehouse.uri(name),
            name,
            table.rows,
            table.schema,
            table.sample,
            column_lineage.of_gap_reconciliation(keys),
        ),
    }
    if read is not None:
        metadata |= {"records_asked_for": read.asked, "records_gone": read.gone, "api_requests": read.calls}
        if read.asked:
            metadata["api_requests_per_record"] = round(read.calls / read.asked, 3)
        if read.stale:
            metadata["reads_older_than_events"] = read.stale
        if read.refused:
            metadata["records_that_cannot_be_read"] = read.refused
        if read.error:
            metadata["read_back_failed"] = read.error
    if applied.healed_after is not None:
        metadata["seconds_to_heal"] = round(applied.healed_after, 1)
    return metadata


def history_metadata(
    keys: AssetKeys, warehouse: Warehouse, report: ApplyReport, table: TableLook, described: ObjectDescription | None
) -> Metadata:
    """Return how many versions the batch added, and a sample of the superseded ones."""
    name = history.name_of(report.entity)
    return {
        "versions_added": report.versions,
        "rows": table.rows,
        "to_position": report.to_position,
        "delta_version": table.version,
        **partition_metadata(
            warehouse.uri(name),
            name,
            table.rows,
            table.schema,
            table.sample,
            column_lineage.of_history(keys),
            described,
        ),
    }


def consistent_cuts_metadata(warehouse: Warehouse, cut: Cut) -> Metadata:
    """Return the cut's place and the version of each table in it."""
    table = Table.open(warehouse, consistent_cuts.NAME)
    if table is None:
        return {}
    uri = warehouse.uri(consistent_cuts.NAME)
    return {
        "channel": cut.channel,
        "position": cut.position,
        "commit_timestamp": str(cut.commit_timestamp),
        **lag_seconds(cut.commit_timestamp, clock.now_ms()),
        "tables": dict(cut.tables),
        "dagster/row_count": table.count(),
        **table_metadata(uri, consistent_cuts.NAME, table.schema),
    }


def current_state_metadata(
    keys: AssetKeys, warehouse: Warehouse, held: HeldBatches, table: TableLook, described: ObjectDescription | None
) -> Metadata:
    """Return what a batch did to the table, how far it is, how the run changed its columns, a sample of its newest
    rows."""
    applied, report = held.applied, held.applied.report
    name = current_state.name_of(report.entity)
    lags = {"lag_seconds": held.lag, "lag_seconds_of_newest": held.newest_lag}
    return {
        "rows": report.rows,
        "rows_changed": report.inserted + report.updated + report.deleted,
        **{lag: seconds for lag, seconds in lags.items() if seconds is not None},
        "suspect_records": sum(report.open_suspects.values()),
        "events": report.events,
        "deliveries": report.deliveries,
        "api_requests": applied.api_requests,
        "seconds": round(report.seconds, 3),
        "channel": report.channel,
        "from_position": report.from_position,
        "to_position": report.to_position,
        "duplicates": report.duplicates,
        "inserted": report.inserted,
        "updated": report.updated,
        "deleted": report.deleted,
        "waiting": report.waiting,
        "read_back": report.read_back,
        "key_ranges_written": report.key_ranges_written,
        "bytes_written": report.bytes_written,
        "delta_version": report.version,
        "snapshot": report.snapshot,
        **({"object": described.label, "object_kind": _kind(described)} if described else {}),
        "schema_changes": "; ".join(map(str, changes_of(report))) or "none",
        **partition_metadata(
            warehouse.uri(name),
            name,
            report.rows,
            report.schema,
            table.sample,
            column_lineage.of_current_state(keys),
            described,
        ),
    }


def changes_of(report: ApplyReport) -> Sequence[SchemaChange]:
    """Return how a run has changed the columns of an entity's table."""
    return schema_changes(report.schema_before, report.schema)


def _kind(described: ObjectDescription) -> str:
    return "custom" if described.custom else "standard"
