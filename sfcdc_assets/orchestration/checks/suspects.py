"""Whether suspect records are reconciled in time, as an asset check of `current_state`."""

import dagster as dg

from sfcdc_assets.lake.tables.damage import of_readable
from sfcdc_assets.lake.tables.gap_reconciliation import LAYER, open_suspects
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.table_metadata import rows_value
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import Settings

NAME = "suspects_are_reconciled"
DESCRIPTION = (
    "Warns where a record, or an entity, has been suspect for more than an hour; gap_reconciliation says "
    "why, and what keeps it from being read back. Reads the reconciliation ledgers only."
)
LONGEST_MS = 3_600_000
"""How long a record may be suspect."""
COLUMNS = ("entity", "suspect", "since more than an hour", "oldest (minutes)")


def checked(warehouse: Warehouse, settings: Settings) -> dg.AssetCheckResult:
    """Return the check's result now."""
    now = clock.now_ms()
    rows: list[tuple[object, ...]] = []
    old = total = 0
    entities = [entity for entity in warehouse.entities(LAYER) if not settings.entities or entity in settings.entities]

    def ages_of(entity: str) -> list[int]:
        return [now - suspect.opened_at for suspect in open_suspects(warehouse, entity)]

    for entity, ages in of_readable(ages_of, entities, warehouse.looks_at_once).items():
        old_ones = sum(age > LONGEST_MS for age in ages)
        old, total = old + old_ones, total + len(ages)
        if ages:
            rows.append((entity, len(ages), old_ones, round(max(ages) / 60_000)))
    return dg.AssetCheckResult(
        passed=not old,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={
            "suspect_records": total,
            "suspect_for_more_than_an_hour": old,
            **({"by_entity": rows_value(COLUMNS, rows)} if total else {}),
        },
    )
