"""The keys of the assets. Those of channels are in `channels`."""

import dagster as dg

from sfcdc_assets.channel_kinds import APPEND_ONLY

SNAPSHOT_KEY = dg.AssetKey(["salesforce", "snapshot"])
RAW_EVENTS_KEY = dg.AssetKey(["salesforce", "raw_events"])
TEXT_FIELDS_KEY = dg.AssetKey(["salesforce", "text_fields"])
GAP_RECONCILIATION_KEY = dg.AssetKey(["salesforce", "gap_reconciliation"])
CURRENT_STATE_KEY = dg.AssetKey(["salesforce", "current_state"])
HISTORY_KEY = dg.AssetKey(["salesforce", "history"])
CONSISTENT_CUTS_KEY = dg.AssetKey(["salesforce", "consistent_cuts"])

EVENT_KEYS = {kind: dg.AssetKey(["salesforce", kind.value]) for kind in APPEND_ONLY}
"""Of channels that carry no change events: an asset a kind."""

PUSH_TOPIC_STATE_KEY = dg.AssetKey(["salesforce", "push_topic_state"])

TABLE_KEYS = (TEXT_FIELDS_KEY, GAP_RECONCILIATION_KEY, CURRENT_STATE_KEY, HISTORY_KEY)
"""What one reading of an entity's rows and their changes gives, all together."""
