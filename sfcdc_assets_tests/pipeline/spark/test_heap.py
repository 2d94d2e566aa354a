"""What the Java process of a Spark holds: what is in use, and not what once was."""

from __future__ import annotations

import gc

from pyspark.sql import SparkSession

from sfcdc_assets_tests.eventually import eventually

MB = 1024 * 1024


def test_java_gives_back_memory_that_a_large_job_has_left(spark: SparkSession) -> None:
    jvm = spark._jvm
    gateway = spark.sparkContext._gateway
    assert jvm is not None
    assert gateway is not None
    memory = jvm.java.lang.Runtime.getRuntime()
    used = gateway.new_array(jvm.long, 50 * MB)
    assert memory.totalMemory() > 400 * MB

    del used
    gc.collect()

    def is_given_back() -> bool:
        jvm.System.gc()
        return bool(memory.totalMemory() < 250 * MB)

    eventually(is_given_back, "Java's heap to be small again")  # it hears of `used` a moment later


def test_spark_has_what_lies_around_collected_though_nothing_is_done_in_it(spark: SparkSession) -> None:
    assert spark.conf.get("spark.cleaner.periodicGC.interval") == "5min"
