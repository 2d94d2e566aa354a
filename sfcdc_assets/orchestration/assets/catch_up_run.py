"""A `CatchUp` as Dagster's runs make it: with reports."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from sfcdc_assets.apply.catch_up import CatchUp
from sfcdc_assets.landing.run_lander import Lander
from sfcdc_assets.orchestration.assets.front_doors import WITHOUT_ASSET_TAG
from sfcdc_assets.orchestration.assets.reports import RunReports
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.org_connection.run_context import OrgRunContext


def catch_up_of_run(
    assets: OrgAssets,
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    run: OrgRunContext,
    landing: Lander,
    entities: Mapping[str, str],
    known: Mapping[str, str],
    *,
    every_entity: bool,
) -> tuple[CatchUp, RunReports]:
    """Over `entities`, which are some of the `known`; with what it reports."""
    reports = RunReports(
        assets,
        context.instance,
        run.warehouse,
        entities,
        run.run_id,
        with_columns=every_entity,
        without_asset=context.run.tags.get(WITHOUT_ASSET_TAG),
    )
    return CatchUp(run, landing, entities, known, reports, every_entity=every_entity), reports
