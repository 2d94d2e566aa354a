"""The partition dimensions: the entity, and for each kind of channel that carries no change events, the channel."""

import dagster as dg

from sfcdc_assets.channel_kinds import ChannelKind

ENTITY = dg.DynamicPartitionsDefinition(name="salesforce_entity")
"""API names of entities. Dagster's list of keys may be lost: the sensor rebuilds it from the tables and the org."""

EVENT_PARTITIONS = {
    ChannelKind.PUSH_TOPIC: dg.DynamicPartitionsDefinition(name="salesforce_push_topic"),
    ChannelKind.GENERIC: dg.DynamicPartitionsDefinition(name="salesforce_generic_channel"),
    ChannelKind.PLATFORM_EVENT: dg.DynamicPartitionsDefinition(name="salesforce_platform_event"),
}
"""Folders of the channels' tables (see `channel_kinds.folder_of`)."""
