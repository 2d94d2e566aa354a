"""Packages from npm, and scripts that import them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sfcdc_assets_tests.peers.installed_once import installed_once


def npm_packages(scripts: Path, folder: Path) -> Path:
    """`folder` with the scripts (`*.mjs`) of a folder and what its package.json, whose versions are pinned, asks for:
    `node` runs them there. Skips the test, and says why, where that cannot be had."""
    manifest = scripts / "package.json"
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node.js and npm are not installed")

    def commands(target: Path) -> list[list[str]]:
        shutil.copy(manifest, target)
        return [["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]]

    packages = installed_once(f"npm-{scripts.name}", manifest.read_text(), commands)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "node_modules").symlink_to(packages / "node_modules")
    for path in (manifest, *scripts.glob("*.mjs")):
        shutil.copy(path, folder)
    return folder
