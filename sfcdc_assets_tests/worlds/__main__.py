"""The small worlds in bulk: `python -m sfcdc_assets_tests.worlds`, a part of `make soak`.

Bounds are taken one after another, each in pieces of consecutive schedules, by processes beside each other, until so
many worlds were run. Exit code 1, with the world, for the first that fails, and where the bounds have fewer worlds.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from multiprocessing import get_context

from sfcdc_assets_tests.worlds import landing_worlds
from sfcdc_assets_tests.worlds.bounds import BOUNDS, Bound, pieces, run_piece

LANDING = ((1, 5), (2, 5), (3, 5), (4, 4))
"""Lengths of streams, and how many steps two readers take."""


def main(words: Sequence[str] | None = None, bounds: Sequence[Bound] = BOUNDS) -> int:
    """Read the command line, run, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=10_000_000, help="enough of them")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--length", type=int, default=4, help="events of a story or a stream, at most")
    parser.add_argument("--schedules", type=int, default=400, help="that a process takes at once")
    given = parser.parse_args(words)
    os.environ["POLARS_MAX_THREADS"] = "1"  # processes share the cores, and frames are small
    begun, worlds, cpu = time.monotonic(), 0, 0.0
    landed = sum(landing_worlds.run_all(length, steps) for length, steps in LANDING if length <= given.length)
    print(f"{landed:,} worlds of landing in {time.monotonic() - begun:.0f} s", flush=True)
    with ProcessPoolExecutor(given.processes, get_context("spawn")) as pool:
        waiting: set[Future[tuple[int, float]]] = set()
        left = pieces([bound for bound in bounds if bound.length <= given.length], given.schedules)
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
