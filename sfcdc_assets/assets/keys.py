"""The keys of the assets, which begin with the name of the org where there are several. Those of channels are in
`channels`."""

import dagster as dg

from sfcdc_assets.channel_kinds import APPEND_ONLY
from sfcdc_assets.setting_values import this_org

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
