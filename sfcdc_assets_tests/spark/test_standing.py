"""The file of a standing Spark: who may read it, and when it counts as none."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import sfcdc_assets
from sfcdc_assets.runtime.clock import using
from sfcdc_assets.runtime.process_identity import process_began
from sfcdc_assets.spark import standing
from sfcdc_assets.spark import standing as identities
from sfcdc_assets.spark.standing import StandingSpark, identity
from sfcdc_assets_tests.simulated_clock import SimulatedClock

OPTIONS = {"spark.master": "local[2]"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "below" / "spark.json"


@pytest.fixture
def alive() -> Iterator[StandingSpark]:
    """A server of this process that takes connections."""
    with socket.create_server((standing.ADDRESS, 0)) as server:
        yield StandingSpark(server.getsockname()[1], "secret", os.getpid(), identity(OPTIONS))


def test_a_living_server_with_the_same_code_and_options_is_found(path: Path, alive: StandingSpark) -> None:
    standing.write(path, alive)
    assert standing.find(path, OPTIONS) == alive


def test_its_token_is_for_its_owner_alone_and_in_no_message(path: Path, alive: StandingSpark) -> None:
    path.parent.mkdir()
    path.touch(mode=0o644)
    standing.write(path, alive)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "secret" not in repr(alive)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"port": 1}', '{"port": 1, "pid": 1, "token": "", "more": 2}'])
def test_a_file_that_says_nothing_counts_as_none(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    assert standing.find(path, OPTIONS) is None


def test_without_a_file_there_is_none(path: Path) -> None:
    assert standing.find(path, OPTIONS) is None


def test_the_file_of_a_process_that_has_ended_counts_as_none(path: Path, alive: StandingSpark) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    standing.write(path, replace(alive, pid=ended.pid))
    assert standing.find(path, OPTIONS) is None


def test_a_port_that_nobody_listens_on_counts_as_none(path: Path, alive: StandingSpark) -> None:
    with socket.create_server((standing.ADDRESS, 0)) as closed:
        port = closed.getsockname()[1]
    standing.write(path, replace(alive, port=port))
    assert standing.find(path, OPTIONS) is None


def test_other_options_are_another_spark(path: Path, alive: StandingSpark, caplog: pytest.LogCaptureFixture) -> None:
    standing.write(path, alive)
    assert standing.find(path, {**OPTIONS, "spark.driver.memory": "2g"}) is None
    assert "is not used" in caplog.text


def test_a_file_of_the_package_that_changed_makes_another_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep").mkdir()
    module = tmp_path / "deep" / "module.py"
    module.write_text("VALUE = 1")
    monkeypatch.setattr(sfcdc_assets, "__file__", str(tmp_path / "__init__.py"))
    before = identities.identity(OPTIONS)
    os.utime(module, ns=(1, 1))
    touched = identities.identity(OPTIONS)
    (tmp_path / "new.py").touch()
    assert len({before, touched, identities.identity(OPTIONS)}) == 3


def test_a_server_that_is_being_started_is_waited_for(path: Path, alive: StandingSpark) -> None:
    standing.write(path, replace(alive, port=0, token=""))
    simulated = SimulatedClock()
    simulated.on_move(lambda: standing.write(path, alive))
    with using(simulated):
        assert standing.find(path, OPTIONS) == alive


def test_a_start_that_takes_too_long_or_has_ended_counts_as_none(path: Path, alive: StandingSpark) -> None:
    starting = replace(alive, port=0, token="")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    simulated = SimulatedClock()
    with using(simulated):
        began = simulated.monotonic()
        standing.write(path, replace(starting, pid=ended.pid))
        assert standing.find(path, OPTIONS) is None
        standing.write(path, replace(starting, identity="of other code"))
        assert standing.find(path, OPTIONS) is None
        assert simulated.monotonic() == began, "these are not waited for"
        standing.write(path, starting)
        assert standing.find(path, OPTIONS) is None
        assert simulated.monotonic() - began == pytest.approx(standing.STARTING_SECONDS, abs=1)


def test_a_start_in_a_container_that_was_started_again_since_counts_as_none(path: Path, alive: StandingSpark) -> None:
    """Numbers of processes begin again there, and this one is another process's."""
    began = process_began(os.getpid())
    if began is None:
        pytest.skip("the system does not say when a process began")
    standing.write(path, replace(alive, port=0, token="", began=began - 1))
    simulated = SimulatedClock()
    with using(simulated):
        before = simulated.monotonic()
        assert standing.find(path, OPTIONS) is None
        assert simulated.monotonic() == before, "it is not waited for"
    assert standing.claim(path, replace(alive, port=0, token="", pid=os.getppid())) is None


def test_of_two_servers_that_begin_at_once_the_second_finds_the_first(path: Path, alive: StandingSpark) -> None:
    first = replace(alive, port=0, token="", pid=os.getppid())
    second = replace(first, pid=os.getpid())
    assert standing.claim(path, first) is None
    assert standing.claim(path, second) == first
    assert standing.read(path) == first
    standing.forget(path, first.pid)
    assert standing.claim(path, second) is None
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_only_its_own_process_forgets_a_server(path: Path, alive: StandingSpark) -> None:
    standing.write(path, alive)
    standing.forget(path, alive.pid + 1)
    assert standing.read(path) == alive
    standing.forget(path, alive.pid)
    assert not path.exists()
