"""`push_topic_state`: what is known of each record of a PushTopic, a partition a topic.

Sensors fold what they land, and the job `check_topics` asks the topics' queries; its materialization by a person does
the former.
"""

from collections.abc import Iterator, Sequence

import dagster as dg
import pyarrow as pa

from sfcdc_assets.event_channels.push_topics.state_rows import state_schema
from sfcdc_assets.event_channels.tables.fold import Folded, fold_topic, has_state
from sfcdc_assets.lake.tables.push_topic_state import PushTopicState, name_of
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.assets.entity_failures import results
from sfcdc_assets.orchestration.assets.event_tables import UnknownChannel
from sfcdc_assets.orchestration.assets.specs import layer_spec, with_columns
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.table_metadata import Metadata, partition_metadata
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.settings.channel_kinds import ChannelKind, folder_of

DESCRIPTION = (
    "What is known of each record that a PushTopic notified of: the newest known value of each field (createdDate, "
    "then replay id, decide), whether it is deleted, and since when the topic's query does not find it any more "
    "(`_left_filter_at`), which no notification says: the job `check_topics` asks."
)


def build_push_topic_state(assets: OrgAssets, channels: Sequence[str]) -> list[dg.AssetsDefinition]:
    """Build the asset, where a topic is among the channels."""
    known = {folder_of(channel): channel for channel in channels if has_state(channel)}
    if not known:
        return []
    key = assets.keys.push_topic_state

    @dg.multi_asset(
        name=assets.name("push_topic_state"),
        specs=[
            with_columns(
                layer_spec(
                    assets,
                    key,
                    [assets.keys.of_events(ChannelKind.PUSH_TOPIC)],
                    "tables",
                    {"deltalake", "salesforce"},
                    DESCRIPTION,
                    code_version=None,
                ),
                state_schema([]),
            )
        ],
        partitions_def=assets.folders(ChannelKind.PUSH_TOPIC),
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def push_topic_state(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
        """Fold what has landed of the run's topics. A filtered subscription has no state of its own: what it lets
        through are the topic's notifications."""
        warehouse, settings = assets.warehouse(), assets.settings()
        known = {folder_of(channel): channel for channel in settings.event_channels if has_state(channel)}
        for topic in context.partition_keys:
            if topic not in known:
                raise UnknownChannel(topic, list(known.values()))
        done = {topic: fold_topic(warehouse, known[topic]) for topic in context.partition_keys}
        for folded in done.values():
            context.log.info(said_of(folded))
        metadata = {topic: {key: state_metadata(assets, warehouse, each)} for topic, each in done.items()}
        versions = {topic: {key: data_version(warehouse, topic)} for topic in done}
        yield from results(context, metadata, versions)

    return [push_topic_state]


def said_of(folded: Folded) -> str:
    """Say in one line what a fold did."""
    return (
        f"{folded.channel}: {counted(folded.notifications, 'notification')} folded into "
        f"{counted(folded.records, 'record')}, up to position {folded.to_position}"
    )


def state_materialization(assets: OrgAssets, warehouse: Warehouse, folded: Folded) -> dg.AssetMaterialization:
    """Return the materialization of the topic's partition."""
    topic = folder_of(folded.channel)
    tags = {"dagster/data_version": data_version(warehouse, topic)}
    metadata = state_metadata(assets, warehouse, folded)
    return dg.AssetMaterialization(assets.keys.push_topic_state, partition=topic, metadata=metadata, tags=tags)


def data_version(warehouse: Warehouse, topic: str) -> str:
    """Return the table's version."""
    state = PushTopicState.open(warehouse, topic)
    return str(state.table.version if state else 0)


def state_metadata(assets: OrgAssets, warehouse: Warehouse, folded: Folded) -> Metadata:
    """Return what was folded, and the table."""
    topic = folder_of(folded.channel)
    state = PushTopicState.open(warehouse, topic)
    counts = state.counts() if state else {"rows": 0, "deleted": 0, "left": 0}
    schema = state.table.schema if state else pa.schema([])
    sample = state.table.newest("_position", "Id is not null", assets.settings().sample_rows) if state else None
    return {
        "channel": folded.channel,
        **counts,
        "notifications": folded.notifications,
        "records": folded.records,
        "from_position": folded.from_position,
        "to_position": folded.to_position,
        **partition_metadata(warehouse.uri(name_of(topic)), name_of(topic), counts["rows"], schema, sample),
    }
