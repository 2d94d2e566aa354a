"""Python packages whose own pins collide with ours, in an environment of their own."""

from __future__ import annotations

import sys
from pathlib import Path

from sfcdc_assets_tests.peers.installed_once import installed_once


def pip_client(*requirements: str) -> Path:
    """The folder with the commands of the first package, and `python`; all are pinned. Skips the test, and says why,
    where they cannot be had."""

    def commands(folder: Path) -> list[list[str]]:
        install = ["install", "--quiet", "--disable-pip-version-check", *requirements]
        return [
            [sys.executable, "-m", "venv", "--without-pip", str(folder)],
            [sys.executable, "-m", "pip", "--python", str(folder), *install],
        ]

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return installed_once(requirements[0], "\n".join([version, *requirements]), commands) / "bin"
