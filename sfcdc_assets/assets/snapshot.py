"""`snapshot`: what a person launches to have entities read whole from the org again."""

from collections.abc import Iterator

import dagster as dg

from sfcdc_assets.assets.each_entity import chosen, failure_of_some
from sfcdc_assets.assets.keys import SNAPSHOT_KEY
from sfcdc_assets.assets.reports import snapshot_metadata
from sfcdc_assets.assets.results import materializations, results
from sfcdc_assets.assets.specs import snapshot_spec
from sfcdc_assets.assets.taking_snapshots import SnapshotTaker
from sfcdc_assets.checks.evaluations import evaluations
from sfcdc_assets.config import load_settings
from sfcdc_assets.outcome import outcome_of
from sfcdc_assets.partitions import ENTITY
from sfcdc_assets.pipeline.entities import entity_channels
from sfcdc_assets.pipeline.landing.lander import Poller
from sfcdc_assets.pipeline.org_reads.take_snapshot import SnapshotReport
from sfcdc_assets.resources.lake import LakeResource
from sfcdc_assets.resources.org import OrgResource
from sfcdc_assets.resources.spark import SparkResource
from sfcdc_assets.setting_values import of_this_org


@dg.multi_asset(
    name="snapshots",
    specs=[snapshot_spec()],
    partitions_def=ENTITY,
    backfill_policy=dg.BackfillPolicy.single_run(),
    pool=of_this_org("snapshot"),
)
def snapshot(
    context: dg.AssetExecutionContext, lake: LakeResource, org: OrgResource, spark: SparkResource
) -> Iterator[dg.MaterializeResult | dg.AssetMaterialization | dg.AssetCheckEvaluation]:
    """Take the snapshots of the run's entities; one that fails does not stop the others."""
    warehouse, settings = lake.warehouse(), load_settings()
    done: dict[str, SnapshotReport] = {}
    failed: dict[str, Exception] = {}
    with (
        org.connect(warehouse) as connected,
        Poller(warehouse, connected, settings.settle_seconds) as landing,
    ):
        known = entity_channels(warehouse, settings.channels, settings.entities, connected.members)
        entities = chosen(known, context.partition_keys, settings.channels)
        taker = SnapshotTaker(warehouse, connected, landing, spark, settings)
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
    metadata = {entity: {SNAPSHOT_KEY: snapshot_metadata(warehouse, report)} for entity, report in done.items()}
    versions = {entity: {SNAPSHOT_KEY: str(report.number)} for entity, report in done.items()}
    if failed or was_refused:
        yield from evaluations(warehouse, settings)
    if failed:
        yield from materializations(metadata, versions)
        raise failure_of_some(failed)
    yield from results(context, metadata, versions)
