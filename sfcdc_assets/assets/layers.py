"""The layers from `raw_events` to `current_state` and `history`, computed together.

They share a step because a run covers whatever entities the stream touched: Dagster would skip a downstream step as a
whole when its upstream did not yield for every key, and a failed entity must not stop the others. They are always
materialized together because one reading of a record's row and its changes gives them all.
"""

import time
from collections.abc import Iterator

import dagster as dg
import pyarrow as pa

from sfcdc_assets.assets.channels import OWNERS, channel_key
from sfcdc_assets.assets.each_entity import each_entity, log_materialization
from sfcdc_assets.assets.keys import (
    CONSISTENT_CUTS_KEY,
    CURRENT_STATE_KEY,
    GAP_RECONCILIATION_KEY,
    HISTORY_KEY,
    RAW_EVENTS_KEY,
    SNAPSHOT_KEY,
    TEXT_FIELDS_KEY,
)
from sfcdc_assets.assets.layer_metadata import (
    channel_observation,
    consistent_cuts_metadata,
    current_state_metadata,
    gap_reconciliation_metadata,
    history_metadata,
    raw_events_metadata,
    text_fields_metadata,
)
from sfcdc_assets.assets.run_scope import RunScope, run_scope
from sfcdc_assets.checks.schema import schema_check_evaluation
from sfcdc_assets.config import load_settings
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.partitions import ENTITY
from sfcdc_assets.pipeline.consistent_cut import note_cut
from sfcdc_assets.pipeline.current_state import ApplyReport, apply_entity
from sfcdc_assets.pipeline.entities import EntityState, entity_states
from sfcdc_assets.pipeline.landing import DRAIN_SECONDS, SETTLE_SECONDS, Lander
from sfcdc_assets.pipeline.org import Org
from sfcdc_assets.pipeline.pin import Pins
from sfcdc_assets.pipeline.read_back import ReadBackReport, read_back_doubts
from sfcdc_assets.pipeline.schema_changes import schema_changes
from sfcdc_assets.resources.lake import LakeResource
from sfcdc_assets.resources.org import OrgResource
from sfcdc_assets.resources.spark import SparkResource

CLOCKS_DIFFER_MS = 10_000
"""How far the org's clock may be from ours, at most."""
ROUNDS = 4
"""The most times a run drains: each round after the first follows a reading of records in doubt."""


def layer_specs(channels: tuple[str, ...]) -> list[dg.AssetSpec]:
    """The layers' assets; `raw_events` depends on the channels."""
    return [
        _layer(
            RAW_EVENTS_KEY,
            [channel_key(channel) for channel in channels],
            "landing",
            {"deltalake", "pubsub"},
            "Every delivered change event: bytes as received, header, position in the channel's order. "
            "One Delta commit holds events, position and the replay id to resume from.",
        ),
        _layer(
            TEXT_FIELDS_KEY,
            [RAW_EVENTS_KEY, SNAPSHOT_KEY],
            "reconciliation",
            {"deltalake", "pyspark"},
            "Every full value of the entity's large text fields, in position order. A value sent as a diff "
            "is rebuilt from the one before it and kept only if its SHA-256 is the one in the event.",
        ),
        _layer(
            GAP_RECONCILIATION_KEY,
            [TEXT_FIELDS_KEY],
            "reconciliation",
            {"deltalake", "salesforce"},
            "The doubt ledger: records (or `*`, the entity) whose state the stream does not tell for sure, "
            "why, since when, and how they were healed by reading exactly them back from the org.",
        ),
        _layer(
            CURRENT_STATE_KEY,
            [GAP_RECONCILIATION_KEY],
            "tables",
            {"deltalake", "pyspark"},
            "One row for each record of the entity, as the org has it after the last complete transaction. "
            "Deleted records keep their row, with `_is_deleted`; records in doubt are marked `_in_doubt`.",
        ),
        _layer(
            HISTORY_KEY,
            [GAP_RECONCILIATION_KEY],
            "tables",
            {"deltalake", "pyspark"},
            "Every version of each record, with the time it was valid, who made it and which fields it changed.",
        ),
    ]


def _layer(key: dg.AssetKey, deps: list[dg.AssetKey], group: str, kinds: set[str], description: str) -> dg.AssetSpec:
    return dg.AssetSpec(
        key,
        deps=deps,
        description=description,
        group_name=group,
        kinds=kinds,
        owners=OWNERS,
        code_version="2",
        skippable=True,
    )


def consistent_cuts_spec() -> dg.AssetSpec:
    """The cuts over all entities of a channel: one table, not partitioned, noted by the runs that reach them."""
    return dg.AssetSpec(
        CONSISTENT_CUTS_KEY,
        deps=[CURRENT_STATE_KEY, HISTORY_KEY],
        description="One row for each batch after which all tables of a channel stood at the same transaction: the "
        "position and the Delta version of every table, so that they can be opened together.",
        group_name="tables",
        kinds={"deltalake"},
        owners=OWNERS,
    )


