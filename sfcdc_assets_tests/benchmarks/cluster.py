"""The same work on a standalone cluster of this machine: by one worker of one core, and by two of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import numpy as np
import pytest
from pyspark.sql import SparkSession

from sfcdc_assets.apply.ready_spark import ready_spark
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.benchmarks.interleave import interleaved, wall_seconds
from sfcdc_assets_tests.benchmarks.large_entity import LargeEntity
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage
from sfcdc_assets_tests.benchmarks.table_contents import checksums
from sfcdc_assets_tests.environment import without_settings
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import without_spark
from sfcdc_assets_tests.pipeline.spark.spark_cluster import SparkCluster, spark_cluster

ROUNDS = 2
ONE, TWO = "one worker", "two workers"


def measure(quick: bool) -> Sequence[Figure]:
    """Changes anywhere in a table, then a snapshot of all of it; who works on it changes from trial to trial."""
    rows, count = (20_000, 2_000) if quick else (2_000_000, 50_000)
    dice = np.random.default_rng(21)
    with tempfile.TemporaryDirectory() as folder, spark_cluster(Path(folder) / "spark") as cluster:
        of = _made(Path(folder) / "warehouse", rows)
        found = {
            what: interleaved(
                {
                    ONE: lambda work=work: _by(cluster, of, 1, work),  # type: ignore[misc]
                    TWO: lambda work=work: _by(cluster, of, 2, work),  # type: ignore[misc]
                },
                rounds=1 if quick else ROUNDS,
            )
            for what, work in (
                (f"{count:,} changes anywhere in {rows:,} rows", lambda spark: _changes(of, spark, count, dice)),
                (f"A snapshot of {rows:,} rows", lambda spark: _snapshot(of, spark)),
            )
        }
    return [
        Figure(f"{what}, {TWO}", "s", seconds[TWO], {ONE: seconds[ONE]}, Goal(0.7, of=ONE))
        for what, seconds in found.items()
    ]


def _made(folder: Path, rows: int) -> LargeEntity:
    with pytest.MonkeyPatch.context() as patch:
        without_spark(patch, Random(21))
        return LargeEntity(Warehouse(str(folder)), None, rows)


def _by(cluster: SparkCluster, of: LargeEntity, cores: int, work: Callable[[SparkSession], float]) -> float:
    """Seconds of the work, of an application that has so many of the workers' cores and has applied a little before."""
    with _session(cluster, of, cores) as spark:
        dice = np.random.default_rng(of.rows)
        of.land(of.random_changes(of.anywhere(200, dice), dice))
        of.apply(spark)
        of.clean()
        return work(spark)


@contextmanager
def _session(cluster: SparkCluster, of: LargeEntity, cores: int) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        without_settings(patch)
        own = {"SFCDC_WAREHOUSE": of.warehouse.root, "SFCDC_SPARK_CONF_spark.cores.max": str(cores)}
        more = {"SFCDC_SPARK_CONF_spark.sql.shuffle.partitions": "6"}
        for name, value in {**cluster.environment, **own, **more}.items():
            patch.setenv(name, value)
        spark = ready_spark(load_settings())
        try:
            yield spark
        finally:
            spark.stop()


def _changes(of: LargeEntity, spark: SparkSession, count: int, dice: np.random.Generator) -> float:
    changes = of.random_changes(of.anywhere(count, dice), dice)
    rows, _ = of.expected(changes)
    expected = checksums(rows, of.names)
    of.land(changes)
    seconds = wall_seconds(lambda: of.apply(spark))()
    of.check(expected, checksums(of.current_rows(), of.names))
    of.clean()
    return seconds


def _snapshot(of: LargeEntity, spark: SparkSession) -> float:
    expected = checksums(of.current_rows(), of.names)
    of.snapshot_again()
    seconds = wall_seconds(lambda: of.apply(spark))()
    of.check(expected, checksums(of.current_rows(), of.names))
    of.clean()
    return seconds


STAGE = Stage(
    "A cluster of two workers on one machine",
    measure,
    "Every field of every current row with what the events and the snapshot say.",
    "Two cores for the workers, the driver and the master together; there were no more machines. The driver plans and "
    "commits alone, Spark plans the second half of a batch when the first one is done, and each worker's JVM has to "
    "load and compile the same code.",
)
