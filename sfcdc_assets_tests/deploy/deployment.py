"""What the files of deploy/ say."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import yaml

from sfcdc_assets.cli.local_dagster.dagster_home import INSTANCE
from sfcdc_assets_tests.documentation import ROOT

DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
USER = 10001
"""Of the image's services."""


def compose() -> dict[str, Any]:
    """The Compose file, with anchors and merges resolved."""
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def services() -> dict[str, dict[str, Any]]:
    """Of the Compose file, by name."""
    found: dict[str, dict[str, Any]] = compose()["services"]
    return found


def ours() -> dict[str, dict[str, Any]]:
    """Those of the project's own image."""
    return {name: service for name, service in services().items() if service["image"] == "sfcdc"}


def without_defaults(value: str) -> str:
    """A value as it is where no variable is set: the defaults of interpolations."""
    return re.sub(r"\$\{\w+:[-?]([^}]*)\}", r"\1", value)


def command(service: str, **replaced: str) -> list[str]:
    """A service's command as the image starts it, of this Python's environment, with other hosts and ports."""
    words = shlex.split(services()[service]["command"])
    started = [str(BIN / words[0]), *(replaced.get(word, word) for word in words[1:])]
    return [sys.executable, str(DEPLOY / "entrypoint.py"), *started]


def write_home(folder: Path) -> Path:
    """Dagster's folder as the image has it."""
    (folder / "storage").mkdir(parents=True)
    (folder / "dagster.yaml").write_text(INSTANCE.read_text() + (DEPLOY / "storage.yaml").read_text())
    return folder
