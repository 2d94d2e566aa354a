"""A job of the form that applies events, over nothing: to warm a Spark up, or to record the classes that it loads."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.spark.class_archive import NoClassArchive, Recording
from sfcdc_assets.spark.session import own_session, spark_options

_END_SECONDS = 120.0
"""Writing 160 MB of classes takes some seconds; a slow disk may take longer."""


def warm_up(session: SparkSession) -> None:
    """Run it: the JVM's code is loaded and the daemon of the Python workers started when the first batch comes."""

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    def also_the_same(group: pa.Table) -> pa.Table:
        return group

    rows = session.createDataFrame(pa.table({"key": [0]})).mapInArrow(same, "key long")
    rows.repartition(1, "key").groupBy("key").applyInArrow(also_the_same, "key long").toArrow()


def prepare(settings: Settings) -> Path:
    """Start a Spark, run a job of the form of ours, and keep the archive of its classes; the archive's path.

    For a process that has no Spark yet. Raises `JavaMissing`, and `NoClassArchive` when it could not be made.
    """
    recording = Recording()
    session = own_session({**spark_options(settings), "spark.master": "local[2]"}, recording)
    jvm = session.sparkContext._gateway.proc
    for _ in range(2):
        warm_up(session)
    session.stop()
    jvm.stdin.close()  # what PySpark's JVM ends upon
    try:
        return recording.keep(jvm.wait(_END_SECONDS))
    except subprocess.TimeoutExpired as error:
        jvm.kill()
        raise NoClassArchive(recording.path, f"Java was not done after {_END_SECONDS:.0f} s") from error
