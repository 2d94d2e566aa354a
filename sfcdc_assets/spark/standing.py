"""A standing Spark: one Spark Connect server that many runs share, found by a small file.

The file (SFCDC_SPARK_STANDING) is written by `sfcdc spark`: before it starts a JVM, so that no other one is started
beside it and runs wait for it, and again when the server listens. It holds the token that the server asks for, so only
its owner may read it. A file whose server has ended, or was started with other code or options, counts as none: a run
then starts a Spark of its own, as it does without a file.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

import pyspark

import sfcdc_assets
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.process_identity import is_there


def identity(options: Mapping[str, str]) -> str:
    """Return a hash of the package's files as they are now, of the interpreter, PySpark's release and Spark's options.

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
    """Return a hash of what is written in the package's files, wherever they lie: two machines with the same have the
    same code."""
    package = Path(sfcdc_assets.__file__).parent
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py"), key=lambda each: each.relative_to(package).as_posix()):
        found.update(f"{path.relative_to(package).as_posix()}\n".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


log = logging.getLogger(__name__)

HOST = "localhost"
"""PySpark sends a token without TLS to this name only."""
ADDRESS = "127.0.0.1"
"""What a server listens on: the machine itself reaches it, nobody else."""
_CONNECT_SECONDS = 2.0
STARTING_SECONDS = 60.0
"""How long a run waits for a server that is being started: to start a JVM of its own beside it would slow both down."""
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class StandingSpark:
    """Where a server listens, the token it asks for, its process, what it is made of (`identity`), and when the process
    began. Port 0: it is being started."""

    port: int
    token: str = field(repr=False)
    pid: int
    identity: str
    began: int | None = None

    @property
    def is_starting(self) -> bool:
        """Whether it does not listen yet."""
        return self.port == 0

    def is_alive(self) -> bool:
        """Return whether its process is there and its port, if it has one yet, answers."""
        if not is_there(self.pid, self.began):
            return False
        if self.is_starting:
            return True
        try:
            with socket.create_connection((ADDRESS, self.port), timeout=_CONNECT_SECONDS):
                return True
        except OSError:
            return False


def write(path: Path, standing: StandingSpark) -> None:
    """Make the server known, readable by this user alone. Whoever reads meanwhile sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(standing), file)
    part.replace(path)


def claim(path: Path, starting: StandingSpark) -> StandingSpark | None:
    """Note that a server is being started; None, or the other one that is there or being started already."""
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # of two that begin at once the second one finds the first
        found = read(path)
        if found is not None and found.pid != starting.pid and found.is_alive():
            return found
        write(path, starting)
    finally:
        os.close(folder)
    return None


def read(path: Path) -> StandingSpark | None:
    """Return what the file says, or None if there is none or it cannot be understood."""
    try:
        return StandingSpark(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def forget(path: Path, pid: int) -> None:
    """Remove the file if it is still that of the process."""
    found = read(path)
    if found is not None and found.pid == pid:
        path.unlink(missing_ok=True)


def find(path: Path, options: Mapping[str, str]) -> StandingSpark | None:
    """Return the server of the file, if it lives and has our code and options; one that is being started is waited
    for."""
    found = read(path)
    if found is not None and found.is_starting and found.identity == identity(options):
        found = _started(path, found)
    if found is None or found.is_starting or not found.is_alive():
        return None
    if found.identity != identity(options):
        log.warning("The standing Spark of %s has other code or options than this process and is not used.", path)
        return None
    return found


def _started(path: Path, starting: StandingSpark) -> StandingSpark | None:
    """Return what the file says once the server listens, has ended, or has had its time."""
    found: StandingSpark | None = starting
    ends_at = clock.current().monotonic() + STARTING_SECONDS
    while found == starting and starting.is_alive() and clock.current().monotonic() < ends_at:
        clock.sleep(_LOOK_SECONDS)
        found = read(path)
    return found
