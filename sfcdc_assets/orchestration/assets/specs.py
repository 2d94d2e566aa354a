"""What each asset is, and from what it is computed: the lineage as the data flows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import dagster as dg
import pyarrow as pa

from sfcdc_assets.change_events.columns import ID_COLUMN
from sfcdc_assets.lake.tables.gap_reconciliation import LEDGER
from sfcdc_assets.orchestration.assets.unreported_landings import ALIVE_SECONDS
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.table_metadata import SCHEMA, columns_of
from sfcdc_assets.settings.channel_kinds import is_polled
from sfcdc_assets.settings.setting_values import as_set_here
from sfcdc_assets.snapshot.pages import page_schema
from sfcdc_assets.timeline.text_values import TEXT_FIELDS
from sfcdc_assets.timeline.version_columns import current_state_schema, history_schema

CODE_VERSION = "3"
"""Of what a batch makes of events and reads. Change it with the format of the tables: Dagster then shows partitions
that were made by older code as unsynced."""


def layer_spec(
    assets: OrgAssets,
    key: dg.AssetKey,
    deps: Sequence[dg.AssetKey],
    group: str,
    kinds: set[str],
    description: str,
    code_version: str | None = CODE_VERSION,
) -> dg.AssetSpec:
    """Return the spec of a layer; its group's name begins as all of the org's do."""
    return dg.AssetSpec(
        key,
        deps=list(deps),
        description=as_set_here(f"{description} {_fed(assets)}"),
        group_name=assets.group(group),
        kinds=kinds,
        owners=assets.owners,
        code_version=code_version,
        metadata={"documentation": assets.page("tables", key.path[-1])},
    )


def with_columns(spec: dg.AssetSpec, columns: pa.Schema) -> dg.AssetSpec:
    """Return the spec of a layer with the columns that all of its partitions have: its page is no place for those of
    one."""
    return spec.merge_attributes(metadata={SCHEMA: columns_of(columns)})


def _fed(assets: OrgAssets) -> str:
    return (
        f"Fed by the sensors `{assets.name('poll_...')}`, which are listed under its automation. "
        "Figures are of the partition that came last, and columns those that all have: what one entity has is on the "
        "page of its own asset, which one that is new gets when the code location is loaded again."
    )


def _freshness(minutes: float) -> dg.FreshnessPolicy:
    """Return by when a channel that is read is reported again, which happens every ten minutes without any event. An
    entity that nobody changes is no stale one: so the entities' own assets have no such policy, and the check
    `is_fresh` looks at what waits."""
    warns = timedelta(seconds=ALIVE_SECONDS) + timedelta(minutes=max(minutes, 1))
    return dg.FreshnessPolicy.time_window(fail_window=2 * warns, warn_window=warns)


def channel_specs(assets: OrgAssets, channels: Sequence[str]) -> list[dg.AssetSpec]:
    """One external asset for each channel."""
    return [
        dg.AssetSpec(
            assets.keys.of_channel(channel),
            description=as_set_here(
                "Objects of the org that are polled: asked for what changed, every SFCDC_POLL_SECONDS."
                if is_polled(channel)
                else f"Change events on the Pub/Sub API channel `{channel}`; Salesforce keeps them for 72 hours."
            ),
            group_name=assets.group("channels"),
            kinds={"salesforce"},
            owners=assets.owners,
            freshness_policy=None if is_polled(channel) else _freshness(assets.settings().freshness_minutes),
        )
        for channel in channels
    ]


def raw_events_spec(assets: OrgAssets, channels: Sequence[str]) -> dg.AssetSpec:
    """Return the spec of `raw_events`, which depends on the channels."""
    return layer_spec(
        assets,
        assets.keys.raw_events,
        [assets.keys.of_channel(channel) for channel in channels],
        "landing",
        {"deltalake", "pubsub"},
        "Every delivered change event: bytes as received, header, position in the channel's order. "
        "One Delta commit holds events, position and the replay id to resume from.",
    )


def snapshot_spec(assets: OrgAssets) -> dg.AssetSpec:
    """Read from the org itself."""
    return with_columns(
        layer_spec(
            assets,
            assets.keys.snapshot,
            [],
            "landing",
            {"deltalake", "salesforce"},
            "The entity's rows as read by Bulk API 2.0, taken at a watermark of the stream: they stand for "
            "every event up to it. Read page by page; an interrupted snapshot goes on where it stopped.",
        ),
        page_schema([ID_COLUMN]),
    )


def table_specs(assets: OrgAssets) -> list[dg.AssetSpec]:
    """Four siblings over events and snapshots."""
    keys = assets.keys
    deps = [keys.raw_events, keys.snapshot]
    return [
        with_columns(
            layer_spec(
                assets,
                keys.text_fields,
                deps,
                "reconciliation",
                {"deltalake", "pyspark"},
                "Every full value of the entity's large text fields, in position order. A value sent as a diff "
                "is rebuilt from the one before it and kept only if its SHA-256 is the one in the event.",
            ),
            TEXT_FIELDS,
        ),
        with_columns(
            layer_spec(
                assets,
                keys.gap_reconciliation,
                deps,
                "reconciliation",
                {"deltalake", "salesforce"},
                "The reconciliation ledger: records (or `*`, the entity) whose state the stream does not show for "
                "sure, why, since when, and how they were healed by reading exactly them back from the org.",
            ),
            LEDGER,
        ),
        with_columns(
            layer_spec(
                assets,
                keys.current_state,
                deps,
                "tables",
                {"deltalake", "pyspark"},
                "One row for each record of the entity, as the org has it after the last complete transaction. "
                "Deleted records keep their row, with `_is_deleted`; suspect records are marked `_in_doubt`.",
            ),
            current_state_schema([ID_COLUMN]),
        ),
        with_columns(
            layer_spec(
                assets,
                keys.history,
                deps,
                "tables",
                {"deltalake", "pyspark"},
                "Every version of each record, with the time it was valid, who made it and which fields it changed.",
            ),
            history_schema([ID_COLUMN]),
        ),
    ]


def consistent_cuts_spec(assets: OrgAssets) -> dg.AssetSpec:
    """Return the cuts over all entities of a channel: one table, not partitioned, noted by the runs that reach them."""
    keys = assets.keys
    return layer_spec(
        assets,
        keys.consistent_cuts,
        [keys.current_state, keys.history],
        "tables",
        {"deltalake"},
        "One row for each batch after which all tables of a channel stood at the same transaction: the "
        "position and the Delta version of every table, so that they can be opened together.",
        code_version=None,
    )
