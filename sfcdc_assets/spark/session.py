"""The one Spark session and its settings."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from sfcdc_assets.config import Settings
from sfcdc_assets.spark.java import check_java


def spark_options(settings: Settings) -> dict[str, str]:
    """Options of the session: those measured to matter (docs/storage-layout.md, "Spark settings"), then
    SFCDC_SPARK_CONF_*."""
    options = {
        "spark.app.name": "sfcdc_assets",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(3 * (os.cpu_count() or 2)),
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        "spark.python.worker.reuse": "true",
        "spark.driver.memory": "1g",
    }
    if settings.spark_remote:
        options["spark.remote"] = settings.spark_remote
    else:
        options["spark.master"] = settings.spark_master
        if settings.spark_master.startswith("local"):
            options["spark.driver.host"] = "127.0.0.1"
            options["spark.driver.bindAddress"] = "127.0.0.1"
            quiet = Path(__file__).with_name("log4j2.properties").as_uri()
            options["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={quiet}"
    return {**options, **settings.spark_conf}


def spark_session(settings: Settings) -> SparkSession:
    """The process's session, started on first use (a JVM; seconds). Raises `JavaMissing` before anything is started."""
    if not settings.spark_remote:
        check_java()
        # Workers must find our packages: they run the interpreter that runs us, not the first python3 on PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    for option, value in spark_options(settings).items():
        builder = builder.config(option, value)
    return builder.getOrCreate()
