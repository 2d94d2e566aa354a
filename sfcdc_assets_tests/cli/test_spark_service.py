"""Whoever keeps a standing Spark running: the documented service, and `sfcdc dev` with its child process."""

from __future__ import annotations

import os
import shlex
from configparser import ConfigParser
from itertools import pairwise
from pathlib import Path

from sfcdc_assets.cli.main import COMMANDS
from sfcdc_assets.spark.process import LONGEST_PAUSE_SECONDS, PAUSE_SECONDS, SparkProcess
from sfcdc_assets_tests.documentation import ROOT, code_blocks
from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually

NOTES_ITS_START = "import pathlib, time; pathlib.Path('started').open('a').write('x'); time.sleep({seconds})"


def test_the_documented_service_starts_the_command_again_whenever_it_ends() -> None:
    (block,) = [block for block in code_blocks(ROOT / "docs" / "running.md") if block.language == "ini"]
    unit = ConfigParser()
    unit.optionxform = str  # type: ignore[assignment]
    unit.read_string(block.text)
    service = unit["Service"]
    program, command = shlex.split(service["ExecStart"])
    assert Path(program).is_absolute()
    assert (Path(program).name, command in COMMANDS) == ("sfcdc", True)
    assert program.startswith(service["WorkingDirectory"] + "/"), "its .env and its file are of the folder it works in"
    assert service["Restart"] == "always"
    assert "WantedBy" in unit["Install"]


def child(folder: Path, seconds: int, moments: list[float]) -> SparkProcess:
    command = ("-c", NOTES_ITS_START.format(seconds=seconds))
    return SparkProcess(os.environ, folder, monotonic=lambda: moments[-1], command=command)


def test_a_child_that_ended_is_started_again_after_a_pause(tmp_path: Path) -> None:
    moments, started = [0.0], tmp_path / "started"
    with child(tmp_path, 0, moments) as spark:
        assert spark.process is not None
        first = spark.process
        first.wait(BOUND_SECONDS)
        spark.look()
        assert spark.process is first
        moments.append(PAUSE_SECONDS)
        spark.look()
        assert spark.process is not first
        spark.process.wait(BOUND_SECONDS)
    assert started.read_text() == "xx"


def test_a_child_that_fails_each_time_is_started_after_pauses_that_grow(tmp_path: Path) -> None:
    moments, starts = [0.0], []
    with child(tmp_path, 0, moments) as spark:
        while moments[-1] < 3 * LONGEST_PAUSE_SECONDS:
            assert spark.process is not None
            spark.process.wait(BOUND_SECONDS)
            before = spark.process
            moments.append(moments[-1] + PAUSE_SECONDS)
            spark.look()
            if spark.process is not before:
                starts.append(moments[-1])
    pauses = [later - earlier for earlier, later in pairwise(starts)]
    assert pauses[:3] == [10, 20, 40]
    assert pauses[-1] == LONGEST_PAUSE_SECONDS


def test_a_child_that_lives_is_left_alone_and_ends_with_its_parent(tmp_path: Path) -> None:
    moments = [0.0]
    with child(tmp_path, 600, moments) as spark:
        eventually((tmp_path / "started").exists, "the child to start")
        process = spark.process
        moments.append(10 * PAUSE_SECONDS)
        spark.look()
        assert spark.process is process
        assert process is not None
    assert process.poll() is not None
