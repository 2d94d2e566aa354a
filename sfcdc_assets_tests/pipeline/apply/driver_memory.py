"""What the driver holds while much is applied: `python -m sfcdc_assets_tests.pipeline.apply.driver_memory --times 8`.

One process makes warehouses: changes anywhere in a table, and a snapshot of it, once of a size and once of so many
times the size. Another one applies them, so that its memory is the driver's alone: rows are read and written by Spark's
Python workers. The kernel keeps the most that a process ever held; writing 5 to `clear_refs` begins a new count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import numpy as np
import pytest

from sfcdc_assets.apply.apply_changes import ToApply, apply_entity
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark.session import spark_session
from sfcdc_assets_tests.benchmarks.large_entity import CHANNEL, ENTITY, LargeEntity
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.pipeline.apply.large_transaction import measured, peaks_of_spark, status
from sfcdc_assets_tests.pipeline.fixtures import SPARK_OF_TESTS
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import without_spark
from sfcdc_assets_tests.run_contexts import run_on

FEW = 500
SECONDS = 1200
ONE_HEAP = {"MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""What is freed by one thread is used by the next: otherwise what is kept depends on which threads happened to work."""


@dataclass(frozen=True)
class Held:
    """What was applied, and megabytes: how much more than before the first of them the driver held at its most, and the
    most that its JVM had held by then; with the seconds that it took."""

    what: str
    rows: int
    changes: int
    driver_mb: float
    jvm_mb: float
    seconds: float


def run(rows: int, changes: int, times: int, folder: Path) -> list[Held]:
    """Figures of both sizes: changes, then the snapshot, each of them."""
    sizes = [FEW, rows, rows * times]
    made = [made_warehouses(folder / str(size), size, max(1, changes * size // rows)) for size in sizes]
    options = {name: value for name, value in os.environ.items() if not name.startswith(("SFCDC_", "DAGSTER_"))}
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name, "--apply", *map(str, made)],
        cwd=folder,
        env={**options, **SPARK_OF_TESTS, **ONE_HEAP, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return [Held(**each) for each in json.loads(done.stdout)]


def made_warehouses(folder: Path, rows: int, changes: int) -> Path:
    """Two of so many rows: one with changes to be applied, one with a snapshot of all rows. The folder."""
    dice = np.random.default_rng(rows)
    with pytest.MonkeyPatch.context() as patch:
        without_spark(patch, Random(rows))
        of = LargeEntity(Warehouse(str(folder / "changes")), None, rows)
        of.land(of.random_changes(of.anywhere(changes, dice), dice))
        again = LargeEntity(Warehouse(str(folder / "snapshot")), None, rows)
        again.snapshot_again()
    (folder / "size.json").write_text(json.dumps({"rows": rows, "changes": changes}))
    return folder


def applied(folders: Sequence[Path]) -> list[Held]:
    """The process that is watched. What the first folder has warms it up."""
    spark = spark_session(load_settings())

    def apply(folder: Path, what: str) -> None:
        warehouse = Warehouse(str(folder / what))
        report = apply_entity(run_on(warehouse, spark=lambda: spark), ToApply(ENTITY, CHANNEL))
        assert report.key_ranges_written, report

    warm_up, *measured_ones = folders
    for what in ("changes", "snapshot"):
        apply(warm_up, what)
    before, found = status("self", "VmRSS"), []
    for folder in measured_ones:
        size = json.loads((folder / "size.json").read_text())
        for what in ("changes", "snapshot"):
            peak, seconds = measured(lambda folder=folder, what=what: apply(folder, what))  # type: ignore[misc]
            found.append(Held(what, size["rows"], size["changes"], peak - before, peaks_of_spark()[0], seconds))
    spark.stop()
    return found


def main() -> None:
    """Read the command line, run, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=250_000, help="of 30 columns")
    parser.add_argument("--changes", type=int, default=50_000, help="of records anywhere among them")
    parser.add_argument("--times", type=int, default=8, help="how much larger the second size is")
    parser.add_argument("--apply", type=Path, nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.apply:
        print(json.dumps([asdict(each) for each in applied(given.apply)]))
        return
    with tempfile.TemporaryDirectory(prefix="driver-memory-") as folder:
        for each in run(given.rows, given.changes, given.times, Path(folder)):
            print(
                f"{each.what:9} {each.rows:10,} rows {each.changes:8,} changes  driver {each.driver_mb:7.1f} MB  "
                f"JVM {each.jvm_mb:6.0f} MB  {each.seconds:6.1f} s"
            )


if __name__ == "__main__":
    main()
