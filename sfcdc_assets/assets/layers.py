"""The layers `raw_events` -> `current_state`, one asset each, computed entity by entity in one step.

They share a step because a run covers whatever entities the stream touched: Dagster would skip a downstream step as a
whole when its upstream did not yield for every key, and a failed entity must not stop the others.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict

import dagster as dg

from sfcdc_assets.assets.channels import OWNERS, channel_key
from sfcdc_assets.assets.each_entity import each_entity, log_materialization
from sfcdc_assets.assets.run_scope import RunScope, run_scope
from sfcdc_assets.assets.snapshot import SNAPSHOT_KEY
from sfcdc_assets.config import load_settings
from sfcdc_assets.lake import current_state, raw_events
from sfcdc_assets.lake.current_state import CurrentState
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.partitions import ENTITY
from sfcdc_assets.pipeline.current_state import ApplyReport, apply_entity
from sfcdc_assets.pipeline.entities import EntityState, entity_states
from sfcdc_assets.pipeline.landing import DRAIN_SECONDS, SETTLE_SECONDS, Lander, LandingReport
from sfcdc_assets.resources.lake import LakeResource
from sfcdc_assets.resources.org import OrgResource
from sfcdc_assets.resources.spark import SparkResource
from sfcdc_assets.table_metadata import Metadata, lag_seconds, table_metadata

RAW_EVENTS_KEY = dg.AssetKey(["salesforce", "raw_events"])
CURRENT_STATE_KEY = dg.AssetKey(["salesforce", "current_state"])

SAMPLE_ROWS = 5


def layer_specs(channels: tuple[str, ...]) -> list[dg.AssetSpec]:
    """The layers' assets; `raw_events` depends on the channels."""
    return [
        dg.AssetSpec(
            RAW_EVENTS_KEY,
            deps=[channel_key(channel) for channel in channels],
            description="Every delivered change event: bytes as received, header, position in the channel's order. "
            "One Delta commit holds events, position and the replay id to resume from.",
            group_name="landing",
            kinds={"deltalake", "pubsub"},
            owners=OWNERS,
            code_version="1",
            skippable=True,
        ),
        dg.AssetSpec(
            CURRENT_STATE_KEY,
            deps=[RAW_EVENTS_KEY, SNAPSHOT_KEY],
            description="One row for each record of the entity, as the org has it after the last complete transaction. "
            "Deleted records keep their row, with `_is_deleted`.",
            group_name="tables",
            kinds={"deltalake", "pyspark"},
            owners=OWNERS,
            code_version="1",
            skippable=True,
        ),
    ]


def build_layers(channels: tuple[str, ...]) -> dg.AssetsDefinition:
    """The multi-asset over the configured channels."""

    @dg.multi_asset(
        name="layers",
        specs=layer_specs(channels),
        partitions_def=ENTITY,
        backfill_policy=dg.BackfillPolicy.single_run(),
        can_subset=True,
    )
    def layers(
        context: dg.AssetExecutionContext, lake: LakeResource, org: OrgResource, spark: SparkResource
    ) -> Iterator[dg.MaterializeResult]:
        """Drain, then apply; materializations are logged for each entity that was worked on."""
        warehouse, settings = lake.warehouse(), load_settings()
        with org.connect() as connected:
            scope = run_scope(context, warehouse, settings, connected)
            if RAW_EVENTS_KEY in context.selected_asset_keys:
                lander = Lander(warehouse, connected.pubsub, connected.describe_json)
                _drain(context, warehouse, lander, scope)
        if CURRENT_STATE_KEY in context.selected_asset_keys:
            _apply(context, warehouse, spark, scope)
        yield from ()

    return layers


def _drain(context: dg.AssetExecutionContext, warehouse: Warehouse, lander: Lander, scope: RunScope) -> None:
    for channel in scope.channels:
        report = lander.land(channel, settle=SETTLE_SECONDS, budget=DRAIN_SECONDS)
        context.log.info(f"{channel}: {report.count} events landed, position {report.position}")
        for entity in scope.entities:
            if scope.entities[entity] == channel and (entity in report.events or not scope.touched_only):
                log_materialization(context, RAW_EVENTS_KEY, entity, raw_events_metadata(warehouse, report, entity))


def _apply(context: dg.AssetExecutionContext, warehouse: Warehouse, spark: SparkResource, scope: RunScope) -> None:
    def apply(state: EntityState) -> None:
        report = apply_entity(warehouse, spark.spark_session, state.entity, state.channel, context.run_id)
        context.log.info(_told(report))
        metadata = current_state_metadata(warehouse, report)
        log_materialization(context, CURRENT_STATE_KEY, state.entity, metadata, report.version)

    states = entity_states(warehouse, scope.entities)
    each_entity(context, [state for state in states if state.has_work or not scope.touched_only], apply)


def raw_events_metadata(warehouse: Warehouse, report: LandingReport, entity: str) -> Metadata:
    """What a poll brought for one entity, and the newest of its events (without payloads)."""
    events = RawEvents.open(warehouse)
    newest = events.newest(entity, report.channel, SAMPLE_ROWS)
    return {
        **table_metadata(
            warehouse.uri(raw_events.NAME), raw_events.NAME, events.count(entity), events.table.schema, newest
        ),
        "channel": report.channel,
        "events_landed": report.events.get(entity, 0),
        "events_quarantined_in_channel": report.quarantined,
        "position": report.position,
        "complete_position": report.complete_position,
        "at_tip": report.at_tip,
    }


def current_state_metadata(warehouse: Warehouse, report: ApplyReport) -> Metadata:
    """What a batch did to the table, how far it is, and a sample of its newest rows."""
    name = current_state.name_of(report.entity)
    table = CurrentState.open(warehouse, report.entity)
    assert table is not None
    sample = table.newest_rows(SAMPLE_ROWS)
    newest = sample["_commit_timestamp"][0].as_py() if sample.num_rows else None
    told = {
        key: value
        for key, value in asdict(report).items()
        if key not in ("schema", "rows", "entity", "seconds") and value is not None
    }
    return {
        **table_metadata(warehouse.uri(name), name, report.rows, report.schema, sample),
        **told,
        **lag_seconds(newest, int(time.time() * 1000)),
        "seconds": round(report.seconds, 3),
    }


def _told(report: ApplyReport) -> str:
    return (
        f"{report.entity}: events {report.from_position + 1} to {report.to_position} of {report.channel} applied: "
        f"{report.inserted} inserted, {report.updated} updated, {report.deleted} deleted, {report.in_doubt} in doubt; "
        f"{report.rows} rows, {report.leaves_written} leaves written in {report.seconds:.1f} s"
    )
