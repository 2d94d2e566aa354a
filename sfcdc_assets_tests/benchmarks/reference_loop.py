"""What a machine is worth for work like the demo's, measured beside it: processes that are started, load libraries,
and sort, hash and encode columns, as many at once as the demo keeps busy. Nothing of this project is in it, so that
only the machine makes it slower.

Also the program of one such process, `python -m sfcdc_assets_tests.benchmarks.reference_loop`.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import time

AT_ONCE = 2
STARTS = 4
"""Processes of each of those that run side by side, one after another."""
ROWS = 400_000


def seconds() -> float:
    """How long the loop takes on the clock now."""
    begun = time.perf_counter()
    for _ in range(STARTS):
        processes = [subprocess.Popen([sys.executable, "-W", "ignore", "-m", __name__]) for _ in range(AT_ONCE)]
        for process in processes:
            if process.wait():
                raise RuntimeError(f"the reference loop ended with {process.returncode}")
    return time.perf_counter() - begun


def work() -> None:
    """That of one process: half of it in Python's own code, half in the libraries that the demo stands on."""
    import polars as pl  # noqa: PLC0415 - to load it is a part of what is measured
    import pyarrow.parquet as pq  # noqa: PLC0415

    keys = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(ROWS)]
    frame = pl.DataFrame({"key": keys, "value": range(ROWS)})
    pq.write_table(frame.sort("key").to_arrow(), io.BytesIO(), compression="zstd")


if __name__ == "__main__":
    work()
