"""`push_topic_state`: what is known of each record of a PushTopic, a partition a topic.

Sensors fold what they land, and the job `check_topics` asks the topics' queries; its materialization by a person does
the former.
"""

from collections.abc import Iterator, Sequence

import dagster as dg
import pyarrow as pa

from sfcdc_assets.event_channels.tables.fold import Folded, fold_topic, has_state
from sfcdc_assets.lake.tables.push_topic_state import PushTopicState, name_of
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.assets.entity_failures import results
from sfcdc_assets.orchestration.assets.event_tables import UnknownChannel
from sfcdc_assets.orchestration.assets.keys import EVENT_KEYS, EVENT_PARTITIONS, PUSH_TOPIC_STATE_KEY
from sfcdc_assets.orchestration.assets.specs import owners
from sfcdc_assets.orchestration.resources import LakeResource
from sfcdc_assets.orchestration.table_metadata import Metadata, sample_rows, table_metadata
from sfcdc_assets.settings.channel_kinds import ChannelKind, folder_of
from sfcdc_assets.settings.settings import load_settings

DESCRIPTION = (
    "What is known of each record that a PushTopic notified of: the newest known value of each field (createdDate, "
    "then replay id, decide), whether it is deleted, and since when the topic's query does not find it any more "
    "(`_left_filter_at`), which no notification says: the job `check_topics` asks."
)


def build_push_topic_state(channels: Sequence[str]) -> list[dg.AssetsDefinition]:
    """Build the asset, where a topic is among the channels."""
    known = {folder_of(channel): channel for channel in channels if has_state(channel)}
    if not known:
        return []

    @dg.multi_asset(
        name="push_topic_state",
        specs=[
            dg.AssetSpec(
                PUSH_TOPIC_STATE_KEY,
                deps=[EVENT_KEYS[ChannelKind.PUSH_TOPIC]],
                description=DESCRIPTION,
                group_name="tables",
                kinds={"deltalake", "salesforce"},
                owners=owners(),
                metadata={"documentation": dg.MetadataValue.text("docs/tables.md, `push_topic_state/<Topic>`")},
            )
        ],
        partitions_def=EVENT_PARTITIONS[ChannelKind.PUSH_TOPIC],
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def push_topic_state(context: dg.AssetExecutionContext, lake: LakeResource) -> Iterator[dg.MaterializeResult[None]]:
        """Fold what has landed of the run's topics. A filtered subscription has no state of its own: what it lets
        through are the topic's notifications."""
        warehouse, settings = lake.warehouse(), load_settings()
        known = {folder_of(channel): channel for channel in settings.event_channels if has_state(channel)}
        for topic in context.partition_keys:
            if topic not in known:
                raise UnknownChannel(topic, list(known.values()))
        done = {topic: fold_topic(warehouse, known[topic]) for topic in context.partition_keys}
        for folded in done.values():
            context.log.info(said_of(folded))
        metadata = {topic: {PUSH_TOPIC_STATE_KEY: state_metadata(warehouse, each)} for topic, each in done.items()}
        versions = {topic: {PUSH_TOPIC_STATE_KEY: data_version(warehouse, topic)} for topic in done}
        yield from results(context, metadata, versions)

    return [push_topic_state]


def said_of(folded: Folded) -> str:
    """Say in one line what a fold did."""
    return (
        f"{folded.channel}: {folded.notifications} notifications folded into {folded.records} records, up to position "
        f"{folded.to_position}"
    )


def state_materialization(warehouse: Warehouse, folded: Folded) -> dg.AssetMaterialization:
    """Return the materialization of the topic's partition."""
    topic = folder_of(folded.channel)
    tags = {"dagster/data_version": data_version(warehouse, topic)}
    metadata = state_metadata(warehouse, folded)
    return dg.AssetMaterialization(PUSH_TOPIC_STATE_KEY, partition=topic, metadata=metadata, tags=tags)


def data_version(warehouse: Warehouse, topic: str) -> str:
    """Return the table's version."""
    state = PushTopicState.open(warehouse, topic)
    return str(state.table.version if state else 0)


def state_metadata(warehouse: Warehouse, folded: Folded) -> Metadata:
    """Return what was folded, and the table."""
    topic = folder_of(folded.channel)
    state = PushTopicState.open(warehouse, topic)
    counts = state.counts() if state else {"rows": 0, "deleted": 0, "left": 0}
    schema = state.table.schema if state else pa.schema([])
    sample = state.table.newest("_position", "Id is not null", sample_rows()) if state else None
    return {
        "channel": folded.channel,
        **counts,
        "notifications": folded.notifications,
        "records": folded.records,
        "from_position": folded.from_position,
        "to_position": folded.to_position,
        **table_metadata(warehouse.uri(name_of(topic)), name_of(topic), counts["rows"], schema, sample),
    }
