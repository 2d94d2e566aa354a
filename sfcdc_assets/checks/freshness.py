"""Whether tables are as new as SFCDC_FRESHNESS_MINUTES asks for, as an asset check of `current_state`."""

import dagster as dg

from sfcdc_assets import clock
from sfcdc_assets.assets.keys import CURRENT_STATE_KEY
from sfcdc_assets.config import Settings, load_settings
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.freshness import lags
from sfcdc_assets.resources.lake import LakeResource
from sfcdc_assets.setting_values import as_set_here

NAME = "is_fresh"


@dg.asset_check(
    asset=CURRENT_STATE_KEY,
    name=NAME,
    description=as_set_here(
        "Fails for entities with events that were committed more than SFCDC_FRESHNESS_MINUTES ago, have "
        "landed, and are not in the tables. An entity without changes is fresh. Asks nothing of the org."
    ),
)
def is_fresh(lake: LakeResource) -> dg.AssetCheckResult:
    """Passed when no entity lags by more."""
    return checked(lake.warehouse(), load_settings())


def checked(warehouse: Warehouse, settings: Settings) -> dg.AssetCheckResult:
    """The check's result now."""
    now_ms = clock.now_ms()
    found = lags(warehouse, settings, now_ms)
    late = [lag.entity for lag in found if lag.is_late(settings)]
    lines = ["| entity | events that wait | lag (seconds) |", "|" + " --- |" * 3]
    lines += [f"| {lag.entity} | {lag.events} | {lag.seconds:.0f} |" for lag in found]
    raw_events = RawEvents.open(warehouse)
    landed = {channel: raw_events.landed_at_ms(channel) for channel in settings.change_channels}
    moved = {channel: round((now_ms - at) / 1000) for channel, at in landed.items() if at is not None}
    return dg.AssetCheckResult(
        passed=not late,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={
            "late": ", ".join(late) or "none",
            "longest_lag_seconds": round(max((lag.seconds for lag in found), default=0.0), 1),
            "allowed_seconds": settings.freshness_minutes * 60,
            "checkpoints_moved_seconds_ago": moved,
            "by_entity": dg.MetadataValue.md("\n".join(lines)),
        },
    )
