"""What each asset is, and from what it is computed: the lineage as the data flows."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from sfcdc_assets.orchestration.assets.keys import (
    CONSISTENT_CUTS_KEY,
    CURRENT_STATE_KEY,
    GAP_RECONCILIATION_KEY,
    HISTORY_KEY,
    RAW_EVENTS_KEY,
    SNAPSHOT_KEY,
    TEXT_FIELDS_KEY,
    asset_key,
)
from sfcdc_assets.settings.channel_kinds import folder_of, is_polled
from sfcdc_assets.settings.settings import load_settings


def owners() -> list[str]:
    """Return those of every asset, by SFCDC_OWNERS: teams and e-mail addresses."""
    return list(load_settings().owners)


def channel_key(channel: str) -> dg.AssetKey:
    """`/data/ChangeEvents` -> `salesforce/ChangeEvents`."""
    return asset_key(folder_of(channel))


def channel_specs(channels: Sequence[str]) -> list[dg.AssetSpec]:
    """One external asset for each channel."""
    return [
        dg.AssetSpec(
            channel_key(channel),
            description=(
                "Objects of the org that are polled: asked for what changed, every SFCDC_POLL_SECONDS."
                if is_polled(channel)
                else f"Change events on the Pub/Sub API channel `{channel}`; Salesforce keeps them for 72 hours."
            ),
            group_name="salesforce",
            kinds={"salesforce"},
            owners=owners(),
        )
        for channel in channels
    ]


CODE_VERSION = "3"
"""Of what a batch makes of events and reads. Change it with the format of the tables: Dagster then shows partitions
that were made by older code as unsynced."""


def raw_events_spec(channels: Sequence[str]) -> dg.AssetSpec:
    """Return the spec of `raw_events`, which depends on the channels."""
    return _spec(
        RAW_EVENTS_KEY,
        [channel_key(channel) for channel in channels],
        "landing",
        {"deltalake", "pubsub"},
        "Every delivered change event: bytes as received, header, position in the channel's order. "
        "One Delta commit holds events, position and the replay id to resume from.",
    )


def snapshot_spec() -> dg.AssetSpec:
    """Read from the org itself."""
    return _spec(
        SNAPSHOT_KEY,
        [],
        "landing",
        {"deltalake", "salesforce"},
        "The entity's rows as read by Bulk API 2.0, taken at a watermark of the stream: they stand for "
        "every event up to it. Read page by page; an interrupted snapshot goes on where it stopped.",
    )


def table_specs() -> list[dg.AssetSpec]:
    """Four siblings over events and snapshots."""
    deps = [RAW_EVENTS_KEY, SNAPSHOT_KEY]
    return [
        _spec(
            TEXT_FIELDS_KEY,
            deps,
            "reconciliation",
            {"deltalake", "pyspark"},
            "Every full value of the entity's large text fields, in position order. A value sent as a diff "
            "is rebuilt from the one before it and kept only if its SHA-256 is the one in the event.",
        ),
        _spec(
            GAP_RECONCILIATION_KEY,
            deps,
            "reconciliation",
            {"deltalake", "salesforce"},
            "The reconciliation ledger: records (or `*`, the entity) whose state the stream does not show for sure, "
            "why, since when, and how they were healed by reading exactly them back from the org.",
        ),
        _spec(
            CURRENT_STATE_KEY,
            deps,
            "tables",
            {"deltalake", "pyspark"},
            "One row for each record of the entity, as the org has it after the last complete transaction. "
            "Deleted records keep their row, with `_is_deleted`; suspect records are marked `_in_doubt`.",
        ),
        _spec(
            HISTORY_KEY,
            deps,
            "tables",
            {"deltalake", "pyspark"},
            "Every version of each record, with the time it was valid, who made it and which fields it changed.",
        ),
    ]


def consistent_cuts_spec() -> dg.AssetSpec:
    """Return the cuts over all entities of a channel: one table, not partitioned, noted by the runs that reach them."""
    return dg.AssetSpec(
        CONSISTENT_CUTS_KEY,
        deps=[CURRENT_STATE_KEY, HISTORY_KEY],
        description="One row for each batch after which all tables of a channel stood at the same transaction: the "
        "position and the Delta version of every table, so that they can be opened together.",
        group_name="tables",
        kinds={"deltalake"},
        owners=owners(),
        metadata=_docs(CONSISTENT_CUTS_KEY),
    )


def _spec(key: dg.AssetKey, deps: Sequence[dg.AssetKey], group: str, kinds: set[str], description: str) -> dg.AssetSpec:
    return dg.AssetSpec(
        key,
        deps=list(deps),
        description=description,
        group_name=group,
        kinds=kinds,
        owners=owners(),
        code_version=CODE_VERSION,
        metadata=_docs(key),
    )


def _docs(key: dg.AssetKey) -> dict[str, dg.MetadataValue]:
    """Return where its columns are explained."""
    return {"documentation": dg.MetadataValue.text(f"docs/tables.md, `{key.path[-1]}`")}
