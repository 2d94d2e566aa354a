"""The session that batches are applied in: on a cluster, once its workers have shown that they can do their part."""

from __future__ import annotations

from pyspark.sql import SparkSession

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.spark.cluster import is_cluster
from sfcdc_assets.spark.session import is_shared, spark_session
from sfcdc_assets.spark.workers import check_workers

_CHECKED = "_sfcdc_workers_checked"


def ready_spark(settings: Settings) -> SparkSession:
    """Return the session of `spark_session`. Raises `WorkersNotReady` too: before anything is applied."""
    session = spark_session(settings)
    if is_cluster(settings) and not is_shared(session) and not getattr(session, _CHECKED, False):
        warehouse = Warehouse(settings.warehouse)
        warehouse.check_writable()
        check_workers(session, settings, warehouse.filesystem(""))
        setattr(session, _CHECKED, True)
    return session
