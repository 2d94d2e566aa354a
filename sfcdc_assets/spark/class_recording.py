"""A Spark started once to record the classes that it loads."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.spark.class_archive import NoClassArchive, Recording
from sfcdc_assets.spark.session import own_session, spark_options
from sfcdc_assets.spark.warm_up import warm_up

_END_SECONDS = 120.0
"""Writing 160 MB takes some seconds; a slow disk may take longer."""


def prepare(settings: Settings) -> Path:
    """Start a Spark, run a job of the form of ours, and keep the archive of its classes; the archive's path.

    For a process that has no Spark yet. Raises `JavaMissing`, and `NoClassArchive` when it could not be made.
    """
    recording = Recording()
    session = own_session({**spark_options(settings), "spark.master": "local[2]"}, recording)
    jvm = session.sparkContext._gateway.proc
    for _ in range(2):
        warm_up(session)
    session.stop()
    jvm.stdin.close()  # what PySpark's JVM ends upon
    try:
        return recording.keep(jvm.wait(_END_SECONDS))
    except subprocess.TimeoutExpired as error:
        jvm.kill()
        raise NoClassArchive(recording.path, f"Java was not done after {_END_SECONDS:.0f} s") from error
