"""A folder of this user's cache in which something is installed once, whatever checkouts and test processes want it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

_SECONDS = 280


def installed_once(name: str, contents: str, commands: Callable[[Path], Sequence[Sequence[str]]]) -> Path:
    """The folder, after `commands` have filled it. `contents` says which versions of what are in it: another text is
    another folder. Skips the test, and says why, where a command fails (a registry that is out of reach)."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sfcdc_assets" / "peers"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"{name}-{hashlib.sha256(contents.encode()).hexdigest()[:12]}"
    marker = folder / "installed"
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not marker.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for command in commands(folder):
                _run(name, command, folder)
            marker.touch()
    return folder


def _run(name: str, command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{name} was not installed within {_SECONDS} seconds")
    if done.returncode:
        # npm says what is the matter at the beginning, and pip at the end.
        words = " ".join(done.stderr.split())
        pytest.skip(f"{name} cannot be installed: {words if len(words) < 500 else f'{words[:250]} ... {words[-250:]}'}")
