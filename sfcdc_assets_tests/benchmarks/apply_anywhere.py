"""100,000 changes of records anywhere in a table of 8 million rows: every file is written again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfcdc_assets_tests.benchmarks.against_merge import BEST, DEFAULT, Rivals, entity, session
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage

ROUNDS = 2


def measure(quick: bool) -> Sequence[Figure]:
    """Rounds of ours and both pairs, after one with few changes that warms up."""
    rows, count = (20_000, 500) if quick else (8_000_000, 100_000)
    dice = np.random.default_rng(11)
    seconds: dict[str, list[float]] = {name: [] for name in ("ours", BEST, DEFAULT)}
    written: dict[str, list[float]] = {name: [] for name in ("ours", BEST, DEFAULT)}
    with session() as spark, entity(spark, rows) as (of, folder):
        rivals = Rivals(of, folder)
        rivals.add_default()
        rivals.round(of.random_changes(of.recent(100, dice), dice), 0)
        for number in range(1 if quick else ROUNDS):
            changes = of.random_changes(of.anywhere(count, dice), dice)
            took, size = rivals.round(changes, number)
            for name, value in took.items():
                seconds[name].append(value)
                written[name].append(size[name] / 1e6)
        rivals.compare()
    best = min((BEST, DEFAULT), key=lambda name: sorted(seconds[name])[0])
    case = f"{count:,} changes anywhere in {rows:,} rows"
    return [
        Figure(case, "s", seconds["ours"], {n: seconds[n] for n in (BEST, DEFAULT)}, Goal(1.5, of=best)),
        Figure(case, "MB written", written["ours"], {n: written[n] for n in (BEST, DEFAULT)}, Goal(1.2, of=best)),
    ]


STAGE = Stage(
    "Apply changes of records anywhere, with history",
    measure,
    "Every field of every current row, and of every version that ended, between our tables and both pairs'.",
    "Reading and encoding every file of the table: a change in 80 rows is one in each row group and column.",
)
