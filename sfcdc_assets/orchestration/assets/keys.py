"""The keys of the assets, which begin with the name of the org where there are several, and their partitions."""

import dagster as dg

from sfcdc_assets.settings.channel_kinds import APPEND_ONLY, ChannelKind
from sfcdc_assets.settings.setting_values import of_this_org, this_org

ORG = this_org()
"""The org that the definitions of this process are of; None where there is only one."""
PREFIX = ("salesforce",) if ORG is None else ("salesforce", ORG)


def asset_key(name: str) -> dg.AssetKey:
    """`salesforce/<name>`; of one of several orgs `salesforce/<org>/<name>`."""
    return dg.AssetKey([*PREFIX, name])


SNAPSHOT_KEY = asset_key("snapshot")
RAW_EVENTS_KEY = asset_key("raw_events")
TEXT_FIELDS_KEY = asset_key("text_fields")
GAP_RECONCILIATION_KEY = asset_key("gap_reconciliation")
CURRENT_STATE_KEY = asset_key("current_state")
HISTORY_KEY = asset_key("history")
CONSISTENT_CUTS_KEY = asset_key("consistent_cuts")

EVENT_KEYS = {kind: asset_key(kind.value) for kind in APPEND_ONLY}
"""Of channels that carry no change events: an asset a kind."""

PUSH_TOPIC_STATE_KEY = asset_key("push_topic_state")

TABLE_KEYS = (TEXT_FIELDS_KEY, GAP_RECONCILIATION_KEY, CURRENT_STATE_KEY, HISTORY_KEY)
"""What one reading of an entity's rows and their changes gives, all together."""


ENTITY = dg.DynamicPartitionsDefinition(name=of_this_org("salesforce_entity"))
"""API names of entities. Dagster's list of keys may be lost: the sensor rebuilds it from the tables and the org."""

EVENT_PARTITIONS = {
    ChannelKind.PUSH_TOPIC: dg.DynamicPartitionsDefinition(name=of_this_org("salesforce_push_topic")),
    ChannelKind.GENERIC: dg.DynamicPartitionsDefinition(name=of_this_org("salesforce_generic_channel")),
    ChannelKind.PLATFORM_EVENT: dg.DynamicPartitionsDefinition(name=of_this_org("salesforce_platform_event")),
}
"""Folders of the channels' tables (see `channel_kinds.folder_of`)."""
