"""An archive of what tasks import, for workers of a cluster that do not have it installed.

It is made of this very environment: the package and the distributions that a worker loads, in the releases that are
installed here. Spark unpacks it beside each executor (`spark.archives`), whose Python must be the same release on the
same kind of machine.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import sfcdc_assets
from sfcdc_assets.runtime.errors import SfcdcError

FOLDER = "sfcdc"
"""What the archive is called beside an executor."""
LAUNCHER = "python"
"""A file of the archive: the worker's Python with the archive on its path, for who can choose the one and not the
other (`remote_session`)."""
_LAUNCHER_TEXT = f"""\
#!/bin/sh
PYTHONPATH="$(cd "$(dirname "$0")" && pwd)${{PYTHONPATH:+:$PYTHONPATH}}"
export PYTHONPATH
exec "${{PYSPARK_PYTHON:-python{sys.version_info.major}.{sys.version_info.minor}}}" "$@"
"""
_EXECUTABLE = 0o100755 << 16
_HAS_ITS_OWN = frozenset({"pyspark", "py4j", "sfcdc_assets"})
"""Distributions that are not taken: the worker's Spark brings PySpark, and the package is taken from where it lies."""
_LOADED = """
import sys, sfcdc_assets.spark.workers, sfcdc_assets.lake.store.store_files
from importlib import import_module
from importlib.metadata import packages_distributions
from sfcdc_assets.spark.worker_daemon import TASKS
for name in TASKS:
    import_module(name)
of = packages_distributions()
print(*sorted({found for name in {each.partition(".")[0] for each in sys.modules} for found in of.get(name, ())}))
"""


class NotPacked(SfcdcError):
    """The archive could not be made."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(
            f"The archive {path} was not made: {reason}. Make room for it, or name a file in a folder that is there."
        )


def pack(path: Path) -> int:
    """Write the archive, whole or not at all; its size in bytes. Raises `NotPacked`."""
    part = path.with_name(f"{path.name}.part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for source, name in sorted(_files(), key=lambda each: each[1]):
                archive.write(source, name)
            launcher = zipfile.ZipInfo(LAUNCHER)
            launcher.external_attr = _EXECUTABLE
            archive.writestr(launcher, _LAUNCHER_TEXT)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise NotPacked(path, error.strerror or str(error)) from error
    return path.stat().st_size


def settings(path: Path) -> dict[str, str]:
    """Return the settings with which a session ships the archive; the second option's name has capitals, which the form
    in capitals alone cannot say. A session of Spark Connect makes do with the first one."""
    return {
        "SFCDC_SPARK_CONF_spark.archives": f"{path.absolute()}#{FOLDER}",
        "SFCDC_SPARK_CONF_spark.executorEnv.PYTHONPATH": FOLDER,
    }


def _files() -> Iterator[tuple[Path, str]]:
    """Each file of the archive and its name there."""
    package = Path(sfcdc_assets.__file__).parent
    for source in package.rglob("*.py"):
        yield source, f"{package.name}/{source.relative_to(package).as_posix()}"
    for name in _loaded():
        if name not in _HAS_ITS_OWN:
            yield from _files_of(distribution(name))


def _files_of(found: Distribution) -> Iterator[tuple[Path, str]]:
    for file in found.files or ():
        source = Path(str(found.locate_file(file)))
        if ".." not in file.parts and file.suffix != ".pyc" and source.is_file():
            yield source, file.as_posix()


def _loaded() -> list[str]:
    """Distributions of what a worker imports, found in a process that has imported nothing else."""
    done = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True)
    return done.stdout.split()
