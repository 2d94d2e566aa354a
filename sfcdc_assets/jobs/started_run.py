"""What the first step of a run has before its work begins: settings, org, who lands, and the run's entities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import dagster as dg

from sfcdc_assets.config import Settings, load_settings
from sfcdc_assets.jobs.request import RunRequestConfig, add_partitions
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.entities import entity_channels
from sfcdc_assets.pipeline.landing.lander import Lander
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.resources.lake import LakeResource
from sfcdc_assets.resources.org import OrgResource
from sfcdc_assets.resources.run_scope import RunScope


@dataclass(frozen=True)
class StartedRun:
    """`known`: every entity with its channel; `entities`: those of them that the run is about."""

    warehouse: Warehouse
    settings: Settings
    org: OrgConnection
    landing: Lander
    known: Mapping[str, str]
    entities: Mapping[str, str]


@contextmanager
def started_run(
    context: dg.OpExecutionContext,
    config: RunRequestConfig,
    lake: LakeResource,
    org: OrgResource,
    run_scope: RunScope,
) -> Iterator[StartedRun]:
    """The session with the org and the subscription stay open for the steps that follow, unless the step in this block
    fails: then they are closed, and a retry opens its own. Raises `UnknownEntity`, and what connecting raises."""
    warehouse, settings = lake.warehouse(), load_settings()
    with run_scope.kept_if_done() as opened:
        connected = opened.enter_context(org.connect(warehouse))
        landing = config.lander(warehouse, connected, settings, context.run_id)
        opened.enter_context(landing)
        known = entity_channels(warehouse, settings.channels, settings.entities, connected.members)
        entities = config.of(known, settings)
        add_partitions(context.instance, entities)
        yield StartedRun(warehouse, settings, connected, landing, known, entities)
