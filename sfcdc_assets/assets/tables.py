"""An entity's tables: what a person launches to have them brought up to what has landed.

They are computed together, because one reading of a record's row and its changes gives them all, so whoever chooses one
of them gets all four.
"""

from collections.abc import Iterator

import dagster as dg

from sfcdc_assets.assets.catching_up import catch_up_of_run
from sfcdc_assets.assets.each_entity import chosen, failure_of_some
from sfcdc_assets.assets.keys import TABLE_KEYS
from sfcdc_assets.assets.reports import data_version
from sfcdc_assets.assets.results import materializations, results
from sfcdc_assets.assets.specs import table_specs
from sfcdc_assets.checks.evaluations import evaluations
from sfcdc_assets.config import load_settings
from sfcdc_assets.partitions import ENTITY
from sfcdc_assets.pipeline.catch_up import Applied
from sfcdc_assets.pipeline.entities import entity_channels
from sfcdc_assets.pipeline.landing.lander import LandedOnly
from sfcdc_assets.resources.lake import LakeResource
from sfcdc_assets.resources.org import OrgResource
from sfcdc_assets.resources.spark import SparkResource
from sfcdc_assets.setting_values import of_this_org


@dg.multi_asset(
    name="tables",
    specs=table_specs(),
    partitions_def=ENTITY,
    backfill_policy=dg.BackfillPolicy.single_run(),
    can_subset=False,
    pool=of_this_org("tables"),
)
def tables(
    context: dg.AssetExecutionContext, lake: LakeResource, org: OrgResource, spark: SparkResource
) -> Iterator[dg.MaterializeResult | dg.AssetMaterialization | dg.AssetCheckEvaluation]:
    """Apply what has landed of the run's entities and read their suspect records back; one that fails does not stop the
    others. Safe at any time: what is already applied is not applied again."""
    warehouse, settings = lake.warehouse(), load_settings()
    done: dict[str, Applied] = {}
    failed: dict[str, Exception] = {}
    with org.connect(warehouse) as connected:
        known = entity_channels(warehouse, settings.channels, settings.entities, connected.members)
        entities = chosen(known, context.partition_keys, settings.channels)
        landing = LandedOnly(warehouse, {})
        catch_up, reports = catch_up_of_run(
            context, warehouse, connected, landing, spark, settings, entities, known, every_entity=True
        )
        reports.log = context.log
        for entity, found in catch_up.outcomes(catch_up.land()):
            if isinstance(found, Exception):
                context.log.error(f"{entity} failed: {found}", exc_info=found)
                failed[entity] = found
            else:
                done[entity] = found
    reported = {(event.partition, event.asset_key): event.metadata for event in reports.take()}
    metadata = {entity: {key: dict(reported[entity, key]) for key in TABLE_KEYS} for entity in done}
    versions = {entity: dict.fromkeys(TABLE_KEYS, data_version(applied)) for entity, applied in done.items()}
    yield from evaluations(warehouse, settings)
    if failed:
        yield from materializations(metadata, versions)
        raise failure_of_some(failed)
    yield from results(context, metadata, versions)
