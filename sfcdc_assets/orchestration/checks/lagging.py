"""Whether every entity stands at the newest consistent cut of its channel, as an asset check of `current_state`."""

import dagster as dg

from sfcdc_assets.apply.record_cut import DAMAGED
from sfcdc_assets.lake.tables.consistent_cuts import newest_cuts
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.table_metadata import rows_value
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import Settings

NAME = "stands_at_the_cut"
DESCRIPTION = (
    "Fails for entities that have been lagging behind the consistent cuts for more than "
    "SFCDC_FRESHNESS_MINUTES: they could not be applied or read, and readers of a cut see them as they were. For "
    "one with a damaged table it fails at once; one that the settings leave out is none of them. Reads the newest "
    "cuts only."
)


def checked(warehouse: Warehouse, settings: Settings) -> dg.AssetCheckResult:
    """Return the check's result now."""
    now = clock.now_ms() / 1000
    cuts = [cut for cut in newest_cuts(warehouse) if cut.channel in settings.feeding_channels]
    lagging = {each.entity: each for cut in cuts for each in cut.in_trouble}
    late = [
        each
        for each in lagging.values()
        if each.reason == DAMAGED or now - each.since.timestamp() > settings.freshness_minutes * 60
    ]
    rows = [(each.entity, each.position, str(each.as_of), str(each.since), each.reason) for each in lagging.values()]
    return dg.AssetCheckResult(
        passed=not late,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={
            "entities": ", ".join(sorted(each.entity for each in late)) or "none",
            "lagging": len(lagging),
            **({"by_entity": rows_value(("entity", "position", "as of", "since", "reason"), rows)} if lagging else {}),
        },
    )
