"""A Python client whose own pins collide with ours, in an environment of its own below the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parents[2] / ".peers"
_SECONDS = 240


def pip_client(requirement: str) -> Path:
    """The folder with its commands. Skips the test, and says why, where the client cannot be had."""
    folder = _FOLDER / f"pip-{requirement.replace('==', '-')}"
    if not (folder / "installed").exists():
        shutil.rmtree(folder, ignore_errors=True)
        for command in (
            [sys.executable, "-m", "venv", str(folder)],
            [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", requirement],
        ):
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
            except subprocess.TimeoutExpired:
                pytest.skip(f"pip did not install {requirement} within {_SECONDS} seconds")
            if done.returncode:
                pytest.skip(f"pip cannot install {requirement}: {done.stderr.strip()[-300:]}")
        (folder / "installed").touch()
    return folder / "bin"
