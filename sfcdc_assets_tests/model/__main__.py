"""Try the model's thorough slices, two at a time: `python -m sfcdc_assets_tests.model`. Prints a table of what was
tried; exit code 1 where a guarantee does not hold, and where all slices together, as large as they are by default, have
fewer than ten million states."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor

from sfcdc_assets_tests.model.checker import Found, check
from sfcdc_assets_tests.model.slices import MOST, THOROUGH

ENOUGH = 10_000_000
"""States in all."""


def _check(name: str, most: int) -> tuple[str, Found]:
    return name, check(THOROUGH[name], most=most)


def is_too_little(states: int, *, whole: bool) -> bool:
    """Return whether a run of every slice, as large as by default, has tried too few states."""
    return whole and states < ENOUGH


def main() -> int:
    """Read the command line, try, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=MOST, help="states of one slice")
    parser.add_argument("--slice", action="append", choices=THOROUGH, help="only this one")
    given = parser.parse_args()
    print(f"| {'slice':20} | {'states':>10} | {'steps':>10} | {'depth':>5} | {'CPU s':>6} | all of it |", flush=True)
    total, is_right = 0, True
    with ProcessPoolExecutor(2) as processes:
        for name, found in processes.map(_check, given.slice or THOROUGH, [given.most] * len(THOROUGH)):
            total += found.states
            whole = "yes" if found.is_whole else "no"
            print(
                f"| {name:20} | {found.states:>10,} | {found.steps:>10,} | {found.depth:>5} | {found.seconds:>6,.0f} | "
                f"{whole:9} |",
                flush=True,
            )
            if found.broken is not None:
                is_right = False
                print(f"{name}: {found.broken}", *found.way, found.last, sep="\n  ", flush=True)
    print(f"{total:,} states")
    if is_right and is_too_little(total, whole=given.slice is None and given.most >= MOST):
        print(f"fewer than {ENOUGH:,}")
        return 1
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
