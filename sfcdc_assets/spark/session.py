"""The one Spark session of a process and its settings: of a server that is there, or of a Spark of its own."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from sfcdc_assets.config import Settings
from sfcdc_assets.spark import standing
from sfcdc_assets.spark.class_archive import Recording, with_archive
from sfcdc_assets.spark.java import check_java
from sfcdc_assets.spark.jvm import launch
from sfcdc_assets.spark.remote_session import remote_session

_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Data is in the Python workers and most JVMs live for seconds, so their start counts (docs/storage-layout.md, "Spark
settings")."""

_starting = threading.Lock()
"""One thread starts the JVM; others that ask meanwhile get its session."""


def spark_options(settings: Settings) -> dict[str, str]:
    """Options of the session: those measured to matter (docs/storage-layout.md, "Spark settings"), then
    SFCDC_SPARK_CONF_*."""
    options = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(3 * (os.cpu_count() or 2)),
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    }
    if settings.spark_remote:
        return {**options, **settings.spark_conf, "spark.remote": settings.spark_remote}
    options |= {
        "spark.app.name": "sfcdc_assets",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.python.worker.reuse": "true",
        "spark.driver.memory": "1g",
        "spark.master": settings.spark_master,
        "spark.python.daemon.module": "sfcdc_assets.spark.worker_daemon",
    }
    if settings.spark_master.startswith("local"):
        options["spark.driver.host"] = "127.0.0.1"
        options["spark.driver.bindAddress"] = "127.0.0.1"
        quiet = Path(__file__).with_name("log4j2.properties").as_uri()
        options["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={quiet} {_QUICK_JVM}"
    return {**options, **settings.spark_conf}


def spark_session(settings: Settings) -> SparkSession:
    """A session: on the Spark Connect server of SFCDC_SPARK_REMOTE, else on the standing Spark of
    SFCDC_SPARK_STANDING if it is there, else the process's own, started on first use (a JVM; seconds).

    Raises `JavaMissing` before anything is started, and `SettingsError`.
    """
    options = spark_options(settings)
    if settings.spark_remote:
        return remote_session(options)
    found = standing.find(settings.spark_standing, options)
    return (_shared(found) if found is not None else None) or own_session(options)


def is_shared(session: SparkSession) -> bool:
    """Whether it is one of a standing Spark."""
    return hasattr(session, "is_lost")


def is_lost(session: SparkSession) -> bool:
    """Whether it was one of a standing Spark that is gone."""
    return bool(getattr(session, "is_lost", False))


def release(session: SparkSession) -> None:
    """Give back what a standing Spark keeps for the session; a Spark of this process stays for its next use."""
    if is_shared(session) and not is_lost(session):
        session.stop()


def _shared(found: standing.StandingSpark) -> SparkSession | None:
    from sfcdc_assets.spark.shared_session import connect  # noqa: PLC0415 - pandas and gRPC, for who uses them

    return connect(found)


def own_session(options: dict[str, str], recording: Recording | None = None) -> SparkSession:
    """The session of a Spark that this process starts, or has started before. Raises `JavaMissing`.

    `recording`: of the classes that it loads, in place of the archive of those that an earlier one has."""
    check_java()
    # Workers must find our packages: they run the interpreter that runs us, not the first python3 on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Of the JVM that only works out the command line of the other one.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _QUICK_JVM)
    options = with_archive(options) if recording is None else recording.options(options)
    with _starting:
        return _built(options) if SparkContext._gateway is not None else _started(options)


def _started(options: dict[str, str]) -> SparkSession:
    """With a JVM whose messages are kept from the terminal while it starts."""
    conf = SparkConf().setAll(list(options.items()))
    gateway, messages = launch(conf)
    try:
        SparkContext(conf=conf, gateway=gateway)
        session = _built(options)
    except BaseException:
        messages.has_failed()
        raise
    messages.has_started()
    return session


def _built(options: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder
    for option, value in options.items():
        builder = builder.config(option, value)
    return builder.getOrCreate()
