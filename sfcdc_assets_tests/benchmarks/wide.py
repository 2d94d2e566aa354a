"""Changes anywhere in a million rows of 400 columns, beside a million rows of 40: what a cell costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfcdc_assets_tests.benchmarks.against_merge import entity, session
from sfcdc_assets_tests.benchmarks.interleave import interleaved, wall_seconds
from sfcdc_assets_tests.benchmarks.large_entity import LargeEntity
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage
from sfcdc_assets_tests.benchmarks.table_contents import checksums

NARROW, WIDE = 40, 400
ROUNDS = 2


def measure(quick: bool) -> Sequence[Figure]:
    """Both tables in turn, the same number of changes; seconds for 100 million cells."""
    rows = 5_000 if quick else 1_000_000
    dice = np.random.default_rng(12)
    with session() as spark, entity(spark, rows, WIDE - 1) as (wide, _), entity(spark, rows, NARROW - 1) as (narrow, _):
        for of in (wide, narrow):
            of.land(of.random_changes(of.recent(50, dice), dice))
            of.apply()
        seconds = interleaved(
            {"wide": lambda: _batch(wide, WIDE, dice), "narrow": lambda: _batch(narrow, NARROW, dice)},
            rounds=1 if quick else ROUNDS,
        )
    case = f"{rows // 80:,} changes anywhere in {rows:,} rows of {WIDE} columns"
    peer = f"{NARROW} columns"
    return [Figure(case, "s a 100 million cells", seconds["wide"], {peer: seconds["narrow"]}, Goal(1.2, of=peer))]


def _batch(of: LargeEntity, columns: int, dice: np.random.Generator) -> float:
    """One batch, applied and compared; its seconds for 100 million cells."""
    changes = of.random_changes(of.anywhere(of.rows // 80, dice), dice)
    rows, ended = of.expected(changes)
    expected = checksums(rows, of.names), checksums(ended, [*of.names, "_valid_to"])
    before = checksums(of.superseded(), [*of.names, "_valid_to"])
    of.land(changes)
    seconds = wall_seconds(of.apply)()
    of.check(expected[0], checksums(of.current_rows(), of.names))
    after = checksums(of.superseded(), [*of.names, "_valid_to"])
    of.check(expected[1], {name: (after[name] - before[name]) % 2**64 for name in after})
    of.clean()
    return seconds / (of.rows * columns / 1e8)


STAGE = Stage(
    "Apply changes to a table of 400 columns",
    measure,
    "Every field of every current row, and of every version that ended, with what the events make of the rows before.",
    "Reading and encoding every cell of the files.",
)
