"""What a person launches for entities: `raw_events` lands their channels, `snapshot` reads them whole from the org,
and their tables are brought up to what has landed."""

from collections.abc import Iterator
from contextlib import closing

import dagster as dg

from sfcdc_assets.apply.catch_up import Applied, CatchUp
from sfcdc_assets.entities.entities import entity_channels
from sfcdc_assets.landing.run_lander import LandedOnly, Poller
from sfcdc_assets.orchestration.assets.entity_failures import chosen, failure_of_some, materializations, results
from sfcdc_assets.orchestration.assets.layer_metadata import channel_materialization, raw_events_metadata
from sfcdc_assets.orchestration.assets.materializations import data_version, snapshot_metadata
from sfcdc_assets.orchestration.assets.reports import RunReports
from sfcdc_assets.orchestration.assets.snapshots import SnapshotTaker
from sfcdc_assets.orchestration.assets.specs import raw_events_spec, snapshot_spec, table_specs
from sfcdc_assets.orchestration.checks.evaluations import evaluations
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.resources import opened_run, spark_of, with_spark
from sfcdc_assets.org_reads.take_snapshot import SnapshotReport
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.runtime.errors import counted


def build_raw_events(assets: OrgAssets, channels: tuple[str, ...]) -> dg.AssetsDefinition:
    """Build the asset over the configured channels."""
    key = assets.keys.raw_events

    @dg.multi_asset(
        name=assets.name("raw_events"),
        specs=[raw_events_spec(assets, channels)],
        partitions_def=assets.entities,
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=assets.name("raw_events"),
    )
    def raw_events(
        context: dg.AssetExecutionContext,
    ) -> Iterator[dg.MaterializeResult[None] | dg.AssetMaterialization]:
        """Land all that the channels of the run's entities bring, their other entities' events included."""
        warehouse, settings = assets.warehouse(), assets.settings()
        with (
            assets.connect(warehouse) as connected,
            Poller(warehouse, connected, settings.settle_seconds, run_id=context.run.run_id) as landing,
        ):
            known = entity_channels(warehouse, settings.channels, settings.entities, connected.members)
            entities = chosen(known, context.partition_keys, settings.channels)
            reports = {channel: landing.land(channel) for channel in dict.fromkeys(entities.values())}
        for report in reports.values():
            context.log.info(f"{report.channel}: {counted(report.count, 'event')} landed, position {report.position}")
            yield channel_materialization(assets, warehouse, report)
        found = {
            entity: of_entity
            for channel, report in reports.items()
            for entity, of_entity in raw_events_metadata(
                assets, warehouse, report, [entity for entity, of in entities.items() if of == channel]
            ).items()
        }
        yield from results(
            context,
            {entity: {key: metadata} for entity, (metadata, _) in found.items()},
            {entity: {key: version} for entity, (_, version) in found.items()},
        )

    return raw_events


def build_snapshot(assets: OrgAssets) -> dg.AssetsDefinition:
    """Build the asset of what is read from the org."""
    key = assets.keys.snapshot

    @dg.multi_asset(
        name=assets.name("snapshots"),
        specs=[snapshot_spec(assets)],
        partitions_def=assets.entities,
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=assets.name("snapshot"),
        required_resource_keys=with_spark(assets),
    )
    def snapshot(
        context: dg.AssetExecutionContext,
    ) -> Iterator[dg.MaterializeResult[None] | dg.AssetMaterialization | dg.AssetCheckEvaluation]:
        """Take the snapshots of the run's entities; one that fails does not stop the others."""
        done: dict[str, SnapshotReport] = {}
        failed: dict[str, Exception] = {}
        with (
            opened_run(assets, context.run.run_id, spark_of(assets, context)) as run,
            Poller(run.warehouse, run.org, run.settings.settle_seconds) as landing,
            closing(SnapshotTaker(run, landing)) as taker,
        ):
            warehouse, settings = run.warehouse, run.settings
            known = entity_channels(warehouse, settings.channels, settings.entities, run.org.members)
            entities = chosen(known, context.partition_keys, settings.channels)
            states = {state.entity: state for state in taker.states(entities)}
            was_refused = any(state.refused is not None for state in states.values())
            order = taker.in_order(list(states.values()))
            with taker.copies([states[entity] for entity in order]) as copies:
                for entity in order:
                    found = outcome_of(copies.result, entity, context.log)
                    if isinstance(found, Exception):
                        context.log.error(f"{entity} failed: {found}", exc_info=found)
                        failed[entity] = found
                    else:
                        done[entity] = found
        metadata = {entity: {key: snapshot_metadata(assets, warehouse, report)} for entity, report in done.items()}
        versions = {entity: {key: str(report.number)} for entity, report in done.items()}
        if failed or was_refused:
            yield from evaluations(assets, warehouse, settings)
        if failed:
            yield from materializations(metadata, versions)
            raise failure_of_some(failed)
        yield from results(context, metadata, versions)

    return snapshot


def build_tables(assets: OrgAssets) -> dg.AssetsDefinition:
    """Build the four assets of an entity's tables."""
    keys = assets.keys.of_tables

    @dg.multi_asset(
        name=assets.name("tables"),
        specs=table_specs(assets),
        partitions_def=assets.entities,
        backfill_policy=dg.BackfillPolicy.single_run(),
        can_subset=False,
        pool=assets.name("tables"),
        required_resource_keys=with_spark(assets),
    )
    def tables(
        context: dg.AssetExecutionContext,
    ) -> Iterator[dg.MaterializeResult[None] | dg.AssetMaterialization | dg.AssetCheckEvaluation]:
        """Apply what has landed of the run's entities and read their suspect records back; one that fails does not stop
        the others. Safe at any time: what is already applied is not applied again."""
        done: dict[str, Applied] = {}
        failed: dict[str, Exception] = {}
        with opened_run(assets, context.run.run_id, spark_of(assets, context)) as run:
            warehouse, settings = run.warehouse, run.settings
            known = entity_channels(warehouse, settings.channels, settings.entities, run.org.members)
            entities = chosen(known, context.partition_keys, settings.channels)
            landing = LandedOnly(warehouse, {})
            reports = RunReports.of_run(assets, context, run, entities, with_columns=True)
            catch_up = CatchUp(run, landing, entities, known, reports, every_entity=True)
            reports.log = context.log
            for entity, found in catch_up.outcomes(catch_up.land()):
                if isinstance(found, Exception):
                    context.log.error(f"{entity} failed: {found}", exc_info=found)
                    failed[entity] = found
                else:
                    done[entity] = found
        events = reports.take()
        yield from (event for event in events if event.partition is None)
        reported = {(event.partition, event.asset_key): event.metadata for event in events}
        metadata = {entity: {key: dict(reported[entity, key]) for key in keys} for entity in done}
        versions = {entity: dict.fromkeys(keys, data_version(applied)) for entity, applied in done.items()}
        yield from evaluations(assets, warehouse, settings)
        if failed:
            yield from materializations(metadata, versions)
            raise failure_of_some(failed)
        yield from results(context, metadata, versions)

    return tables
