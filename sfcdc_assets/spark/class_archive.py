"""The archive of the classes that Spark loads: a JVM that maps it starts with half the work.

A JVM spends most of Spark's start loading and checking some fifteen thousand classes. Java can record them once and map
them at each later start ("application class data sharing": docs.oracle.com, Java 17, HotSpot, `-XX:SharedArchiveFile`).
The archive lies in the Python environment, whose jars it belongs to, and goes with it. It is named after the Java and
the jars that it was made of; a JVM that finds it unfit all the same does without, as if there were none.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from pathlib import Path

import pyspark

from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.spark.java import java_path

OPTION = "spark.driver.extraJavaOptions"
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""A JVM writes its remarks about an archive to standard output, which belongs to commands."""


class NoClassArchive(SfcdcError):
    """The archive could not be made; Spark starts without one."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(
            f"The archive of Spark's classes {path} could not be made: {reason}. Spark starts without it, only slower."
        )


def archive_path() -> Path:
    """Return where the archive of this Java and these jars is, made or not. Raises `JavaMissing`."""
    java, jars = Path(java_path()).resolve(), Path(pyspark.__file__).parent / "jars"
    facts = [pyspark.__version__, *(f"{path}:{path.stat().st_mtime_ns}" for path in (java, jars))]
    key = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "sfcdc_assets" / f"spark-{key}.jsa"


def with_archive(options: dict[str, str]) -> dict[str, str]:
    """Return the options, and those that map the archive where there is one, unless they name one themselves."""
    if "SharedArchiveFile" in options.get(OPTION, "") or not archive_path().is_file():
        return options
    return _and(options, f"{shlex.quote(f'-XX:SharedArchiveFile={archive_path()}')} -Xshare:auto")


class Recording:
    """An archive in the making: `options` are those of the JVM that records, `keep` is called when it has ended."""

    def __init__(self) -> None:
        self.path = archive_path()
        self._part = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._part.touch()
            self._part.unlink()
        except OSError as error:
            raise NoClassArchive(self.path, f"{error.strerror}; run it as the owner of {sys.prefix}") from error

    def options(self, options: dict[str, str]) -> dict[str, str]:
        """Return those of a JVM that writes what it has loaded when it ends."""
        return _and(options, shlex.quote(f"-XX:ArchiveClassesAtExit={self._part}"))

    def keep(self, exit_code: int) -> Path:
        """Put the archive in its place, whole or not at all, and remove those of other Javas and jars."""
        if exit_code or not self._part.is_file():
            self._part.unlink(missing_ok=True)
            raise NoClassArchive(self.path, f"Java ended with {exit_code}")
        self._part.replace(self.path)
        for other in self.path.parent.glob("spark-*.jsa"):
            if other != self.path:
                other.unlink(missing_ok=True)
        return self.path


def _and(options: dict[str, str], more: str) -> dict[str, str]:
    return {**options, OPTION: f"{options.get(OPTION, '')} {more} {_QUIET}".strip()}
