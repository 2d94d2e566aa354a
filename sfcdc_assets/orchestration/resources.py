"""What a run has until it ends: Spark, and what its steps hand on. The org and the warehouse are opened by whoever
works with them (`OrgAssets`): they have no configuration, so that no secret can be shown in the UI."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field, PrivateAttr

from sfcdc_assets.apply.ready_spark import ready_spark
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.run_scope import RunScope
from sfcdc_assets.org_connection.run_context import OrgRunContext, no_spark
from sfcdc_assets.settings.settings import Settings, load_settings
from sfcdc_assets.spark.session import is_lost, is_shared, release

_Context = dg.OpExecutionContext | dg.AssetExecutionContext
_SPARK, _SCOPE = "spark", "run_scope"


class SparkResource(LazyPySparkResource):  # type: ignore[misc]
    """The run's session, had when a step first uses it: of the standing Spark if there is one, else the process's own,
    with the options of SFCDC_SPARK_*.

    No sensor takes this resource: it would start a JVM in the code server.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)
    _settings: Callable[[], Settings] | None = PrivateAttr(default=None)
    """Of the environment without any; no function is a default here, because pydantic makes a method of it."""
    _spark_session: Any = PrivateAttr(default=None)

    @classmethod
    def of(cls, settings: Callable[[], Settings]) -> SparkResource:
        """Return the resource of a run with these settings."""
        made = cls()
        made._settings = settings
        return made

    def _init_session(self) -> None:
        was_lost = self.is_lost
        if self._spark_session is None or was_lost:
            self._spark_session = ready_spark((self._settings or load_settings)())
            if was_lost:
                another = "a standing one" if is_shared(self._spark_session) else "one of its own"
                said = "The Spark of this run has ended. The run goes on with %s; what was committed stays."
                dg.get_dagster_logger().warning(said, another)

    @property
    def is_lost(self) -> bool:
        """Whether the session that was had is gone with its server; the next use has another one."""
        return self._spark_session is not None and is_lost(self._spark_session)

    def release(self) -> None:
        """Give back what a standing Spark keeps for the run. A Spark of our own serves the process's next run too."""
        session, self._spark_session = self._spark_session, None
        if session is not None:
            release(session)


def build_resources(assets: OrgAssets) -> Mapping[str, dg.ResourceDefinition]:
    """Build those of an org's runs, under names of its own."""

    def spark(_: dg.InitResourceContext) -> Iterator[SparkResource]:
        had = SparkResource.of(assets.settings)
        try:
            yield had
        finally:
            had.release()

    def run_scope(context: dg.InitResourceContext) -> Iterator[RunScope]:
        run_id = context.run.run_id if context.run is not None else None
        with RunScope.of_run(assets, run_id, context.log) as scope:
            yield scope

    return {
        assets.name(_SPARK): dg.ResourceDefinition(spark, description="The Spark of a run"),
        assets.name(_SCOPE): dg.ResourceDefinition(run_scope, description="What the steps of a run hand on"),
    }


def with_spark(assets: OrgAssets) -> set[str]:
    """Return the resources that a step with Spark requires."""
    return {assets.name(_SPARK)}


def with_scope(assets: OrgAssets) -> set[str]:
    """Return the resources that a step requires that hands on, or takes, values."""
    return {assets.name(_SCOPE)}


def with_both(assets: OrgAssets) -> set[str]:
    """Return the resources of a step that does both."""
    return with_spark(assets) | with_scope(assets)


def spark_of(assets: OrgAssets, context: _Context) -> SparkResource:
    """Return the run's Spark."""
    found: SparkResource = getattr(context.resources, assets.name(_SPARK))
    return found


def scope_of(assets: OrgAssets, context: _Context) -> RunScope:
    """Return what the steps of the run have in common."""
    found: RunScope = getattr(context.resources, assets.name(_SCOPE))
    return found


@contextmanager
def opened_run(assets: OrgAssets, run_id: str, spark: SparkResource | None = None) -> Iterator[OrgRunContext]:
    """Open the org for a run's work on the warehouse, closed at the end. Raises `WarehouseNotWritable` and what
    connecting raises."""
    warehouse, settings = assets.warehouse(), assets.settings()
    with assets.connect(warehouse) as connected:
        yield OrgRunContext(
            warehouse=warehouse,
            settings=settings,
            run_id=run_id,
            spark=(lambda: spark.spark_session) if spark is not None else no_spark,
            spark_is_lost=lambda: spark is not None and spark.is_lost,
            org=connected,
        )
