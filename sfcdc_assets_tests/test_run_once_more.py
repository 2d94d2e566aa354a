"""`make test` runs what failed once more: in a process of its own, by name, and what fails again fails it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sfcdc_assets_tests.documentation import ROOT

pytestmark = pytest.mark.slow

FILE = """
from pathlib import Path
import pytest

RUNS = Path(__file__).with_name("runs")

@pytest.fixture(scope="module")
def changed():
    with RUNS.open("a") as file:
        file.write("made ")
    return []

def test_that_passes():
    pass

def test_that_fails_once(changed):
    assert RUNS.read_text() == "made made "

def test_that_fails_on_a_new_fixture(changed):
    changed.append(1)
    assert len(changed) > ENOUGH
"""


def run(folder: Path, enough: int) -> subprocess.CompletedProcess[str]:
    """What `make test` does with a folder whose tests are the file's."""
    printed = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "test"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    recipe = next(line for line in printed.stdout.splitlines() if " -m pytest " in line)
    (folder / "test_some.py").write_text(FILE.replace("ENOUGH", str(enough)))
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = recipe.replace(".venv/bin/python", shlex.quote(sys.executable))
    return subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, check=False)


def test_a_test_that_passes_when_it_is_run_once_more_is_named_and_fails_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, enough=0)
    again = done.stdout.partition("ONCE MORE")[2]
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASSED test_some.py::test_that_fails_once" in again
    assert "::test_that_passes" not in again


def test_a_test_that_fails_again_fails_all_also_where_its_fixture_as_it_was_would_let_it_pass(tmp_path: Path) -> None:
    done = run(tmp_path, enough=1)
    assert done.returncode != 0
    assert "FAILED test_some.py::test_that_fails_on_a_new_fixture" in done.stdout.partition("ONCE MORE")[2]
