"""The Salesforce channels as external assets: where the lineage begins. Sensors report where they stand."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from sfcdc_assets.assets.keys import asset_key
from sfcdc_assets.channel_kinds import folder_of
from sfcdc_assets.config import load_settings


def owners() -> list[str]:
    """Those of every asset, by SFCDC_OWNERS: teams and e-mail addresses."""
    return list(load_settings().owners)


def channel_key(channel: str) -> dg.AssetKey:
    """`/data/ChangeEvents` -> `salesforce/ChangeEvents`."""
    return asset_key(folder_of(channel))


def channel_specs(channels: Sequence[str]) -> list[dg.AssetSpec]:
    """One external asset for each channel."""
    return [
        dg.AssetSpec(
            channel_key(channel),
            description=f"Change events on the Pub/Sub API channel `{channel}`; Salesforce keeps them for 72 hours.",
            group_name="salesforce",
            kinds={"salesforce"},
            owners=owners(),
        )
        for channel in channels
    ]
