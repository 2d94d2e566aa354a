"""`raw_events`: what a person launches to land the channels of entities."""

from collections.abc import Iterator

import dagster as dg

from sfcdc_assets.assets.each_entity import chosen
from sfcdc_assets.assets.keys import RAW_EVENTS_KEY
from sfcdc_assets.assets.layer_metadata import channel_materialization, raw_events_metadata
from sfcdc_assets.assets.results import results
from sfcdc_assets.assets.specs import raw_events_spec
from sfcdc_assets.config import load_settings
from sfcdc_assets.partitions import ENTITY
from sfcdc_assets.pipeline.entities import entity_channels
from sfcdc_assets.pipeline.landing.lander import Poller
from sfcdc_assets.resources.lake import LakeResource
from sfcdc_assets.resources.org import OrgResource
from sfcdc_assets.setting_values import of_this_org


def build_raw_events(channels: tuple[str, ...]) -> dg.AssetsDefinition:
    """The asset over the configured channels."""

    @dg.multi_asset(
        name="raw_events",
        specs=[raw_events_spec(channels)],
        partitions_def=ENTITY,
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=of_this_org("raw_events"),
    )
    def raw_events(
        context: dg.AssetExecutionContext, lake: LakeResource, org: OrgResource
    ) -> Iterator[dg.MaterializeResult | dg.AssetMaterialization]:
        """Land all that the channels of the run's entities bring, their other entities' events included."""
        warehouse, settings = lake.warehouse(), load_settings()
        with (
            org.connect(warehouse) as connected,
            Poller(warehouse, connected, settings.settle_seconds, run_id=context.run.run_id) as landing,
        ):
            known = entity_channels(warehouse, settings.channels, settings.entities, connected.members)
            entities = chosen(known, context.partition_keys, settings.channels)
            reports = {channel: landing.land(channel) for channel in dict.fromkeys(entities.values())}
        for report in reports.values():
            context.log.info(f"{report.channel}: {report.count} events landed, position {report.position}")
            yield channel_materialization(warehouse, report)
        found = {
            entity: of_entity
            for channel, report in reports.items()
            for entity, of_entity in raw_events_metadata(
                warehouse, report, [entity for entity, of in entities.items() if of == channel]
            ).items()
        }
        yield from results(
            context,
            {entity: {RAW_EVENTS_KEY: metadata} for entity, (metadata, _) in found.items()},
            {entity: {RAW_EVENTS_KEY: version} for entity, (_, version) in found.items()},
        )

    return raw_events
