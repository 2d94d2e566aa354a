"""A session on a Spark Connect server, whose workers are given what `sfcdc spark --pack` has written.

The server and its executors were started by others, so options of theirs cannot be set from here. What a session has
are its artifacts: an archive of `spark.archives` is sent to the server, which unpacks it beside each executor, and one
of ours holds the launcher that puts it on the path of the worker's Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.spark.worker_archive import FOLDER, LAUNCHER

_ARCHIVES = "spark.archives"
_PYTHON = "spark.sql.execution.pyspark.python"
"""The Python that runs a session's functions: the one of Spark's options that a client may set (PySpark, "Python
Package Management", Spark Connect)."""
_SHIPPED = "_sfcdc_shipped"


def remote_session(options: Mapping[str, str]) -> SparkSession:
    """Return the session of `spark.remote` that this process has, or a new one with its archives. Raises
    `SettingsError`."""
    archives = list(_archives(options.get(_ARCHIVES, "")))
    python = {_PYTHON: f"{FOLDER}/{LAUNCHER}"} if FOLDER in (name for _, name in archives) else {}
    builder = SparkSession.builder
    for option, value in {**python, **options}.items():
        if option != _ARCHIVES and not option.startswith("spark.executorEnv."):
            builder = builder.config(option, value)
    session = builder.getOrCreate()
    if not getattr(session, _SHIPPED, False):
        for path, name in archives:
            session.addArtifacts(f"{path}#{name}", archive=True)
        setattr(session, _SHIPPED, True)
    return session


def _archives(value: str) -> Iterator[tuple[Path, str]]:
    """Yield the files of `spark.archives`, each with the name it has beside an executor."""
    for each in value.split(","):
        path, _, name = each.strip().partition("#")
        if path and not Path(path).is_file():
            raise SettingsError(
                f"SFCDC_SPARK_CONF_{_ARCHIVES}", f"{path} is not there", "Write it with `sfcdc spark --pack`"
            )
        if path:
            yield Path(path), name or Path(path).name
