"""The Spark of the process of the tests: one at a time, which files that run one after another share.

A process has one regular session, and PySpark gives it to whoever asks next: with the master that it was started with,
and a client of Spark Connect is refused beside it. So a test that needs another kind ends it first, and who comes later
starts one again; nobody keeps a session longer than a module's tests.
"""

from __future__ import annotations

from pyspark import SparkContext
from pyspark.sql import SparkSession

from sfcdc_assets.spark.session import forget_ended
from sfcdc_assets_tests.eventually import BOUND_SECONDS


def end_spark() -> None:
    """End this process's session, whichever thread it is active in and whoever started it, and its JVM, which keeps the
    secret of a local master that a cluster does not have."""
    forget_ended()
    session, context = SparkSession._instantiatedSession, SparkContext._active_spark_context
    if session is not None:
        session.stop()
    elif context is not None:
        context.stop()
    if SparkContext._gateway is not None:
        SparkContext._gateway.shutdown()
        SparkContext._gateway.proc.stdin.close()  # which ends it
        SparkContext._gateway.proc.wait(BOUND_SECONDS)
        SparkContext._gateway = SparkContext._jvm = None
