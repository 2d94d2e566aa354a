"""Channels that carry no change events: an asset a kind, a partition a channel. Nothing lies between the stream and the
table, so its materialization by a person is one more reading of the stream."""

from collections.abc import Iterator, Sequence

import dagster as dg
import pyarrow as pa

from sfcdc_assets.event_channels.event_rows import table_schema
from sfcdc_assets.landing.poll_timeouts import NOW
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.orchestration.assets.entity_failures import results
from sfcdc_assets.orchestration.assets.event_metadata import event_metadata
from sfcdc_assets.orchestration.assets.specs import layer_spec, with_columns
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.runtime.errors import SfcdcError, counted
from sfcdc_assets.settings.channel_kinds import APPEND_ONLY, ChannelKind, folder_of, kind_of

DESCRIPTIONS = {
    ChannelKind.PUSH_TOPIC: "Notifications of PushTopics, a table a topic (a filtered subscription has its own): what "
    "happened, when, and the selected fields, typed as the org describes them.",
    ChannelKind.GENERIC: "What applications push to generic channels, a table a channel: the payload and, where "
    "SFCDC_CHANNEL_SCHEMAS has its shape, its JSON as columns.",
    ChannelKind.PLATFORM_EVENT: "Platform events, a table a channel: typed by the schema that each event names, whose "
    "changes are followed.",
}
_ALL = (
    " Append-only: one Delta commit holds rows, positions, replay ids and the place to resume from; each event is in "
    "it once. `_rescued_data` has what fits no column."
)
_KINDS = {ChannelKind.PLATFORM_EVENT: "pubsub"}


class UnknownChannel(SfcdcError):
    """A run names a channel that is not configured (any more)."""

    def __init__(self, folder: str, channels: Sequence[str]) -> None:
        self.folder = folder
        known = ", ".join(channels) or "none of its kind"
        super().__init__(f"{folder}: no configured channel has this table ({known}). Add one to SFCDC_CHANNELS.")


def build_event_tables(assets: OrgAssets, channels: Sequence[str]) -> list[dg.AssetsDefinition]:
    """One asset for each kind among the channels."""
    present = {kind_of(channel) for channel in channels}
    return [_build(assets, kind) for kind in APPEND_ONLY if kind in present]


def _build(assets: OrgAssets, kind: ChannelKind) -> dg.AssetsDefinition:
    key = assets.keys.of_events(kind)

    @dg.multi_asset(
        name=assets.name(kind.value),
        specs=[
            with_columns(
                layer_spec(
                    assets,
                    key,
                    [],
                    "landing",
                    {"deltalake", _KINDS.get(kind, "salesforce")},
                    DESCRIPTIONS[kind] + _ALL,
                    code_version=None,
                ),
                table_schema(pa.schema([])),
            )
        ],
        partitions_def=assets.folders(kind),
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def event_tables(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
        """Land what the run's channels bring."""
        warehouse, settings = assets.warehouse(), assets.settings()
        known = {folder_of(each): each for each in settings.event_channels if kind_of(each) is kind}
        for folder in context.partition_keys:
            if folder not in known:
                raise UnknownChannel(folder, list(known.values()))
        settle, run_id = settings.settle_seconds, context.run.run_id
        with assets.connect(warehouse) as connected, Poller(warehouse, connected, settle, run_id=run_id) as landing:
            reports = {folder: landing.land(known[folder], NOW) for folder in context.partition_keys}
        for report in reports.values():
            context.log.info(f"{report.channel}: {counted(report.count, 'event')} landed, position {report.position}")
        metadata = {folder: {key: event_metadata(assets, warehouse, report)} for folder, report in reports.items()}
        versions = {folder: {key: str(report.position)} for folder, report in reports.items()}
        yield from results(context, metadata, versions)

    return event_tables
