"""A standing Spark: one Spark Connect server that many runs share, found by a small file.

The file (SFCDC_SPARK_STANDING) is written by `sfcdc spark` when the server listens. It holds the token that the server
asks for, so only its owner may read it. A file whose server has ended, or was started with other code or options,
counts as none: a run then starts a Spark of its own, as it does without a file.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sfcdc_assets.spark.identity import identity

log = logging.getLogger(__name__)

HOST = "localhost"
"""PySpark sends a token without TLS to this name only."""
ADDRESS = "127.0.0.1"
"""What a server listens on: the machine itself reaches it, nobody else."""
_CONNECT_SECONDS = 2.0


@dataclass(frozen=True)
class StandingSpark:
    """Where a server listens, the token it asks for, its process, and what it is made of (`identity`)."""

    port: int
    token: str = field(repr=False)
    pid: int
    identity: str

    def is_alive(self) -> bool:
        """Whether its process is there and its port answers."""
        try:
            os.kill(self.pid, 0)
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


def read(path: Path) -> StandingSpark | None:
    """What the file says, or None if there is none or it cannot be understood."""
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
    """The server of the file, if it lives and has our code and options."""
    found = read(path)
    if found is None or not found.is_alive():
        return None
    if found.identity != identity(options):
        log.warning("The standing Spark of %s has other code or options than this process and is not used.", path)
        return None
    return found
