"""The `sfcdc` command: in this process where starting one would cost more than the test, and as the console script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner, Result

from sfcdc_assets.cli.main import app
from sfcdc_assets_tests.eventually import BOUND_SECONDS

SCRIPT = Path(sys.executable).with_name("sfcdc")


def sfcdc(*arguments: str) -> Result:
    """The command in this process."""
    return CliRunner().invoke(app, list(arguments))


def console_script(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The installed script with this process's environment and more."""
    return subprocess.run(
        [str(SCRIPT), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def refusal(result: Result) -> str:
    """What the command said when it ended with exit code 1: one line on standard error, and nothing else."""
    assert result.exit_code == 1, (result.exit_code, result.stdout, result.stderr)
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("sfcdc: ")
    assert "Traceback" not in lines[0]
    return lines[0]


def in_one_line(result: Result) -> str:
    return result.stdout.replace("\n", " ")
