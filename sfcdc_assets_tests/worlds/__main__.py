"""The small worlds in bulk: `python -m sfcdc_assets_tests.worlds`, a part of `make soak`.

Bounds are taken one after another, each in pieces of consecutive schedules, by processes beside each other, until so
many worlds were run. Exit code 1, with the world, for the first that fails, and where the bounds have fewer worlds.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache
from itertools import islice
from multiprocessing import get_context
from typing import NamedTuple

from sfcdc_assets_tests.worlds import landing_worlds
from sfcdc_assets_tests.worlds.schedules import schedules
from sfcdc_assets_tests.worlds.stories import Stories, all_stories, in_crowds
from sfcdc_assets_tests.worlds.worlds import run

CROWD, SCHEDULES = 30_000, 400


class Bound(NamedTuple):
    """How large worlds are: events, readings after the first snapshot, batches that die, and how far a read may be
    ahead of its watermark."""

    length: int
    readings: int
    crashes: int
    ahead: int


BOUNDS = (Bound(1, 2, 1, 1), Bound(2, 1, 1, 1), Bound(3, 1, 0, 1), Bound(2, 2, 0, 1), Bound(3, 1, 1, 1))
LANDING = ((1, 5), (2, 5), (3, 5), (4, 4))
"""Lengths of streams, and how many steps two readers take."""


class Piece(NamedTuple):
    """Some schedules of a bound, for one crowd of stories."""

    bound: Bound
    crowd: int
    first: int


@cache
def _crowds(length: int) -> list[Stories]:
    return list(in_crowds(all_stories(length), CROWD))


def pieces(bounds: Sequence[Bound]) -> Iterator[Piece]:
    """Yield all the work, bound after bound."""
    for bound in bounds:
        count = sum(1 for _ in schedules(*bound))
        for first in range(0, count, SCHEDULES):
            yield from (Piece(bound, crowd, first) for crowd in range(len(_crowds(bound.length))))


def run_piece(piece: Piece) -> tuple[int, float]:
    """Run one; return how many worlds there were and the seconds of CPU they took."""
    begun = time.process_time()
    wanted = islice(schedules(*piece.bound), piece.first, piece.first + SCHEDULES)
    count = run(_crowds(piece.bound.length)[piece.crowd], wanted)
    return count.worlds, time.process_time() - begun


def main(
    words: Sequence[str] | None = None,
    bounds: Sequence[Bound] = BOUNDS,
    landing: Sequence[tuple[int, int]] = LANDING,
) -> int:
    """Read the command line, run, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=10_000_000, help="enough of them")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args(words)
    os.environ["POLARS_MAX_THREADS"] = "1"  # processes share the cores, and frames are small
    begun, worlds, cpu = time.monotonic(), 0, 0.0
    landed = sum(landing_worlds.run_all(length, steps) for length, steps in landing)
    print(f"{landed:,} worlds of landing in {time.monotonic() - begun:.0f} s", flush=True)
    with ProcessPoolExecutor(given.processes, get_context("spawn")) as pool:
        waiting: set[Future[tuple[int, float]]] = set()
        left = pieces(bounds)
        while worlds < given.worlds:
            waiting |= {pool.submit(run_piece, piece) for piece in islice(left, 2 * given.processes - len(waiting))}
            if not waiting:
                break
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for each in done:
                found, seconds = each.result()
                worlds, cpu = worlds + found, cpu + seconds
            print(f"{worlds:,} worlds, {worlds / max(cpu, 0.001):,.0f} per second of CPU", flush=True)
        pool.shutdown(cancel_futures=True)
    if worlds < given.worlds:
        print(f"only {worlds:,} worlds: the bounds have no more")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
