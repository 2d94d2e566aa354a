"""The partition dimensions: the entity, and for each kind of channel that carries no change events, the channel."""

import dagster as dg

from sfcdc_assets.channel_kinds import ChannelKind
from sfcdc_assets.setting_values import of_this_org

ENTITY = dg.DynamicPartitionsDefinition(name=of_this_org("salesforce_entity"))
"""API names of entities. Dagster's list of keys may be lost: the sensor rebuilds it from the tables and the org."""

EVENT_PARTITIONS = {
    ChannelKind.PUSH_TOPIC: dg.DynamicPartitionsDefinition(name=of_this_org("salesforce_push_topic")),
    ChannelKind.GENERIC: dg.DynamicPartitionsDefinition(name=of_this_org("salesforce_generic_channel")),
    ChannelKind.PLATFORM_EVENT: dg.DynamicPartitionsDefinition(name=of_this_org("salesforce_platform_event")),
}
"""Folders of the channels' tables (see `channel_kinds.folder_of`)."""
