"""What Spark starts instead of `pyspark.daemon`: the same, with what tasks import already imported.

A Python worker is a fork of its daemon, and each one would import a second's worth of libraries for its first task;
Spark ends idle workers after a minute. Imported here, before any fork, they cost that once for a whole Spark. None of
them has started a thread pool by then: polars and pyarrow start theirs when first used, in the worker.
"""

from __future__ import annotations

import contextlib
import importlib
import os

from pyspark import daemon

from sfcdc_assets.runtime.native_memory import keep_native_memory_small
from sfcdc_assets.spark.private_files import UMASK

TASKS = ("pyspark.worker", "pyarrow.dataset", "pyarrow.parquet", "sfcdc_assets.apply.spark_job")
"""Modules of the worker and of its tasks. What cannot be imported here fails in the task that needs it, and is told."""


def main() -> None:
    """Import, then fork workers on demand until Spark ends."""
    if UMASK in os.environ:
        os.umask(int(os.environ[UMASK], 8))
    keep_native_memory_small()
    for name in TASKS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    daemon.manager()


if __name__ == "__main__":
    main()
