"""10,000 changes among the newest records, of a table of 8 million rows and of one of half a million."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfcdc_assets_tests.benchmarks.against_merge import BEST, DEFAULT, Rivals, entity, session
from sfcdc_assets_tests.benchmarks.interleave import wall_seconds
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage

WARM_UP, ROUNDS = 3, 5


def measure(quick: bool) -> Sequence[Figure]:
    """Rounds with both sizes and the pair; the default pair takes part in the last one alone."""
    large, small, count = (20_000, 5_000, 500) if quick else (8_000_000, 500_000, 10_000)
    rounds = 1 if quick else ROUNDS
    dice = np.random.default_rng(10)
    seconds: dict[str, list[float]] = {name: [] for name in ("ours", BEST, DEFAULT, "small")}
    written: dict[str, list[float]] = {name: [] for name in ("ours", BEST, DEFAULT)}
    with session() as spark, entity(spark, large) as (of, folder), entity(spark, small) as (other, _):
        rivals = Rivals(of, folder)
        for number in range(-1 if quick else -WARM_UP, rounds):
            if number == rounds - 1:
                rivals.add_default()
            other.land(other.random_changes(other.recent(count, dice), dice))
            took, size = rivals.round(of.random_changes(of.recent(count, dice), dice), number)
            took["small"] = wall_seconds(other.apply)()
            if number >= 0:
                for name, value in took.items():
                    seconds[name].append(value)
                for name, bytes_ in size.items():
                    written[name].append(bytes_ / 1e6)
        rivals.compare()
    peers_seconds = {BEST: seconds[BEST], DEFAULT: seconds[DEFAULT]}
    case = f"{count:,} changes among the newest of {large:,} rows"
    return [
        Figure(case, "s", seconds["ours"], peers_seconds, Goal(1.0, of=BEST)),
        Figure(
            f"{case}, beside {small:,} rows",
            "s",
            seconds["ours"],
            {"ours, small": seconds["small"]},
            Goal(1.3, of="ours, small"),
        ),
        Figure(case, "MB written", written["ours"], {BEST: written[BEST], DEFAULT: written[DEFAULT]}),
    ]


STAGE = Stage(
    "Apply changes of recent records, with history",
    measure,
    "Every field of every current row, and of every version that ended, between our tables and both pairs'.",
    "Encoding the key-range file that holds the newest records, after half a second that a Spark job takes anyway.",
)
