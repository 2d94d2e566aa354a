"""A run whose process is gone, while Dagster still counts it as at work: it is found out, and the next one goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.lake.store import runs_at_work
from sfcdc_assets.lake.store.runs_at_work import note_at_work, noted_at_work
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration import heartbeat
from sfcdc_assets.orchestration.heartbeat import Heartbeat
from sfcdc_assets.orchestration.jobs import lost_runs
from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets.runtime.process_identity import process_began
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer
from sfcdc_assets_tests.orchestration.sensors.dagster_runs import run_of, tags_of_channel
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream

pytestmark = pytest.mark.slow

STARTED, STARTING = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING
CANCELING = dg.DagsterRunStatus.CANCELING
OF_SYNC = tags_of_channel(CHANNEL, "sync")


@pytest.fixture
def server(weather: Stream, server: CodeServer) -> CodeServer:
    """One whose tables equal the org, and then something is landed that a run has to apply."""
    weather.update(1)
    weather.update(2)
    return server


def seconds_ago(seconds: float) -> int:
    return round(Clock().now_ms() - seconds * 1000)


def requested(result: dg.SensorResult) -> list[str]:
    return [ASSETS.short(str(request.job_name)) for request in result.run_requests or ()]


def status(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.DagsterRunStatus:
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    return found.status


@pytest.mark.parametrize(
    ("counts_as", "ends_as"), [(STARTED, dg.DagsterRunStatus.FAILURE), (CANCELING, dg.DagsterRunStatus.CANCELED)]
)
def test_a_run_that_does_not_say_that_it_lives_is_ended_and_the_same_tick_asks_for_its_work(
    weather: Stream, server: CodeServer, counts_as: dg.DagsterRunStatus, ends_as: dg.DagsterRunStatus
) -> None:
    run = run_of(server.instance, ASSETS.name("sync"), OF_SYNC, counts_as)
    note_at_work(weather.warehouse, run.run_id, seconds_ago(lost_runs.SILENT_SECONDS + 1))
    assert requested(server.tick()) == ["sync"]
    assert status(server.instance, run) is ends_as
    assert noted_at_work(weather.warehouse, run.run_id) is None


def test_a_run_that_says_that_it_lives_is_waited_for_and_one_that_has_just_begun_too(
    weather: Stream, server: CodeServer
) -> None:
    run = run_of(server.instance, ASSETS.name("sync"), OF_SYNC, STARTED)
    assert requested(server.tick()) == []
    note_at_work(weather.warehouse, run.run_id, seconds_ago(lost_runs.SILENT_SECONDS - 5))
    assert requested(server.tick()) == []
    assert status(server.instance, run) is STARTED


def test_a_run_whose_process_on_this_machine_is_gone_is_found_out_sooner(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    run = run_of(server.instance, ASSETS.name("sync"), OF_SYNC, STARTED)
    with monkeypatch.context() as patch:
        patch.setattr(runs_at_work.os, "getpid", lambda: ended.pid)
        note_at_work(weather.warehouse, run.run_id, seconds_ago(lost_runs.GONE_SECONDS + 1))
    assert requested(server.tick()) == ["sync"]


def test_a_run_of_a_container_that_was_started_again_is_found_out_sooner_although_its_process_has_a_namesake(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if process_began(os.getpid()) is None:
        pytest.skip("the system does not say when a process began")
    run = run_of(server.instance, ASSETS.name("sync"), OF_SYNC, STARTED)
    with monkeypatch.context() as patch:
        patch.setattr(runs_at_work, "process_began", lambda pid: 1)
        note_at_work(weather.warehouse, run.run_id, seconds_ago(lost_runs.GONE_SECONDS + 1))
    assert requested(server.tick()) == ["sync"]


def test_a_run_that_never_began_is_ended_where_its_code_server_ended_before_this_one_began(
    server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(server.instance, ASSETS.name("sync"), OF_SYNC, STARTING)
    monkeypatch.setattr(lost_runs, "STARTING_SECONDS", -1.0)
    assert requested(server.tick()) == [], "it was started while this process runs: Dagster gives it up"
    monkeypatch.setattr(lost_runs, "_THIS_PROCESS_BEGAN", float("inf"))
    assert requested(server.tick()) == ["sync"]
    assert status(server.instance, run) is dg.DagsterRunStatus.FAILURE


@pytest.mark.parametrize(("counts_as", "is_noted"), [(STARTING, False), (STARTED, False), (STARTED, True)])
def test_the_runs_of_a_code_server_that_was_killed_are_found_out_half_a_minute_after_it_and_not_sooner(
    weather: Stream,
    server: CodeServer,
    monkeypatch: pytest.MonkeyPatch,
    counts_as: dg.DagsterRunStatus,
    is_noted: bool,
) -> None:
    run = run_of(server.instance, ASSETS.name("sync"), OF_SYNC, counts_as)
    began = Clock().now_ms()
    if is_noted:
        with monkeypatch.context() as patch:
            patch.setattr(runs_at_work, "gethostname", lambda: "the-container-before")
            note_at_work(weather.warehouse, run.run_id, began)
    monkeypatch.setattr(lost_runs, "_THIS_PROCESS_BEGAN", began / 1000 + 5)
    asked = {}
    for seconds in (15, 30):
        monkeypatch.setattr(lost_runs, "Clock", lambda at=began + seconds * 1000: SimpleNamespace(now_ms=lambda: at))
        asked[seconds] = requested(server.tick())
    assert asked == {15: [], 30: ["sync"]}


def test_a_run_says_that_it_lives_until_it_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.01)
    warehouse = Warehouse(str(tmp_path))
    beats = Heartbeat(warehouse, "a-run")
    beats.begin()
    first = noted_at_work(warehouse, "a-run")
    assert first is not None
    assert not first.process_is_gone
    eventually(lambda: (noted_at_work(warehouse, "a-run") or first).at_ms > first.at_ms, "another beat")
    beats.end()
    assert list((tmp_path / runs_at_work.FOLDER).iterdir()) == []
