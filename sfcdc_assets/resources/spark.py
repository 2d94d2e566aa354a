"""The Spark session as a Dagster resource."""

from typing import Any

from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from sfcdc_assets.config import load_settings
from sfcdc_assets.spark.session import spark_session


class SparkResource(LazyPySparkResource):
    """The process's one session, started when a step first uses it, with the options of SFCDC_SPARK_*.

    No sensor takes this resource: it would start a JVM in the code server.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)

    def _init_session(self) -> None:
        # `getOrCreate`: a second call gives the same session.
        self._spark_session = spark_session(load_settings())
