"""The Spark session as a Dagster resource."""

from typing import Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field, PrivateAttr

from sfcdc_assets.config import load_settings
from sfcdc_assets.pipeline.ready_spark import ready_spark
from sfcdc_assets.spark.session import is_lost, release


class SparkResource(LazyPySparkResource):
    """The run's session, had when a step first uses it: of the standing Spark if there is one, else the process's own,
    with the options of SFCDC_SPARK_*.

    No sensor takes this resource: it would start a JVM in the code server.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)
    _spark_session: Any = PrivateAttr(default=None)

    def _init_session(self) -> None:
        if self._spark_session is None or is_lost(self._spark_session):
            self._spark_session = ready_spark(load_settings())

    @property
    def is_lost(self) -> bool:
        """Whether the session that was had is gone with its server; the next use has another one."""
        return self._spark_session is not None and is_lost(self._spark_session)

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Give back what a standing Spark keeps for the run. A Spark of our own serves the process's next run too."""
        session, self._spark_session = self._spark_session, None
        if session is not None:
            release(session)
