"""The npm packages of package.json, installed once into a folder of the checkout that git ignores."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_FOLDER = Path(__file__).parents[2] / ".peers"
_SECONDS = 240


def npm_packages() -> Path:
    """The folder in which `node` finds them. Skips the test, and says why, where they cannot be had."""
    manifest = _HERE / "package.json"
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node.js and npm are not installed")
    folder = _FOLDER / f"npm-{hashlib.sha256(manifest.read_bytes()).hexdigest()[:12]}"
    if not (folder / "installed").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copy(manifest, folder)
        command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip(f"npm installed nothing within {_SECONDS} seconds")
        if done.returncode:
            pytest.skip(f"npm cannot install the packages of {manifest}: {done.stderr.strip()[-300:]}")
        (folder / "installed").touch()
    for script in _HERE.glob("*.mjs"):
        shutil.copy(script, folder)
    return folder
