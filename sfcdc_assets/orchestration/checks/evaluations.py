"""The checks of `current_state`, evaluated by a person or by a run: Dagster shows a check as evaluated only if that
happened in the run that materialized the asset last, or after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import dagster as dg

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.checks import drift, freshness, lagging, refused_reads, schema, suspects
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.settings.setting_values import as_set_here
from sfcdc_assets.settings.settings import Settings

CHECKS = (freshness, suspects, refused_reads, lagging, schema, drift)
"""Modules, each with a NAME, a DESCRIPTION and `checked`."""
CHECKED: Mapping[str, Callable[[Warehouse, Settings], dg.AssetCheckResult]] = {
    each.NAME: each.checked for each in CHECKS
}
"""Those that ask nothing of the org."""


def build_checks(assets: OrgAssets) -> list[dg.AssetChecksDefinition]:
    """Build them for an org."""
    return [_build(assets, each.NAME, each.DESCRIPTION) for each in CHECKS]


def _build(assets: OrgAssets, name: str, description: str) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=assets.keys.current_state, name=name, description=as_set_here(description))
    def check() -> dg.AssetCheckResult:
        if name == drift.NAME:
            return drift.compared_now(assets)
        return CHECKED[name](assets.warehouse(), assets.settings())

    return check


def evaluations(
    assets: OrgAssets,
    warehouse: Warehouse,
    settings: Settings,
    *,
    known: Mapping[str, dg.AssetCheckResult] | None = None,
) -> list[dg.AssetCheckEvaluation]:
    """All of them, as the tables are now. One that a damaged table keeps from being evaluated fails with the reason.

    `known`: results that the caller has.
    """
    found = []
    for name, checked in CHECKED.items():
        outcome = known[name] if known and name in known else outcome_of(checked, warehouse, settings)
        result = _not_evaluated(outcome) if isinstance(outcome, Exception) else outcome
        metadata = dict(result.metadata)
        if assets.docs_url is not None and not result.passed:
            metadata["documentation"] = assets.page("operating", "checks")
        found.append(
            dg.AssetCheckEvaluation(assets.keys.current_state, name, result.passed, metadata, severity=result.severity)
        )
    return found


def _not_evaluated(error: Exception) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=False, metadata={"not_evaluated": str(error)})
