"""The jobs a sensor, a schedule, the command line or a person launches."""

import dagster as dg

# Checks have a job of their own: Dagster would plan them with each run of this one and skip them, because the layers
# log what they did and yield nothing.
SYNC = dg.define_asset_job(
    "sync",
    selection=dg.AssetSelection.assets(
        ["salesforce", "raw_events"],
        ["salesforce", "text_fields"],
        ["salesforce", "gap_reconciliation"],
        ["salesforce", "current_state"],
        ["salesforce", "history"],
    ).without_checks(),
    description="Drain the channel into raw_events and bring the tables of the chosen entities up to its last complete "
    "transaction. Safe at any time: what is already applied is not applied again.",
)

SNAPSHOT = dg.define_asset_job(
    "snapshot",
    selection=dg.AssetSelection.assets(["salesforce", "snapshot"]),
    description="Read the chosen entities whole from the org by Bulk API 2.0, pinned to the stream; the next `sync` "
    "builds current_state from it. An unfinished snapshot goes on where it stopped.",
)

AUDIT = dg.define_asset_job(
    "audit",
    selection=dg.AssetSelection.checks_for_assets(["salesforce", "current_state"]),
    description="Compare the tables' columns with the org's fields, and their rows with the org within a budget of API "
    "requests; what differs is read back by the next `sync`.",
)
