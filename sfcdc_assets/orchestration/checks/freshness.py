"""Whether tables are as new as SFCDC_FRESHNESS_MINUTES asks for, as an asset check of `current_state`."""

import dagster as dg

from sfcdc_assets.entities.freshness import lags
from sfcdc_assets.entities.unpolled_objects import unpolled_objects
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.table_metadata import rows_value
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import Settings

NAME = "is_fresh"
DESCRIPTION = (
    "Fails for entities with events that were committed more than SFCDC_FRESHNESS_MINUTES ago, have "
    "landed, and are not in the tables, for records that were polled as long ago and are not, and for polled "
    "objects whose changes were not seen for as long because their polls fail or wait for the allowance. An entity "
    "without changes is fresh. Asks nothing of the org."
)


def checked(warehouse: Warehouse, settings: Settings) -> dg.AssetCheckResult:
    """Return the check's result now."""
    now_ms = clock.now_ms()
    found = lags(warehouse, settings, now_ms)
    late = [lag.entity for lag in found if lag.is_late(settings)]
    unpolled = list(unpolled_objects(warehouse, settings, settings.freshness_minutes * 60, now_ms))
    rows = [(lag.entity, lag.events, round(lag.seconds)) for lag in found]
    raw_events = RawEvents.open(warehouse)
    landed = {channel: raw_events.landed_at_ms(channel) for channel in settings.feeding_channels}
    moved = {channel: round((now_ms - at) / 1000) for channel, at in landed.items() if at is not None}
    return dg.AssetCheckResult(
        passed=not late and not unpolled,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={
            "late": ", ".join(late) or "none",
            "not_polled": [str(each) for each in unpolled],
            "longest_lag_seconds": round(max((lag.seconds for lag in found), default=0.0), 1),
            "allowed_seconds": settings.freshness_minutes * 60,
            "checkpoints_moved_seconds_ago": moved,
            "by_entity": rows_value(("entity", "events or polled records that wait", "lag (seconds)"), rows),
        },
    )
