"""A host without the extra `emulator`: only what needs an emulated org is missing, and says how to get it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from sfcdc_assets.cli.emulator_parts.extra import PACKAGES
from sfcdc_assets.cli.main import COMMANDS
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.eventually import BOUND_SECONDS

# PyYAML comes with Dagster and cryptography with PyJWT, so neither can be hidden from the rest. That nothing but the
# emulator imports them by itself is in test_imports.py.
HIDDEN = ["lark", "starlette", "uvicorn", "trustme"]

PROGRAM = f"""
import json, sys
sys.modules.update(dict.fromkeys({HIDDEN}))
from typer.testing import CliRunner
import sfcdc_assets.definitions
from sfcdc_assets.cli.main import app
loaded = [name for name in sys.modules if name.startswith("sfcdc_assets.emulator")]
done = {{}}
for command in json.loads(sys.argv[1]):
    result = CliRunner().invoke(app, command)
    done[" ".join(command)] = [result.exit_code, result.stdout, result.stderr]
print(json.dumps([loaded, done]))
"""


class Host:
    """What a process without the packages of the emulated org did."""

    def __init__(self, folder: Path, *commands: list[str], **settings: str) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SFCDC_")}
        description = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(commands)],
            cwd=folder,
            env={**environment, "PYTHONPATH": str(ROOT), **settings},
            capture_output=True,
            text=True,
            timeout=BOUND_SECONDS,
            check=False,
        )
        assert description.returncode == 0, description.stderr
        self.loaded, self.done = json.loads(description.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("production")


@pytest.fixture(scope="module")
def host(folder: Path) -> Host:
    helps = [[command, "--help"] for command in COMMANDS]
    return Host(folder, *helps, ["emulator"], ["demo"], ["dev"], ["status", "--json"], ["sync"])


def test_neither_the_definitions_nor_the_commands_import_the_emulated_org(host: Host) -> None:
    assert host.loaded == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_help_without_the_packages_of_the_emulated_org(host: Host, command: str) -> None:
    assert host.done[f"{command} --help"][0] == 0


@pytest.mark.parametrize("command", ["emulator", "demo", "dev"])
def test_what_needs_an_emulated_org_tells_the_command_that_installs_it(host: Host, folder: Path, command: str) -> None:
    code, said, refused = host.done[command]
    assert (code, said) == (1, "")
    (line,) = refused.strip().splitlines()
    assert line.startswith("sfcdc: ")
    assert "pip install 'sfcdc_assets[emulator]'" in line
    assert all(name in line for name in HIDDEN)
    assert not (folder / ".sfcdc").exists()


def test_status_and_sync_work_without_them(host: Host) -> None:
    assert host.done["status --json"][0] == 0
    assert json.loads(host.done["status --json"][1])
    assert "no login to the org is set" in host.done["sync"][2]


def test_the_ui_over_a_real_org_does_not_ask_for_them(tmp_path: Path) -> None:
    host = Host(tmp_path, ["dev"], SFCDC_LOGIN_URL="https://localhost:1", SFCDC_ACCESS_TOKEN="x")
    code, _, refused = host.done["dev"]
    assert code == 1
    assert "SFCDC_INSTANCE_URL: needed with SFCDC_ACCESS_TOKEN" in refused


def test_the_extra_has_the_packages_that_only_the_emulated_org_imports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = {Requirement(each).name for each in project["optional-dependencies"]["emulator"]}
    assert extra == set(PACKAGES.values())
    # The guard before Dagster's webserver and /metrics need these two, which Dagster brings anyway.
    assert extra & {Requirement(each).name for each in project["dependencies"]} == {"starlette", "uvicorn"}
