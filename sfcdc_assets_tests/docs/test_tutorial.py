"""The tutorial does what it says, from its own text."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from sfcdc_assets_tests.docs.tutorial import Step, blocks, clean_environment, walk_through
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.pipeline.failures.killed_sync import QUICK_JVM
from sfcdc_assets_tests.pipeline.fixtures import SPARK_OF_TESTS

QUICK = {
    "SFCDC_ENTITIES": "Account,Opportunity,User",
    "SFCDC_SETTLE_SECONDS": "1",
    "SFCDC_VISIBILITY_SECONDS": "0.2",
    **SPARK_OF_TESTS,
    "SFCDC_SPARK_CONF_spark.driver.extraJavaOptions": QUICK_JVM,
}
"""What the tutorial does not say: a reader's machine has nothing else to do."""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_tutorial_runs_from_its_own_text(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parent.parent)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**clean_environment(), **QUICK, "PATH": path, "PYTHONPATH": str(ROOT)}
    after_the_demo = [block for block in blocks() if "make demo" not in block.text]
    assert len(after_the_demo) == len(blocks()) - 1
    steps = {step.block.line: step for step in walk_through(after_the_demo, tmp_path, environment)}

    def of(words: str) -> Step:
        (found,) = [step for step in steps.values() if words in step.block.text]
        return found

    versions = of("FROM opportunity_history").output
    assert "Closed Won" in versions
    assert "SNAPSHOT" in versions
    assert "UPDATE" in versions
    moved = of("AS difference").output
    assert "Closed Won" in moved
    assert "was first read at" in of("--at").output
    lost = of("internal_error").output
    assert "GAP_UPDATE" in lost
    assert "healed" in lost
    assert "Send the contract" in lost
