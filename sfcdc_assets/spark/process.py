"""`sfcdc spark` as a child process: started again when it ends, ended with its JVM. It ends by itself when this process
does, however that ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

PAUSE_SECONDS = 5.0
"""Between two starts: one that fails at once must not keep a core busy. Runs have a Spark of their own meanwhile."""
LONGEST_PAUSE_SECONDS = 600.0
"""The pause is twice as long after each start that failed, up to this: each says its reason."""
END_SECONDS = 8.0


class SparkProcess:
    """`look` is to be called now and then, `end` at the end. As a context manager it is there as long as the context
    is."""

    def __init__(
        self,
        environment: Mapping[str, str],
        folder: Path,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        command: tuple[str, ...] = ("-m", "sfcdc_assets.cli", "spark"),
    ) -> None:
        self._environment = dict(environment)
        self._folder = folder
        self._monotonic = monotonic
        self._command = [sys.executable, *command]
        self._started_at = float("-inf")
        self._pause = PAUSE_SECONDS
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> SparkProcess:
        self.look()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    @property
    def is_running(self) -> bool:
        """Whether it is there: ready, or being started."""
        return self.process is not None and self.process.poll() is None

    def look(self) -> None:
        """Start it if it is not there: the first time, and after it has ended by itself or was killed."""
        if self.is_running or self._monotonic() - self._started_at < self._pause:
            return
        failed = self.process is not None and self._monotonic() - self._started_at < 2 * self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS) if failed else PAUSE_SECONDS
        self._started_at = self._monotonic()
        # In a session of its own, so that Ctrl+C reaches only us. What it says goes where our own words go. It is told
        # who its parent is, who may be gone before it can ask.
        self.process = subprocess.Popen(
            [*self._command, "--parent", str(os.getpid())],
            env=self._environment,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end(self) -> None:
        """End it, and wait for that."""
        if self.process is None or not self.is_running:
            return
        self.process.terminate()  # it ends its JVM and workers first
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
