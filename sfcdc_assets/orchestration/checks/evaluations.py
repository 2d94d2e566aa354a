"""The checks of `current_state` evaluated by a run: Dagster shows a check as evaluated only if that happened in the run
that materialized the asset last, or after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import dagster as dg

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.assets.keys import CURRENT_STATE_KEY
from sfcdc_assets.orchestration.checks import drift, freshness, lagging, refused_reads, schema, suspects
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.settings.settings import Settings

CHECKED: Mapping[str, Callable[[Warehouse, Settings], dg.AssetCheckResult]] = {
    drift.NAME: drift.checked,
    freshness.NAME: freshness.checked,
    suspects.NAME: suspects.checked,
    refused_reads.NAME: refused_reads.checked,
    lagging.NAME: lagging.checked,
    schema.NAME: schema.checked,
}
"""Those that ask nothing of the org."""


def evaluations(
    warehouse: Warehouse, settings: Settings, *, known: Mapping[str, dg.AssetCheckResult] | None = None
) -> list[dg.AssetCheckEvaluation]:
    """All of them, as the tables are now. One that a damaged table keeps from being evaluated fails with the reason.

    `known`: results that the caller has.
    """
    found = []
    for name, checked in CHECKED.items():
        outcome = known[name] if known and name in known else outcome_of(checked, warehouse, settings)
        result = _not_evaluated(outcome) if isinstance(outcome, Exception) else outcome
        found.append(
            dg.AssetCheckEvaluation(CURRENT_STATE_KEY, name, result.passed, result.metadata, severity=result.severity)
        )
    return found


def _not_evaluated(error: Exception) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=False, metadata={"not_evaluated": str(error)})
