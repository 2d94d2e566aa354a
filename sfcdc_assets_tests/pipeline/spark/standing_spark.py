"""A standing Spark of a test: `sfcdc spark` as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sfcdc_assets.spark import standing
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.pipeline.failures.killed_sync import GIVE_UP_SECONDS
from sfcdc_assets_tests.pipeline.fixtures import SPARK_OF_TESTS

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class StandingProcess:
    """The process, which leads a group with its JVM, and its file."""

    path: Path
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """SIGKILL to the process and its JVM."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(GIVE_UP_SECONDS)


@contextmanager
def standing_spark(path: Path, options: Mapping[str, str] = SPARK_OF_TESTS) -> Iterator[StandingProcess]:
    """Started with these settings, and ready; killed at the end if it has not ended."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SFCDC_")}
    log = path.with_suffix(".log")
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "sfcdc_assets.cli", "spark"],
            env={**kept, **options, "PYTHONPATH": str(ROOT), "SFCDC_SPARK_STANDING": str(path)},
            cwd=path.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    started = StandingProcess(path, process)
    try:

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()
            found = standing.read(path)
            return found is not None and found.pid == process.pid and not found.is_starting

        eventually(is_ready, log.read_text)
        yield started
    finally:
        started.kill()
