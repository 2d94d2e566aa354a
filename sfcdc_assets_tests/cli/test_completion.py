"""The shell completes commands and their options, which are imported for it; the command has a name and a version."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from sfcdc_assets.cli.main import COMMANDS
from sfcdc_assets_tests.cli.command import SCRIPT, console_script, sfcdc
from sfcdc_assets_tests.eventually import BOUND_SECONDS


def completed(*typed: str) -> list[str]:
    """What bash is offered for the last of the words."""
    words = {"COMP_WORDS": " ".join(typed), "COMP_CWORD": str(len(typed) - 1)}
    return console_script(_SFCDC_COMPLETE="complete_bash", **words).stdout.split()


def test_a_command_is_completed() -> None:
    assert completed("sfcdc", "st") == ["status"]
    assert completed("sfcdc", "dbt") == ["dbt-sources"]


def test_options_of_a_command_are_completed() -> None:
    assert completed("sfcdc", "status", "--j") == ["--json"]
    assert completed("sfcdc", "sync", "--w") == ["--watch"]


def test_bash_completes_what_is_installed_for_it(tmp_path: Path) -> None:
    installed = console_script(
        "--install-completion", "bash", HOME=str(tmp_path), _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1"
    )
    assert installed.returncode == 0, installed.stderr
    assert "completion installed" in installed.stdout
    # As bash calls the function when the Tab key is pressed.
    function = "$(complete -p sfcdc | sed 's/.*-F \\([^ ]*\\).*/\\1/')"
    pressed = f'COMP_WORDS=(sfcdc st); COMP_CWORD=1; {function} sfcdc st sfcdc; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "-c", f'. "$HOME/.bashrc"; {pressed}'],
        env={**os.environ, "HOME": str(tmp_path), "PATH": f"{SCRIPT.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )
    assert done.stdout.split() == ["status"], done.stderr


def test_the_version_is_that_of_the_package() -> None:
    assert sfcdc("--version").stdout == f"sfcdc {version('sfcdc_assets')}\n"


@pytest.mark.parametrize("module", ["sfcdc_assets", "sfcdc_assets.cli"])
def test_the_package_is_the_command(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"], capture_output=True, text=True, timeout=BOUND_SECONDS, check=True
    )
    assert "Usage: sfcdc [OPTIONS] COMMAND" in done.stdout
    assert all(command in done.stdout for command in COMMANDS)
