"""Applying a batch to a large table, beside the MERGE pairs: what the stages of it have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pyarrow as pa
from pyspark.sql import SparkSession

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark.session import spark_session
from sfcdc_assets_tests.benchmarks.interleave import wall_seconds
from sfcdc_assets_tests.benchmarks.large_entity import Change, LargeEntity
from sfcdc_assets_tests.benchmarks.merge_pair import VALID_FROM, VALID_TO, MergePair, folded
from sfcdc_assets_tests.benchmarks.stage import WrongAnswer
from sfcdc_assets_tests.benchmarks.table_contents import bytes_in, checksums

Checksums = Mapping[str, Mapping[str, int]]
"""What is summed -> `rows` and each column -> the sum."""
BEST, DEFAULT = "MERGE pair, streamed_exec=False", "MERGE pair, default"


@contextmanager
def session() -> Iterator[SparkSession]:
    """A Spark session as runs have it."""
    spark = spark_session(load_settings())
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def entity(spark: SparkSession | None, rows: int, fields: int = 29) -> Iterator[tuple[LargeEntity, Path]]:
    """A large entity, and a folder beside its warehouse."""
    with TemporaryDirectory(prefix="benchmark.") as folder:
        yield LargeEntity(Warehouse(f"{folder}/warehouse"), spark, rows, fields), Path(folder)


class Rivals:
    """An entity and the pairs that get the same changes. The default one, which is slower, comes in when asked for."""

    def __init__(self, of: LargeEntity, folder: Path) -> None:
        self.of, self._folder = of, folder
        self.pairs = {BEST: MergePair.like(of, folder / "unstreamed", streamed=False)}

    def add_default(self) -> None:
        """From now on the default pair takes part, with the tables as they are."""
        self.pairs[DEFAULT] = self.pairs[BEST].twin(self._folder / "streamed", streamed=True)

    def round(self, changes: Sequence[Change], first: int) -> tuple[dict[str, float], dict[str, int]]:
        """Seconds and bytes of ours and of each pair; `first` says who begins."""
        merged = folded(self.of, changes, self.of.times_of(changes))
        self.of.land(changes)
        seconds: dict[str, float] = {}
        written: dict[str, int] = {}
        names = ["ours", *self.pairs]
        for name in [*names[first % len(names) :], *names[: first % len(names)]]:
            before = self._written(name)
            seconds[name] = wall_seconds(lambda name=name: self._apply(name, merged))()  # type: ignore[misc]
            written[name] = self._written(name) - before
        self.of.clean()
        for pair in self.pairs.values():
            pair.clean()
        return seconds, written

    def compare(self) -> None:
        """Raises `WrongAnswer` where a table of the pairs differs from ours in any row, field or version."""
        ended = self.of.superseded()
        expected = {
            "current rows": checksums(self.of.current_rows(), [*self.of.names, VALID_FROM]),
            "ended versions": checksums(ended, [*self.of.names, VALID_FROM, VALID_TO]),
        }
        for name, pair in self.pairs.items():
            is_open = pl.col(VALID_TO).is_null()
            found = {
                "current rows": checksums(pair.current_rows(), [*self.of.names, VALID_FROM]),
                "ended versions": checksums(pair.versions().filter(~is_open), [*self.of.names, VALID_FROM, VALID_TO]),
            }
            differs(name, expected, found)
            still_open = pair.versions().filter(is_open).select(pl.len()).collect().item()
            if still_open != expected["current rows"]["rows"]:
                raise WrongAnswer(f"{name}: {still_open} open versions of {expected['current rows']['rows']} records")

    def _apply(self, name: str, merged: pa.Table) -> None:
        if name == "ours":
            self.of.apply()
        else:
            self.pairs[name].apply(merged)

    def _written(self, name: str) -> int:
        if name == "ours":
            return self.of.written()
        return sum(bytes_in(self.pairs[name].folder / table) for table in ("current", "history"))


def differs(name: str, expected: Checksums, found: Checksums) -> None:
    """Raises `WrongAnswer` that names what is not the same."""
    wrong = {f"{what}: {of}" for what, sums in expected.items() for of in sums if sums[of] != found[what][of]}
    if wrong:
        raise WrongAnswer(f"{name} differs in {', '.join(sorted(wrong))}")
