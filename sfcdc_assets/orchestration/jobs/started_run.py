"""What the first step of a run has before its work begins: its context, who lands, and the run's entities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import dagster as dg

from sfcdc_assets.entities.entities import entity_channels
from sfcdc_assets.landing.run_lander import Lander
from sfcdc_assets.orchestration.jobs.run_config import RunRequestConfig, add_partitions
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.resources import opened_run, scope_of, spark_of
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.salesforce.rest_deadline import UnansweredTime, unanswered_at_most

BEGINNING_SECONDS = 10.0
"""How long a run that applies what is landed waits in all for an org that answers no request."""


@dataclass(frozen=True)
class StartedRun:
    """`known`: every entity with its channel; `entities`: those of them that the run is about."""

    run: OrgRunContext
    landing: Lander
    known: Mapping[str, str]
    entities: Mapping[str, str]


@contextmanager
def started_run(assets: OrgAssets, context: dg.OpExecutionContext, config: RunRequestConfig) -> Iterator[StartedRun]:
    """Keep the session with the org and the subscription open for the steps that follow, unless the step in this block
    fails: then they are closed, and a retry opens its own. Raises `UnknownEntity`, and what connecting raises."""
    with scope_of(assets, context).kept_if_done() as opened:
        # Of what has landed, by a sensor or by `sfcdc sync`, nothing waits for an org that answers no request.
        is_in_a_hurry = config.landed_through_ms is not None and not config.for_seconds
        with unanswered_at_most(UnansweredTime(BEGINNING_SECONDS)) if is_in_a_hurry else nullcontext():
            run = opened.enter_context(opened_run(assets, context.run_id, spark_of(assets, context)))
            known = entity_channels(run.warehouse, run.settings.channels, run.settings.entities, run.org.members)
        landing = config.lander(run)
        opened.enter_context(landing)
        entities = config.of(known, run.settings)
        add_partitions(assets, context.instance, entities)
        yield StartedRun(run, landing, known, entities)
