"""Whether suspect records are reconciled in time, as an asset check of `current_state`."""

import dagster as dg

from sfcdc_assets import clock
from sfcdc_assets.assets.keys import CURRENT_STATE_KEY
from sfcdc_assets.config import Settings, load_settings
from sfcdc_assets.lake.gap_reconciliation import LAYER, Ledger
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.resources.lake import LakeResource
from sfcdc_assets.side_by_side import all_side_by_side

NAME = "suspects_are_reconciled"
LONGEST_MS = 3_600_000
"""How long a record may be suspect."""


@dg.asset_check(
    asset=CURRENT_STATE_KEY,
    name=NAME,
    description="Fails where a record, or an entity, has been suspect for more than an hour; gap_reconciliation says "
    "why, and what keeps it from being read back. Reads the reconciliation ledgers only.",
)
def suspects_are_reconciled(lake: LakeResource) -> dg.AssetCheckResult:
    """Passed when no suspect record is older than an hour."""
    return checked(lake.warehouse(), load_settings())


def checked(warehouse: Warehouse, settings: Settings) -> dg.AssetCheckResult:
    """The check's result now."""
    now = clock.now_ms()
    lines = ["| entity | suspect | since more than an hour | oldest (minutes) |", "|" + " --- |" * 4]
    old = total = 0
    entities = [entity for entity in warehouse.entities(LAYER) if not settings.entities or entity in settings.entities]

    def ages_of(entity: str) -> list[int]:
        ledger = Ledger.open(warehouse, entity)
        return [now - doubt.opened_at for doubt in (ledger.open_doubts() if ledger else ())]

    found = all_side_by_side(ages_of, entities, warehouse.looks_at_once)
    for entity, ages in zip(entities, found, strict=True):
        old_ones = sum(age > LONGEST_MS for age in ages)
        old, total = old + old_ones, total + len(ages)
        if ages:
            lines.append(f"| {entity} | {len(ages)} | {old_ones} | {max(ages) / 60_000:.0f} |")
    return dg.AssetCheckResult(
        passed=not old,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={
            "suspect_records": total,
            "suspect_for_more_than_an_hour": old,
            **({"by_entity": dg.MetadataValue.md("\n".join(lines))} if total else {}),
        },
    )
