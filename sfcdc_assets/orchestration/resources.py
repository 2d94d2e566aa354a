"""The org, the warehouse and Spark as Dagster resources."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field, PrivateAttr

from sfcdc_assets.apply.ready_spark import ready_spark
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.open_org import connect_for
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_connection.run_context import OrgRunContext, no_spark
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark.session import is_lost, is_shared, release


class OrgResource(dg.ConfigurableResource[None]):
    """The org of the SFCDC_* settings. It has no configuration of its own, so no secret can be shown in the UI."""

    @contextmanager
    def connect(self, warehouse: Warehouse) -> Iterator[OrgConnection]:
        """Open a session for work on the warehouse, closed at the end. Raises `WrongOrganization`."""
        with connect_for(warehouse, load_settings()) as org:
            yield org


class LakeResource(dg.ConfigurableResource[None]):
    """The tables below SFCDC_WAREHOUSE. Settings are read when a run or tick begins, never at import."""

    def warehouse(self) -> Warehouse:
        """Return the warehouse; raises `WarehouseNotWritable` before anything else is done."""
        warehouse = Warehouse(load_settings().warehouse)
        warehouse.check_writable()
        return warehouse


class SparkResource(LazyPySparkResource):  # type: ignore[misc]
    """The run's session, had when a step first uses it: of the standing Spark if there is one, else the process's own,
    with the options of SFCDC_SPARK_*.

    No sensor takes this resource: it would start a JVM in the code server.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)
    _spark_session: Any = PrivateAttr(default=None)

    def _init_session(self) -> None:
        was_lost = self.is_lost
        if self._spark_session is None or was_lost:
            self._spark_session = ready_spark(load_settings())
            if was_lost:
                another = "a standing one" if is_shared(self._spark_session) else "one of its own"
                said = "The Spark of this run has ended. The run goes on with %s; what was committed stays."
                dg.get_dagster_logger().warning(said, another)

    @property
    def is_lost(self) -> bool:
        """Whether the session that was had is gone with its server; the next use has another one."""
        return self._spark_session is not None and is_lost(self._spark_session)

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:  # noqa: ARG002 - its form
        """Give back what a standing Spark keeps for the run. A Spark of our own serves the process's next run too."""
        session, self._spark_session = self._spark_session, None
        if session is not None:
            release(session)


@contextmanager
def opened_run(
    run_id: str, lake: LakeResource, org: OrgResource, spark: SparkResource | None = None
) -> Iterator[OrgRunContext]:
    """Open the org for a run's work on the warehouse, closed at the end. Raises what the two resources raise."""
    warehouse, settings = lake.warehouse(), load_settings()
    with org.connect(warehouse) as connected:
        yield OrgRunContext(
            warehouse=warehouse,
            settings=settings,
            run_id=run_id,
            spark=(lambda: spark.spark_session) if spark is not None else no_spark,
            spark_is_lost=lambda: spark is not None and spark.is_lost,
            org=connected,
        )
