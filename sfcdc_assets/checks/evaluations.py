"""The checks of `current_state` evaluated by a run: Dagster shows a check as evaluated only if that happened in the run
that materialized the asset last, or after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import dagster as dg

from sfcdc_assets.assets.keys import CURRENT_STATE_KEY
from sfcdc_assets.checks import freshness, refused_reads, schema, suspects
from sfcdc_assets.config import Settings
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.outcome import outcome_of

CHECKED: Mapping[str, Callable[[Warehouse, Settings], dg.AssetCheckResult]] = {
    freshness.NAME: freshness.checked,
    suspects.NAME: suspects.checked,
    refused_reads.NAME: refused_reads.checked,
    schema.NAME: schema.checked,
}
"""Those that ask nothing of the org."""


def evaluations(warehouse: Warehouse, settings: Settings) -> list[dg.AssetCheckEvaluation]:
    """All of them, as the tables are now. One that a damaged table keeps from being evaluated fails with the reason."""
    return [
        evaluation_of(name, result if isinstance(result, dg.AssetCheckResult) else _not_evaluated(result))
        for name, result in ((name, outcome_of(checked, warehouse, settings)) for name, checked in CHECKED.items())
    ]


def _not_evaluated(error: Exception) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=False, metadata={"not_evaluated": str(error)})


def evaluation_of(name: str, result: dg.AssetCheckResult) -> dg.AssetCheckEvaluation:
    """A result as an event that an op may yield."""
    return dg.AssetCheckEvaluation(CURRENT_STATE_KEY, name, result.passed, result.metadata, severity=result.severity)
