"""A contestant in a process of its own, which talks to an org in another one: what it costs is nobody else's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfcdc_assets_tests.benchmarks.stage import WrongAnswer
from sfcdc_assets_tests.documentation import ROOT


@dataclass(frozen=True)
class ClientRun:
    """A process that has ended: CPU seconds of it and of its children, from its start to its end; seconds on the clock;
    the most memory that one of them had, in MB; and what it printed, line by line."""

    cpu: float
    seconds: float
    mb: float
    lines: tuple[str, ...]

    @property
    def said(self) -> list[Mapping[str, Any]]:
        """Its lines, each of which is a JSON object."""
        return [json.loads(line) for line in self.lines]


def run_client(module: str, *arguments: str, settings: Mapping[str, str], kill_after: int | None = None) -> ClientRun:
    """Run `python -m module arguments` with these settings to its end. With `kill_after` it is killed when it has
    printed so many lines. Raises `WrongAnswer` with what it said when it fails by itself."""
    command = [sys.executable, "-W", "ignore", "-m", module, *arguments]
    environment = {**os.environ, **settings, "PYTHONPATH": str(ROOT)}
    begun, lines = time.perf_counter(), list[str]()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if kill_after is not None and len(lines) == kill_after:
                process.kill()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode and kill_after is None:
        raise WrongAnswer(f"{' '.join(arguments)} ended with {process.returncode}: {lines[-3:]}")
    cpu = used.ru_utime + used.ru_stime
    return ClientRun(cpu, time.perf_counter() - begun, used.ru_maxrss / 1024, tuple(lines))
