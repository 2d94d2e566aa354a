"""A batch that touches many entities whose tables lie in an object store: SeaweedFS, which answers many requests at
once, at once and after 20 ms, as a store in a cloud does; and moto, which is Python and answers one after another."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark.session import spark_session
from sfcdc_assets_tests.benchmarks.interleave import wall_seconds
from sfcdc_assets_tests.benchmarks.many_entities import COMMITS, ready
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer
from sfcdc_assets_tests.pipeline.apply.many_entities import Entities, catch_up
from sfcdc_assets_tests.pipeline.stores.s3_proxy import answer_after, s3_proxy
from sfcdc_assets_tests.pipeline.stores.s3_server import BUCKET, S3Server, s3_server
from sfcdc_assets_tests.pipeline.stores.seaweedfs import seaweedfs

MILLISECONDS = 20
"""That a request takes from a machine in the region of a cloud's store, or more."""


def measure(quick: bool) -> Sequence[Figure]:
    """A run over 100 entities, of 100 and of 500."""
    few, many, rounds = (3, 5, 1) if quick else (100, 500, 3)
    figures = []
    with tempfile.TemporaryDirectory() as folder, seaweedfs(Path(folder)) as store, s3_proxy(store) as proxy:
        for known in (few, many):
            found = _seconds(proxy, known, few, {"": 0, f", {MILLISECONDS} ms a request": MILLISECONDS}, rounds)
            figures += [
                Figure(f"{few} of {known} entities{after}", "s", seconds, goal=Goal(10))
                for after, seconds in found.items()
            ]
    with s3_server() as moto, s3_proxy(moto) as proxy:
        (seconds,) = _seconds(proxy, few, few, {"": 0}, rounds).values()
    return [*figures, Figure(f"{few} of {few} entities, moto", "s", seconds)]


def _seconds(proxy: S3Server, known: int, touched: int, waits: dict[str, int], rounds: int) -> dict[str, list[float]]:
    """Of runs over so many entities, by how long the store waits before it answers."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in proxy.environment.items():
            patch.setenv(name, value)
        spark = spark_session(load_settings())
        try:
            of = ready(f"s3://{BUCKET}/of{known}", spark, known)
            found = {
                name: [_run(of, spark, proxy, touched, wait) for _ in range(rounds)] for name, wait in waits.items()
            }
            if wrong := of.differences():
                raise WrongAnswer(", ".join(wrong))
        finally:
            spark.stop()
    return found


def _run(of: Entities, spark: SparkSession, proxy: S3Server, touched: int, milliseconds: int) -> float:
    names, of.names = of.names, of.names[:touched]
    of.land(COMMITS)
    of.names = names
    answer_after(proxy, milliseconds)
    seconds = wall_seconds(lambda: catch_up(of, spark))()
    answer_after(proxy, 0)
    return seconds


STAGE = Stage(
    "Many entities in an object store",
    measure,
    "Every row with what the events say, and the number of superseded versions, of every entity.",
    "Some 85 requests an entity (docs/scaling.md), 24 of them one after another at its commits, of which delta-rs "
    "makes 15 in any case; the store, its proxy and the run share two cores.",
)