def build_layers(channels: tuple[str, ...]) -> dg.AssetsDefinition:
    """The multi-asset over the configured channels."""

    @dg.multi_asset(
        name="layers",
        specs=layer_specs(channels),
        partitions_def=ENTITY,
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def layers(
        context: dg.AssetExecutionContext, lake: LakeResource, org: OrgResource, spark: SparkResource
    ) -> Iterator[dg.MaterializeResult]:
        """Drain, apply, read back what is in doubt; materializations are logged for each entity worked on."""
        warehouse = lake.warehouse()
        with org.connect() as connected:
            run = LayerRun(context, warehouse, connected, spark)
            try:
                run.run()
            finally:
                run.check_columns()
        yield from ()

    return layers


class LayerRun:
    """One run over its scope's entities."""

    def __init__(self, context: dg.AssetExecutionContext, warehouse: Warehouse, org: Org, spark: SparkResource) -> None:
        settings = load_settings()
        self._context = context
        self._warehouse = warehouse
        self._org = org
        self._spark = spark
        self._scope: RunScope = run_scope(context, warehouse, settings, org)
        self._lander = Lander(warehouse, org)
        self._pins = Pins(warehouse, self._lander, settings.visibility_seconds)
        self._drained: dict[str, tuple[int, int]] = {}
        """Channel -> complete position after its drain, and when the drain began (epoch ms)."""
        self._read_back = False
        self._schemas_before: dict[str, pa.Schema | None] = {}
        """Entity -> its columns before this run."""
        self._columns_changed = False

    def run(self) -> None:
        """Drain the channels, bring each entity up to date, note the cut. Raises `dg.Failure` naming what failed.

        A row read back may be ahead of what was drained before, so the stream is drained once more after a reading.
        """
        for _ in range(ROUNDS):
            self._read_back = False
            self._drain()
            # A JVM is forked from this process soon: no gRPC connection should be open then (facts section 10, 18).
            self._org.pubsub.close()
            states = entity_states(self._warehouse, self._scope.entities)
            worked_on = [state for state in states if state.has_work or not self._scope.touched_only]
            each_entity(self._context, worked_on, self._bring_up_to_date)
            if not self._read_back:
                break
        self._note_cuts()

    def _drain(self) -> None:
        for channel in self._scope.channels:
            began = int(time.time() * 1000)
            report = self._lander.land(channel, settle=SETTLE_SECONDS, budget=DRAIN_SECONDS)
            # Short of the tip only the clocks say that all before the beginning was drained; they may differ.
            self._drained[channel] = (report.complete_position, began if report.at_tip else began - CLOCKS_DIFFER_MS)
            self._context.log.info(f"{channel}: {report.count} events landed, position {report.position}")
            self._context.log_event(channel_observation(self._warehouse, report))
            if report.lost_place:
                self._context.log.warning(f"{channel}: place lost, its entities are read again: {report.lost_place}")
            for entity, of in self._scope.entities.items():
                if of == channel and (entity in report.events or not self._scope.touched_only):
                    metadata = raw_events_metadata(self._warehouse, report, entity)
                    log_materialization(self._context, RAW_EVENTS_KEY, entity, metadata)

    def _bring_up_to_date(self, state: EntityState) -> None:
        report = self._apply(state)
        read = None
        if report.open_doubts:
            read = read_back_doubts(self._warehouse, self._org, state.entity, state.channel, self._pins)
        if read is not None and (read.found or read.gone):
            self._read_back = True
            healed = self._apply(state)
            self._tell(healed, read, time.time() - (read.oldest_opened_at or 0) / 1000)
        else:
            self._tell(report, read, None)

    def _note_cuts(self) -> None:
        for channel, (position, drained_at) in self._drained.items():
            now = int(time.time() * 1000)
            cut = note_cut(self._warehouse, self._scope.known, channel, position, drained_at, now)
            if cut is not None:
                self._context.log.info(f"{channel}: consistent cut at position {position}, {len(cut.tables)} tables")
                self._context.log_event(
                    dg.AssetMaterialization(
                        CONSISTENT_CUTS_KEY, metadata=consistent_cuts_metadata(self._warehouse, cut)
                    )
                )

    def check_columns(self) -> None:
        """Evaluate `schema_follows_the_org` where this run has changed columns; it costs no request."""
        if self._columns_changed:
            self._context.log_event(schema_check_evaluation(self._warehouse))

    def _apply(self, state: EntityState) -> ApplyReport:
        report = apply_entity(
            self._warehouse,
            self._spark.spark_session,
            state.entity,
            state.channel,
            self._context.run.run_id,
            self._drained[state.channel][0],
        )
        self._context.log.info(_told(report))
        self._schemas_before.setdefault(state.entity, report.schema_before)
        return report

    def _tell(self, report: ApplyReport, read: ReadBackReport | None, healed_after: float | None) -> None:
        if read is not None and read.error:
            self._context.log.warning(f"{report.entity}: reading back {read.asked} records failed: {read.error}")
        entity, warehouse, context = report.entity, self._warehouse, self._context
        log_materialization(context, TEXT_FIELDS_KEY, entity, text_fields_metadata(warehouse, report))
        doubts = gap_reconciliation_metadata(warehouse, report, read, healed_after)
        log_materialization(context, GAP_RECONCILIATION_KEY, entity, doubts)
        changes = schema_changes(self._schemas_before[entity], report.schema)
        if changes:
            self._columns_changed = True
            context.log.info(f"{entity}: columns changed: {'; '.join(map(str, changes))}")
        state = current_state_metadata(warehouse, report, changes)
        log_materialization(context, CURRENT_STATE_KEY, entity, state, report.version)
        log_materialization(context, HISTORY_KEY, entity, history_metadata(warehouse, report))


def _told(report: ApplyReport) -> str:
    doubts = ", ".join(f"{count} {reason}" for reason, count in report.doubts_opened.items())
    return (
        f"{report.entity}: events {report.from_position + 1} to {report.to_position} of {report.channel} applied: "
        f"{report.inserted} inserted, {report.updated} updated, {report.deleted} deleted, "
        f"{'in doubt ' + doubts if doubts else 'none in doubt'}, {report.waiting} waiting, "
        f"{report.doubts_healed} healed; "
        f"{report.rows} rows, {report.leaves_written} leaves written in {report.seconds:.1f} s"
    )
