"""A `CatchUp` as Dagster's runs make it: with the settings, the run's Spark, and reports."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from sfcdc_assets.apply.apply_changes import Applier
from sfcdc_assets.apply.catch_up import CatchUp
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.lander import Lander
from sfcdc_assets.orchestration.assets.reports import RunReports
from sfcdc_assets.orchestration.resources import SparkResource
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.settings.settings import Settings


def catch_up_of_run(
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    warehouse: Warehouse,
    org: OrgConnection,
    landing: Lander,
    spark: SparkResource,
    settings: Settings,
    entities: Mapping[str, str],
    known: Mapping[str, str],
    *,
    every_entity: bool,
) -> tuple[CatchUp, RunReports]:
    """Over `entities`, which are some of the `known`; with what it reports."""
    reports = RunReports(context.instance, warehouse, entities, context.run.run_id, with_columns=every_entity)
    applier = Applier(
        warehouse,
        lambda: spark.spark_session,
        org.privacy,
        context.run.run_id,
        spark_is_lost=lambda: spark.is_lost,
        on_commit=reports.committed,
    )
    catch_up = CatchUp(
        warehouse,
        org,
        landing,
        entities,
        known,
        applier,
        reports,
        every_entity=every_entity,
        visibility_seconds=settings.visibility_seconds,
        describe_seconds=settings.describe_seconds,
    )
    return catch_up, reports
