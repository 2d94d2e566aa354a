"""A test that would make `make test` slow fails, whoever adds it; a machine that is busy fails none."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.eventually import BOUND_SECONDS

CONFTEST = """
from sfcdc_assets_tests import cpu_budget
from sfcdc_assets_tests.cpu_budget import pytest_runtest_call, pytest_runtest_setup, pytest_terminal_summary

cpu_budget.SECONDS = cpu_budget.SECONDS_OF_CHILDREN = {seconds}
cpu_budget.LOOP_SECONDS = {loop_seconds}
"""
TESTS = """
import subprocess, sys, time
import pytest

def burn():
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass

def test_that_waits():
    time.sleep(0.5)

def test_that_computes():
    burn()

def test_that_has_it_computed():
    subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.5: pass"], check=True)

@pytest.mark.slow
def test_that_is_slow_by_nature():
    burn()

@pytest.fixture
def dear():
    burn()

def test_of_a_dear_fixture(dear):
    pass
"""


def outcomes(folder: Path, *options: str, seconds: float = 0.15, loop_seconds: float = 60) -> tuple[set[str], str]:
    """What came of each test, and what was printed, with this budget, where the limits were set on a machine that takes
    so long for the loop that measures a machine."""
    (folder / "conftest.py").write_text(CONFTEST.format(seconds=seconds, loop_seconds=loop_seconds))
    (folder / "test_it.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *options, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )
    found = re.findall(r"^(PASSED|FAILED|ERROR) \S+::(\w+)", done.stdout, re.M)
    return {" ".join(each) for each in found}, done.stdout


def test_a_test_that_takes_more_than_twice_its_budget_of_cpu_fails_and_says_what_to_do(tmp_path: Path) -> None:
    found, printed = outcomes(tmp_path)
    assert found == {
        "PASSED test_that_waits",
        "FAILED test_that_computes",
        "FAILED test_that_has_it_computed",
        "PASSED test_that_is_slow_by_nature",
        "ERROR test_of_a_dear_fixture",
    }, printed
    assert "are the most that `make test` allows a test. Make it cheaper, or give it the mark `slow`" in printed
    assert "s of CPU, without Spark's. The most: test_it.py" in printed


def test_a_test_that_takes_a_little_more_than_its_budget_passes_and_is_named_at_the_end(tmp_path: Path) -> None:
    found, printed = outcomes(tmp_path, seconds=0.4)
    assert {each.partition(" ")[0] for each in found} == {"PASSED"}, printed
    named = re.findall(r"::(\w+) took \d+ s of CPU( in processes that it started)?, more than 0 s", printed)
    assert dict(named) == {
        "test_that_computes": "",
        "test_that_has_it_computed": " in processes that it started",
        "test_of_a_dear_fixture": "",
    }


def test_a_machine_that_is_slower_may_take_more(tmp_path: Path) -> None:
    found, printed = outcomes(tmp_path, loop_seconds=0.001)
    assert {each.partition(" ")[0] for each in found} == {"PASSED"}, printed


def test_more_examples_than_make_test_has_may_take_more(tmp_path: Path) -> None:
    found, printed = outcomes(tmp_path, "--hypothesis-profile", "default")
    assert {each.partition(" ")[0] for each in found} == {"PASSED"}, printed
