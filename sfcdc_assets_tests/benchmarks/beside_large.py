"""Small entities beside one with an enormous transaction: when they are committed, and when they are without it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from sfcdc_assets.apply.apply_changes import Applier, ToApply
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.benchmarks.against_merge import session
from sfcdc_assets_tests.benchmarks.interleave import interleaved
from sfcdc_assets_tests.benchmarks.large_entity import CHANNEL, ENTITY, LargeEntity
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer
from sfcdc_assets_tests.benchmarks.table_contents import checksums
from sfcdc_assets_tests.pipeline.apply.many_entities import Entities
from sfcdc_assets_tests.run_contexts import run_on

SMALL, RECORDS, ROUNDS = 20, 200, 3


class _Both:
    """A warehouse with both, whose events lie in one channel."""

    def __init__(self, folder: Path, spark: SparkSession, rows: int) -> None:
        self._spark = spark
        self.warehouse = Warehouse(str(folder / "warehouse"))
        self.large = LargeEntity(self.warehouse, spark, rows)
        self.small = Entities(self.warehouse, [f"Small{number:02}__c" for number in range(SMALL)], RECORDS)
        self.small.day_zero()
        self.wait_for_small(0)

    def wait_for_small(self, changes: int) -> float:
        """Land 20 events of each small entity, after so many changes of the large one; seconds until the small ones are
        committed. At the end all are."""
        dice = np.random.default_rng(self.small.position)
        self.large.position = self.small.position
        self.large.land(self.large.random_changes(self.large.anywhere(changes, dice), dice))
        self.small.position = self.large.position
        self.small.land(1)
        wanted = {name: ToApply(name, CHANNEL) for name in (ENTITY, *self.small.names)}
        applier = Applier(run_on(self.warehouse, spark=lambda: self._spark))
        begun, seconds, left = time.perf_counter(), 0.0, set(self.small.names)
        for entity, prepared in applier.prepare(list(wanted.values())).items():
            applier.commit(wanted[entity], prepared)
            left.discard(entity)
            if not left and not seconds:
                seconds = time.perf_counter() - begun
        self.large.clean()
        return seconds


def measure(quick: bool) -> Sequence[Figure]:
    """With and without the large one, in turn."""
    rows, count = (5_000, 500) if quick else (2_000_000, 100_000)
    with session() as spark, tempfile.TemporaryDirectory() as folder:
        of = _Both(Path(folder), spark, rows)
        of.wait_for_small(count // 100)
        found = interleaved(
            {"beside": lambda: of.wait_for_small(count), "alone": lambda: of.wait_for_small(0)},
            rounds=1 if quick else ROUNDS,
        )
        if wrong := of.small.differences():
            raise WrongAnswer(", ".join(wrong))
        if checksums(of.large.current_rows(), of.large.names[:1])["rows"] != rows:
            raise WrongAnswer(f"{ENTITY} has not {rows:,} rows")
    case = f"{SMALL} entities are committed, beside one with {count:,} changes anywhere in {rows:,} rows"
    return [Figure(case, "s", found["beside"], {"alone": found["alone"]}, Goal(2.0, of="alone"))]


STAGE = Stage(
    "Small entities beside an enormous transaction",
    measure,
    "Every row of the small entities with what the events say, and the number of rows of the large one.",
    "The headers of the large one's events are read before anything is applied.",
)
