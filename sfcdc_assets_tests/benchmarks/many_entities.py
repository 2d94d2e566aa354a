"""A batch that touches many entities, 20 events each: seconds of one run over all of them, in a Spark that stands."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark.session import spark_session
from sfcdc_assets_tests.benchmarks.interleave import interleaved, wall_seconds
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer
from sfcdc_assets_tests.pipeline.apply.many_entities import Entities, catch_up
from sfcdc_assets_tests.pipeline.spark.spark_cluster import spark_cluster

RECORDS = 200
COMMITS = 2


def measure(quick: bool) -> Sequence[Figure]:
    """1 and 10 entities in turn, then 100 and 500; 100 on a cluster. In an object store: the stage `object_store`."""
    spark = spark_session(load_settings())
    try:
        with tempfile.TemporaryDirectory() as folder:
            of = {count: ready(f"{folder}/{count}", spark, count) for count in ((1, 3) if quick else (1, 10, 100, 500))}
            few, many = (dict(list(of.items())[:2]), dict(list(of.items())[2:]))
            rounds = 1 if quick else 3
            found = interleaved({str(count): _run(each, spark) for count, each in few.items()}, rounds=rounds)
            found |= interleaved({str(count): _run(each, spark) for count, each in many.items()}, rounds=rounds)
            for each in of.values():
                if wrong := each.differences():
                    raise WrongAnswer(", ".join(wrong))
    finally:
        spark.stop()
    one, ten = "one entity", [str(count) for count in few][1]
    figures = [Figure(f"{ten} entities", "s", found[ten], {one: found["1"]}, Goal(1.5, of=one))]
    if not quick:
        each_of_100, each_of_500 = ([s * 1000 / n for s in found[str(n)]] for n in (100, 500))
        figures.append(Figure("100 entities", "s", found["100"], goal=Goal(2.5)))
        figures.append(
            Figure("500 entities, for each", "ms", each_of_500, {"of 100": each_of_100}, Goal(1.0, of="of 100"))
        )
    count = 3 if quick else 100
    by_cluster = _seconds_by_a_cluster(count, rounds)
    return [*figures, Figure(f"{count} entities, by a cluster of two workers", "s", by_cluster, goal=Goal(15))]


def _seconds_by_a_cluster(count: int, rounds: int) -> list[float]:
    """The warehouse is in a folder that a standalone cluster shares."""
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
        spark_cluster(Path(folder) / "cluster") as cluster,
    ):
        for name, value in cluster.environment.items():
            patch.setenv(name, value)
        # The JVM of this process began as a local Spark's, which authenticates; the cluster of the tests does not.
        patch.setenv("SFCDC_SPARK_CONF_spark.authenticate", "false")
        spark = spark_session(load_settings())
        try:
            of = ready(f"{folder}/warehouse", spark, count)
            found = [_run(of, spark)() for _ in range(rounds)]
            if wrong := of.differences():
                raise WrongAnswer(", ".join(wrong))
        finally:
            spark.stop()
    return found


def ready(root: str, spark: SparkSession, count: int) -> Entities:
    """Entities that are up to date, after a first batch."""
    names = [f"Entity{number:04}__c" for number in range(count)]
    of = Entities(Warehouse(root), names, RECORDS)
    of.day_zero()
    catch_up(of, spark)
    of.land(COMMITS)
    catch_up(of, spark)
    return of


def _run(of: Entities, spark: SparkSession) -> Callable[[], float]:
    """A trial: events land, and the run that applies them is measured."""

    def trial() -> float:
        of.land(COMMITS)
        return wall_seconds(lambda: catch_up(of, spark))()

    return trial


STAGE = Stage(
    "Many entities",
    measure,
    "Every row with what the events say, and the number of superseded versions, of every entity.",
    "The tasks: each entity's key range is worked out by some 110 small Polars queries from a hundred places, about 50 "
    "CPU ms beside 30 of the driver (plan, three commits). One entity pays for the start of a job and little else; ten "
    "have ten times its work, which two cores share, so 1.5 times one would take five times as many cores.",
)
