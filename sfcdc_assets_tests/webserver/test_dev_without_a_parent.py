"""`dagster dev` with our webserver ends with whoever started it, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from sfcdc_assets.cli.local_dagster.dagster_ui import free_port
from sfcdc_assets_tests.eventually import eventually

pytestmark = pytest.mark.slow

LOCATION = """
import subprocess
import dagster as dg

a_run = subprocess.Popen(["sleep", "1000"])
defs = dg.Definitions()
"""
"""With a process that does not end when its code server does."""
STARTS = """
import os, subprocess, sys, time
options = ["--parent", str(os.getpid()), "-f", "nothing.py", "-h", "127.0.0.1", "-p", sys.argv[1]]
subprocess.Popen([sys.executable, "-m", "sfcdc_assets.webserver", "dev", *options], start_new_session=True)
time.sleep(1000)
"""


def test_when_who_started_it_is_killed_no_process_of_dagster_is_left(tmp_path: Path) -> None:
    (tmp_path / "nothing.py").write_text(LOCATION)
    (tmp_path / "home").mkdir()
    env = {**os.environ, "DAGSTER_HOME": str(tmp_path / "home"), "DAGSTER_DISABLE_TELEMETRY": "yes"}
    command = [sys.executable, "-c", STARTS, str(free_port())]
    with (tmp_path / "log").open("wb") as log:
        started = psutil.Process(subprocess.Popen(command, cwd=tmp_path, env=env, stdout=log, stderr=log).pid)

    def all_parts() -> list[psutil.Process]:
        """Webserver, daemon, code server and run, once all are there."""
        children = started.children(recursive=True)
        words = " ".join(word for each in children for word in each.cmdline())
        return children if all(part in words for part in ("--shutdown-pipe", "_daemon", "code-server", "sleep")) else []

    parts = eventually(all_parts, (tmp_path / "log").read_text)
    started.send_signal(signal.SIGKILL)
    try:
        eventually(lambda: not any(each.is_running() for each in parts), lambda: [each.cmdline() for each in parts])
    finally:
        for each in parts:
            if each.is_running():
                each.kill()
