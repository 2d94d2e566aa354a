"""A command that is stopped by a signal at a moment seen from outside, and what is left of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sfcdc_assets.cli.terminal.children import descendants
from sfcdc_assets.spark import session
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.pipeline.failures.killed_sync import GIVE_UP_SECONDS, LOOK_EVERY_SECONDS, QUICK_JVM

QUIET = f"-Dlog4j2.configurationFile={Path(session.__file__).with_name('log4j2.properties').as_uri()}"
"""What the product's own sessions log."""


@dataclass(frozen=True)
class Stopped:
    """How a command ended: its exit code, what it wrote to standard error, and the processes below it that outlived
    it."""

    code: int
    said: str
    left: list[int]


class Command:
    """`sfcdc ...` in a session of its own, as a terminal or a service manager starts it."""

    def __init__(self, log: Path, *arguments: str, **environment: str) -> None:
        root = Path(__file__).parents[3]
        settings = {
            "PYTHONPATH": str(root),
            "SFCDC_SETTLE_SECONDS": "1",
            "SFCDC_SPARK_MASTER": "local[2]",
            "SFCDC_SPARK_CONF_spark.driver.extraJavaOptions": f"{QUICK_JVM} {QUIET}",
        }
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sfcdc_assets_tests.pipeline.small_batches", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
                env={**os.environ, **settings, **environment},
                start_new_session=True,
            )

    def stop_when(self, moment: Callable[[], bool], number: signal.Signals) -> Stopped:
        """Send the signal at the moment: SIGINT to all of the group as a terminal does, others to the process alone."""
        deadline = time.monotonic() + GIVE_UP_SECONDS  # a moment is as far off as the work of a process and a JVM
        try:
            while not moment():
                assert self.process.poll() is None, f"it ended before the moment came: {self._log.read_text()[-3000:]}"
                assert time.monotonic() < deadline, "the moment did not come"
                time.sleep(LOOK_EVERY_SECONDS)
            below = descendants(self.process.pid)
            (os.killpg if number is signal.SIGINT else os.kill)(self.process.pid, number)
            code = self.process.wait(BOUND_SECONDS)
            left = [pid for pid in below if _lives(pid)]
            return Stopped(code, self._log.read_text(), left)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def handles(self, number: signal.Signals) -> bool:
        """Whether the process has a handler for the signal by now: its own code runs then."""
        caught = self._status("SigCgt")
        return bool(int(caught, 16) >> (number - 1) & 1) if caught else False

    def has_child(self, name: str) -> bool:
        """Whether a process below it has a command line that names this."""
        for pid in descendants(self.process.pid):
            with contextlib.suppress(OSError):
                if name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return True
        return False

    def _status(self, key: str) -> str:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
                if line.startswith(f"{key}:"):
                    return line.partition(":")[2].strip()
        return ""


def _lives(pid: int) -> bool:
    """Whether the process is there and is not just waiting to be waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
