"""What the driver holds does not grow with the rows and the changes that are applied."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfcdc_assets_tests.pipeline.apply.driver_memory import run

ROWS, CHANGES, TIMES = 25_000, 10_000, 8
MOST_MB = 45
"""What 80,000 changes and 200,000 rows of 30 columns may take more than an eighth of them: half a kilobyte for each
change's header, and a quarter of that for what an allocator keeps. With one heap it is 35 to 36, however busy the
machine."""


@pytest.mark.soak
def test_eight_times_the_rows_and_changes_take_hardly_more_memory_of_the_driver(tmp_path: Path) -> None:
    found = {(each.what, each.rows): each for each in run(ROWS, CHANGES, TIMES, tmp_path)}
    print(*found.values(), sep="\n")
    for what in ("changes", "snapshot"):
        few, many = found[what, ROWS], found[what, ROWS * TIMES]
        assert many.changes == few.changes * TIMES
        assert many.driver_mb - few.driver_mb < MOST_MB
