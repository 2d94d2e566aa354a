"""What a standing Spark is made of: runs use one only if it has their code, interpreter and options.

Python workers live long and keep the modules they have imported, so one that was started before an upgrade would run
the tasks of another release.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pyspark

import sfcdc_assets


def identity(options: Mapping[str, str]) -> str:
    """A hash of the package's files as they are now, of the interpreter, PySpark's release and Spark's options.

    A file counts by its size and time of change: an upgrade, a checkout and an edit all change these.
    """
    package = Path(sfcdc_assets.__file__).parent
    parts = [os.path.realpath(sys.prefix), sys.version, pyspark.__version__, str(package)]
    for path in sorted(package.rglob("*.py")):
        found = path.stat()
        parts.append(f"{path} {found.st_size} {found.st_mtime_ns}")
    parts += [f"{name}={value}" for name, value in sorted(options.items())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@cache
def code() -> str:
    """A hash of what is written in the package's files, wherever they lie: two machines with the same have the same
    code."""
    package = Path(sfcdc_assets.__file__).parent
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py"), key=lambda each: each.relative_to(package).as_posix()):
        found.update(f"{path.relative_to(package).as_posix()}\n".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:16]
