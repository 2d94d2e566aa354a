"""The layers from `raw_events` to `current_state` and `history`, computed together.

They share a step because a run covers whatever entities the stream touched: Dagster would skip a downstream step as a
whole when its upstream did not yield for every key, and a failed entity must not stop the others. They are always
materialized together because one reading of a record's row and its changes gives them all.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

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
from sfcdc_assets.assets.run_scope import FOLLOW_SECONDS_TAG, RunScope, lander, run_scope
from sfcdc_assets.checks.refused_reads import report_refused_reads
from sfcdc_assets.checks.schema import schema_check_evaluation
from sfcdc_assets.config import load_settings
from sfcdc_assets.lake.consistent_cuts import Cut
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.outcome import outcome_of
from sfcdc_assets.partitions import ENTITY
from sfcdc_assets.pipeline.applying.apply_changes import ApplyReport, ToApply, apply_entities
from sfcdc_assets.pipeline.catch_up import ApplyListener, CatchUp
from sfcdc_assets.pipeline.following import Following
from sfcdc_assets.pipeline.landing.land import LandingReport
from sfcdc_assets.pipeline.landing.lander import Lander
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.pipeline.org_reads.read_back import ReadBackReport
from sfcdc_assets.pipeline.org_reads.refused_reads import refused_reads, sentences
from sfcdc_assets.pipeline.schemas.schema_changes import schema_changes
from sfcdc_assets.resources.lake import LakeResource
from sfcdc_assets.resources.org import OrgResource
from sfcdc_assets.resources.spark import SparkResource


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
            "The reconciliation ledger: records (or `*`, the entity) whose state the stream does not tell for sure, "
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
        settings = load_settings()
        with org.connect(warehouse) as connected, lander(context, warehouse, connected, settings) as landing:
            run = LayerRun(context, warehouse, connected, landing, spark)
            try:
                run.run()
            finally:
                run.check_columns()
        yield from ()

    return layers


class LayerRun(ApplyListener):
    """One run over its scope's entities; each step is logged and, where it is one, a materialization."""

    def __init__(
        self,
        context: dg.AssetExecutionContext,
        warehouse: Warehouse,
        org: OrgConnection,
        landing: Lander,
        spark: SparkResource,
    ) -> None:
        self._context = context
        self._warehouse = warehouse
        self._org = org
        self._landing = landing
        self._spark = spark
        self._settings = load_settings()
        self._scope: RunScope = run_scope(context, warehouse, self._settings, org)
        self._schemas_before: dict[str, pa.Schema | None] = {}
        """Entity -> its columns before this run."""
        self._columns_changed = False

    def run(self) -> None:
        """Catch up. Raises `dg.Failure` naming the entities that failed."""
        refused_before = refused_reads(self._warehouse, self._scope.entities)
        try:
            self._catch_up()
        finally:
            refused = refused_reads(self._warehouse, self._scope.entities)
            for sentence in sentences(refused):
                self._context.log.warning(sentence)
            if refused or refused_before:
                report_refused_reads(self._context.instance, self._warehouse)

    def _catch_up(self) -> None:
        CatchUp(
            self._warehouse,
            self._org,
            self._landing,
            self._scope.entities,
            self._scope.known,
            self._apply,
            self,
            partial(each_entity, self._context),
            every_entity=not self._scope.touched_only,
            visibility_seconds=self._settings.visibility_seconds,
            describe_seconds=self._settings.describe_seconds,
            following=self._following(),
        ).run()

    def _following(self) -> Following | None:
        seconds = float(self._context.run.tags.get(FOLLOW_SECONDS_TAG, 0))
        if not seconds:
            return None
        instance, queued = self._context.instance, dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED])
        return Following(
            self._warehouse,
            self._landing,
            self._scope.entities,
            self._scope.known,
            self._org.privacy,
            seconds,
            gives_way=lambda: instance.get_runs_count(queued) > 0,
        )

    def check_columns(self) -> None:
        """Evaluate `schema_follows_the_org` where this run has changed columns; it costs no request."""
        if self._columns_changed:
            self._context.log_event(schema_check_evaluation(self._warehouse))

    def drained(self, report: LandingReport) -> None:
        context, channel = self._context, report.channel
        context.log.info(f"{channel}: {report.count} events landed, position {report.position}")
        context.log_event(channel_observation(self._warehouse, report))
        if report.lost_checkpoint:
            context.log.warning(f"{channel}: checkpoint lost, its entities are read again: {report.lost_checkpoint}")
        for entity, of in self._scope.entities.items():
            if of == channel and (entity in report.events or not self._scope.touched_only):
                metadata = raw_events_metadata(self._warehouse, report, entity)
                log_materialization(context, RAW_EVENTS_KEY, entity, metadata)

    def brought_up_to_date(self, report: ApplyReport, read: ReadBackReport | None, healed_after: float | None) -> None:
        if read is not None and read.refused:
            self._context.log.warning(
                f"{report.entity}: {read.refused} of {read.asked} records in doubt cannot be read back; "
                f"gap_reconciliation/{report.entity} says why"
            )
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

    def cut(self, cut: Cut) -> None:
        self._context.log.info(f"{cut.channel}: consistent cut at position {cut.position}, {len(cut.tables)} tables")
        metadata = consistent_cuts_metadata(self._warehouse, cut)
        self._context.log_event(dg.AssetMaterialization(CONSISTENT_CUTS_KEY, metadata=metadata))

    def _outcomes(self, wanted: Sequence[ToApply]) -> dict[str, ApplyReport | Exception]:
        spark, run_id, privacy = self._spark.spark_session, self._context.run.run_id, self._org.privacy
        found = outcome_of(apply_entities, self._warehouse, spark, privacy, wanted, run_id)
        if isinstance(found, Exception):
            return {each.entity: found for each in wanted}
        return dict(found)

    def _apply(self, wanted: Sequence[ToApply]) -> Mapping[str, ApplyReport | Exception]:
        found = self._outcomes(wanted)
        if self._spark.is_lost:
            # What had been committed is seen to be; what had not is done by another Spark (guarantee 2).
            rest = [each for each in wanted if isinstance(found[each.entity], Exception)]
            self._context.log.warning(f"The standing Spark was lost; {len(rest)} entities are tried again without it.")
            found |= self._outcomes(rest)
        for report in found.values():
            if isinstance(report, ApplyReport):
                self._context.log.info(_described(report))
                self._schemas_before.setdefault(report.entity, report.schema_before)
        return found


def _described(report: ApplyReport) -> str:
    doubts = ", ".join(f"{count} {reason}" for reason, count in report.doubts_opened.items())
    return (
        f"{report.entity}: events {report.from_position + 1} to {report.to_position} of {report.channel} applied: "
        f"{report.inserted} inserted, {report.updated} updated, {report.deleted} deleted, "
        f"{'in doubt ' + doubts if doubts else 'none in doubt'}, {report.waiting} waiting, "
        f"{report.doubts_healed} healed; "
        f"{report.rows} rows, {report.key_ranges_written} leaves written in {report.seconds:.1f} s"
    )
