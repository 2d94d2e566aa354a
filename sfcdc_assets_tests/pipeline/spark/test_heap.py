"""What the Java process of a Spark holds: what is in use, and not what once was."""

from __future__ import annotations

import gc

from pyspark.sql import SparkSession

MB = 1024 * 1024


def test_java_gives_back_memory_that_a_large_job_has_left(spark: SparkSession) -> None:
    jvm = spark._jvm
    gateway = spark.sparkContext._gateway
    assert jvm is not None
    assert gateway is not None
    used = gateway.new_array(jvm.long, 50 * MB)
    assert jvm.java.lang.Runtime.getRuntime().totalMemory() > 400 * MB

    del used
    gc.collect()  # Java lets go of what no object of Python's stands for, once its threads have another answer to give
    for _ in range(2):
        jvm.System.gc()

    assert jvm.java.lang.Runtime.getRuntime().totalMemory() < 250 * MB


def test_spark_has_what_lies_around_collected_though_nothing_is_done_in_it(spark: SparkSession) -> None:
    assert spark.conf.get("spark.cleaner.periodicGC.interval") == "5min"
