"""`sfcdc spark` as a child process of `sfcdc dev`: started again when it ends, ended with its JVM."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

PAUSE_SECONDS = 5.0
"""Between two starts: one that fails at once must not keep a core busy. Runs have a Spark of their own meanwhile."""
END_SECONDS = 8.0


class StandingSparkProcess:
    """A context manager; `look` is called now and then."""

    def __init__(
        self,
        environment: Mapping[str, str],
        folder: Path,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        command: tuple[str, ...] = ("-m", "sfcdc_assets.cli", "spark", "--until-parent-ends"),
    ) -> None:
        self._environment = dict(environment)
        self._folder = folder
        self._monotonic = monotonic
        self._command = [sys.executable, *command]
        self._started_at = float("-inf")
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> StandingSparkProcess:
        self.look()
        return self

    def look(self) -> None:
        """Start it if it is not there: the first time, and after it has ended by itself or was killed."""
        ended = self.process is None or self.process.poll() is not None
        if ended and self._monotonic() - self._started_at >= PAUSE_SECONDS:
            self._started_at = self._monotonic()
            # In a session of its own, so that Ctrl+C reaches only us. What it says goes where our own words go.
            self.process = subprocess.Popen(
                self._command,
                env=self._environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        process = self.process
        if process is None or process.poll() is not None:
            return
        process.terminate()  # it ends its JVM and workers first
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
