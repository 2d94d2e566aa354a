"""Whether every read of the org is in the tables, as an asset check of `current_state`."""

import dagster as dg

from sfcdc_assets.entities.refused_reads import refused_reads, sentences
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.settings import Settings

NAME = "reads_are_applied"
DESCRIPTION = (
    "Fails for entities that the user may not see whole, and for those of which a read is not believed "
    "because too many rows would be deleted by it; says what to do. Reads the reconciliation ledgers only."
)


def checked(warehouse: Warehouse, settings: Settings) -> dg.AssetCheckResult:
    """Return the check's result now."""
    refused = refused_reads(warehouse, settings.entities)
    return dg.AssetCheckResult(
        passed=not refused,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={"entities": ", ".join(refused), "not_applied": sentences(refused)},
    )
