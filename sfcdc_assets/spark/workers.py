"""Whether the workers of a cluster can do their part: they have this package, and reach the warehouse.

Tasks import the package and read and write the tables' files themselves, so this is asked once a session, before
anything is done in it. Otherwise the first batch would say it, by a traceback of some worker.
"""

from __future__ import annotations

import re
import socket
import uuid
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.spark.cluster import spark_address
from sfcdc_assets.spark.standing import code

TASKS = 16
"""More than a small cluster has cores, so that most of its machines are asked; they take milliseconds."""
_FOUND = pa.schema([("host", pa.string()), ("code", pa.string()), ("error", pa.string())])


INSTALL = (
    "Install this release of sfcdc_assets for the Python of every worker, or ship it with the session "
    "(docs/scaling.md, Workers)."
)
PYTHON = (
    "Name the workers' Python of this release in PYSPARK_PYTHON (for Spark Connect, in the workers' environment; "
    "docs/scaling.md, Workers)."
)
SHARE = "SFCDC_WAREHOUSE must be a folder that all machines share under the same path, or an object store."


class WorkersNotReady(SfcdcError):
    """A worker of the cluster lacks this package, or does not reach the warehouse. Nothing was applied."""

    def __init__(self, where: str, reason: str, remedy: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"Spark at {where} cannot apply changes: {reason}. {remedy}")


def check_workers(session: SparkSession, settings: Settings, files: fs.FileSystem) -> None:
    """Have workers import the package, and read and write below `files`, the warehouse's root. Raises
    `WorkersNotReady`, and what the store raises here."""
    where = spark_address(settings)
    name = f".{uuid.uuid4().hex}.probe"
    with files.open_output_stream(name) as sink:
        sink.write(name.encode())

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [{"host": socket.gethostname(), "code": code(), "error": _reach(files, name)}]
            yield pa.RecordBatch.from_pylist(rows if batch.num_rows else [], schema=_FOUND)

    try:
        numbers = session.range(0, TASKS, numPartitions=TASKS)
        found = numbers.mapInArrow(look, "host string, code string, error string").toArrow().to_pylist()
    except PySparkException as error:
        lack = what_they_lack(str(error))
        if lack is None:
            raise
        raise WorkersNotReady(where, *lack) from error
    finally:
        with suppress(OSError):
            files.delete_file(name)
    for row in found:
        if row["code"] != code():
            raise WorkersNotReady(where, f"{row['host']} has another release of sfcdc_assets", INSTALL)
        if row["error"]:
            raise WorkersNotReady(
                where,
                f"{row['host']} does not reach the warehouse {settings.warehouse} ({row['error']})",
                SHARE,
            )


def what_they_lack(trace: str) -> tuple[str, str] | None:
    """Return what a worker lacks that could not run what it was sent, from its traceback, and the remedy."""
    if missing := re.search(r"No module named '([^']+)'", trace):
        return f"a worker's Python has no module {missing[1]}", INSTALL
    if "PYTHON_VERSION_MISMATCH" in trace:
        found = re.search(r"different version: (\S+) than that in driver: ([\d.]+)", trace)
        versions = f"{found[1]} where this one is {found[2]}" if found else "another release than this one"
        return f"the workers' Python is {versions}", PYTHON
    if no_python := re.search(r'Cannot run program "([^"]+)"', trace):
        return f"a worker has no {no_python[1]}", PYTHON
    if re.search(r"cannot import name '\w+' from 'sfcdc_assets|Can't get attribute .* on <module 'sfcdc_assets", trace):
        return "a worker has another release of sfcdc_assets", INSTALL
    return None


def _reach(files: fs.FileSystem, name: str) -> str | None:
    """Return, in a task, why the driver's file cannot be read, or one of its own not be written."""
    own = f".{uuid.uuid4().hex}.probe"
    try:
        with files.open_input_file(name) as source:
            if source.readall() != name.encode():
                return f"{name} has other content there"
        with files.open_output_stream(own) as sink:
            sink.write(b"")
        files.delete_file(own)
    except OSError as error:
        return str(error)
    return None
