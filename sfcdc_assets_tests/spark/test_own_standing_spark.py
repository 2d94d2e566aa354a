"""The Spark that a code location keeps for its runs: when it is started, and that it is one."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark import standing
from sfcdc_assets.spark.own_standing_spark import OwnStandingSpark, is_wanted
from sfcdc_assets.spark.process import SparkProcess
from sfcdc_assets_tests.environment import without_settings
from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually

STAYS = "import pathlib, time; pathlib.Path('started').open('a').write('x'); time.sleep(600)"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    without_settings(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def process(folder: Path) -> Iterator[SparkProcess]:
    """One that is no Spark, and stays."""
    made = SparkProcess(os.environ, folder, command=("-c", STAYS))
    yield made
    made.end()


def test_the_first_tick_starts_it_and_the_next_ones_leave_it_alone(folder: Path, process: SparkProcess) -> None:
    kept = OwnStandingSpark(process)
    kept.look(load_settings())
    started = folder / "started"
    eventually(lambda: started.exists() and started.read_text(), "the child to start")
    child = process.process
    assert child is not None
    kept.look(load_settings())
    assert process.process is child
    kept.end()
    assert child.wait(BOUND_SECONDS) != 0
    kept.look(load_settings())
    assert not process.is_running, "what has ended starts nothing"
    assert started.read_text() == "x"


@pytest.mark.parametrize("port", [0, None])
def test_it_is_not_started_beside_one_that_is_there_or_being_started(
    port: int | None, folder: Path, process: SparkProcess
) -> None:
    with socket.create_server((standing.ADDRESS, 0)) as server:
        at = server.getsockname()[1] if port is None else port
        standing.write(load_settings().spark_standing, standing.StandingSpark(at, "", os.getpid(), "other code"))
        OwnStandingSpark(process).look(load_settings())
        assert process.process is None
    standing.forget(load_settings().spark_standing, os.getpid())
    OwnStandingSpark(process).look(load_settings())
    assert process.is_running


@pytest.mark.parametrize(
    "given",
    [
        {"SFCDC_SPARK_KEPT": "false"},
        {"SFCDC_SPARK_STANDING": ".sfcdc/spark.json"},
        {"SFCDC_SPARK_REMOTE": "sc://localhost:15002"},
        {"SFCDC_SPARK_MASTER": "spark://host:7077"},
    ],
)
def test_where_a_setting_says_who_keeps_spark_none_is_started(
    given: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_wanted(load_settings())
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert not is_wanted(load_settings())
