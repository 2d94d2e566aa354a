"""A batch after 1,000 batches, each with versions of its own in `history`, beside a batch after 10."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from pyspark.sql import SparkSession

from sfcdc_assets_tests.benchmarks.against_merge import entity, session
from sfcdc_assets_tests.benchmarks.interleave import interleaved, wall_seconds
from sfcdc_assets_tests.benchmarks.large_entity import LargeEntity
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage
from sfcdc_assets_tests.benchmarks.table_contents import checksums
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import without_spark

OLD, YOUNG, EVENTS, ROUNDS = 1_000, 10, 20, 7


def measure(quick: bool) -> Sequence[Figure]:
    """Two entities that differ in their age; the batches that made them old went without Spark, to save its time."""
    old, new, rows = (12, 3, 300) if quick else (OLD, YOUNG, 2_000)
    dice = np.random.default_rng(14)
    with pytest.MonkeyPatch.context() as patch:
        without_spark(patch, Random(14))
        with entity(None, rows, 9) as (aged, _), entity(None, rows, 9) as (young, _):
            for of, batches in ((aged, old), (young, new)):
                for _ in range(batches):
                    of.land(of.random_changes(of.recent(EVENTS, dice, rows), dice))
                    of.apply()
            patch.undo()
            with session() as spark:
                for of in (aged, young) if quick else (aged, young, aged, young):
                    _batch(of, spark, dice)
                seconds = interleaved(
                    {"aged": lambda: _batch(aged, spark, dice), "young": lambda: _batch(young, spark, dice)},
                    rounds=1 if quick else ROUNDS,
                )
    case, peer = f"a batch of {EVENTS} events after {old:,} batches", f"after {new} batches"
    return [Figure(case, "s", seconds["aged"], {peer: seconds["young"]}, Goal(1.2, of=peer))]


def _batch(of: LargeEntity, spark: SparkSession, dice: np.random.Generator) -> float:
    """One batch, applied and compared; its seconds."""
    changes = of.random_changes(of.recent(EVENTS, dice, of.rows // 2), dice)
    rows, ended = of.expected(changes)
    expected = checksums(rows, of.names), checksums(ended, [*of.names, "_valid_to"])
    before = checksums(of.superseded(), [*of.names, "_valid_to"])
    of.land(changes)
    seconds = wall_seconds(lambda: of.apply(spark))()
    of.check(expected[0], checksums(of.current_rows(), of.names))
    after = checksums(of.superseded(), [*of.names, "_valid_to"])
    of.check(expected[1], {name: (after[name] - before[name]) % 2**64 for name in after})
    return seconds


STAGE = Stage(
    "Apply a batch to a table that had a thousand",
    measure,
    "Every field of every current row, and of every version that the batch ended, with what the events say.",
    "Half a second that a Spark job takes; nothing of it grows with `history`, which is only appended to.",
)
