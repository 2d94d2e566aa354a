"""A wheel has all that the package needs, and works in an empty folder, outside of a clone.

It is installed beside the packages of this environment, so that nothing is fetched: they stand for what its extras
install.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

import sfcdc_assets
from sfcdc_assets.cli.local_dagster.dagster_home import INSTANCE
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.ui.dagster_server import DagsterServer

PACKAGE = Path(sfcdc_assets.__file__).parent
SECONDS = 540
BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
LOOK = """
import json, sfcdc_assets
from sfcdc_assets.cli.local_dagster.dagster_home import INSTANCE
from sfcdc_assets.emulator.definitions.object_file import built_in_definitions, stock_definitions
from sfcdc_assets.emulator.scenarios.scenario import scenarios
from sfcdc_assets.emulator.soql.parser import parse_query
parse_query("SELECT Id FROM Account")
found = [INSTANCE.exists(), len(built_in_definitions()) > 5, bool(stock_definitions()), bool(scenarios())]
print(json.dumps([sfcdc_assets.__file__, *found]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left in the clone."""
    source = tmp_path_factory.mktemp("source")
    shutil.copytree(PACKAGE, source / "sfcdc_assets", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    built = tmp_path_factory.mktemp("built")
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(built)], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (found,) = built.glob("*.whl")
    return found


def without_the_clone(folder: Path, **settings: str) -> Mapping[str, str]:
    """An environment in which neither the clone nor a setting of ours is found."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("SFCDC_", "DAGSTER_", "PYTHONPATH"))
    }
    return {**kept, "HOME": str(folder), **settings}


def test_a_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    ours = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if not name.split("/")[0].endswith(".dist-info")}
    assert packed == ours


def test_what_is_read_from_files_is_found_beside_the_code(wheel: Path, tmp_path: Path) -> None:
    installed, empty = tmp_path / "installed", tmp_path / "empty"
    empty.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        cwd=empty,
        env={**without_the_clone(empty), "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    module, *found = json.loads(done.stdout)
    assert module.startswith(str(installed))
    assert all(found), found
    assert (installed / INSTANCE.relative_to(PACKAGE.parent)).exists()


class Installed:
    """An environment of its own with the wheel in it, and an empty folder."""

    def __init__(self, wheel: Path, folder: Path) -> None:
        self.folder = folder / "empty"
        self.folder.mkdir()
        environment = folder / "venv"
        venv.create(environment, with_pip=False)
        self.scripts = environment / "bin"
        self.script = self.scripts / "sfcdc"
        self.run(
            sys.executable, "-m", "pip", "--python", str(self.scripts / "python"), "install", "--no-deps", "--no-index",
            "--quiet", "--disable-pip-version-check", str(wheel),
        )  # fmt: skip
        (site,) = environment.glob("lib/python*/site-packages")
        others = sysconfig.get_paths()["purelib"]
        (site / "others.pth").write_text(others)

    def run(self, *command: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """It, in the empty folder; fails where it does."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=without_the_clone(self.folder, **settings),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
        return done

    def sfcdc(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """The command."""
        return self.run(str(self.script), *arguments, **settings)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(wheel, tmp_path_factory.mktemp("installed"))


@pytest.mark.soak
def test_the_demo_runs_from_a_wheel_and_shows_no_noise(installed: Installed) -> None:
    done = installed.sfcdc("demo", "--records", "5", "--events", "20", "--rounds", "1")
    assert "every table equals the org" in done.stdout
    assert not [line for line in done.stderr.splitlines() if "WARN" in line.upper() or "log level" in line], done.stderr


@pytest.mark.slow
def test_dev_and_sync_run_from_a_wheel_and_another_terminal_shows_the_same(installed: Installed) -> None:
    directory = installed.folder / "dev"
    server = DagsterServer(directory, ["Account"], 5, installed.script, installed.folder)
    try:
        server.succeeded("snapshot", 240)
        said = "".join(server.said)
        line = said.partition("another terminal:  ")[2].splitlines()[0]
        shown = installed.run("bash", "-c", f"{line} && sfcdc sync --until-caught-up && sfcdc status")
        assert f"Warehouse: {directory / 'warehouse'}" in shown.stdout
        assert "Account" in shown.stdout, shown.stdout
        assert "events landed:" in shown.stderr
        assert f"into {directory / 'warehouse'}" in said
    finally:
        assert server.stop() == 0


@pytest.mark.slow
def test_a_workspace_of_ones_own_loads_the_module_of_a_wheel(installed: Installed) -> None:
    (installed.folder / "workspace.yaml").write_text("load_from:\n  - python_module: sfcdc_assets.definitions\n")
    done = installed.run(str(installed.scripts / "python"), "-m", "dagster", "definitions", "validate")
    assert "Validation successful" in done.stdout + done.stderr
