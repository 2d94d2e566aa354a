"""Ctrl-C and SIGTERM: one sentence, exit code 130 or 143, nothing left behind, and tables whole."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.emulator.traffic.traffic import TrafficGenerator
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.failures.killed_sync import moments, workers_of_spark
from sfcdc_assets_tests.pipeline.failures.stopped_command import Command, Stopped

SEED = 31

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc"), pytest.mark.slow]


def assert_stopped(stopped: Stopped, number: signal.Signals) -> None:
    """It said so in one line, at its end, beside its progress and what Spark says when it starts."""
    assert stopped.code == 128 + number, stopped
    assert stopped.left == [], stopped
    assert not any(word in stopped.said for word in ("Traceback", "Exception", "Error")), stopped.said
    lines = stopped.said.splitlines()
    assert lines[-1].startswith("sfcdc: stopped by "), stopped.said
    assert sum(line.startswith("sfcdc:") for line in lines) == 1, stopped.said


@pytest.mark.timeout(1500)
def test_a_sync_that_is_stopped_at_any_moment_ends_at_once_and_the_next_one_completes_it(
    make_pipeline: Callable[..., EmulatedPipeline], tmp_path: Path
) -> None:
    pipeline = make_pipeline("Account", "Contact", records=110)
    counts = moments(pipeline.server, pipeline.warehouse)
    made = TrafficGenerator(pipeline.org, SEED, bus=pipeline.server.bus)
    home = tmp_path / "dagster_home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")

    def sync() -> Command:
        made.run(events=30)
        return Command(tmp_path / "sync.log", "sync", "--until-caught-up", DAGSTER_HOME=str(home))

    def more(name: str, by: int) -> Callable[[], bool]:
        base = counts[name]()
        return lambda: counts[name]() >= base + by

    command = sync()
    assert_stopped(command.stop_when(lambda: command.handles(signal.SIGTERM), signal.SIGTERM), signal.SIGTERM)
    assert_stopped(sync().stop_when(more("polling", 1), signal.SIGINT), signal.SIGINT)
    command = sync()
    assert_stopped(command.stop_when(lambda: command.has_child("SparkSubmit"), signal.SIGTERM), signal.SIGTERM)
    assert_stopped(sync().stop_when(more("reading pages", 1), signal.SIGTERM), signal.SIGTERM)
    assert_stopped(sync().stop_when(more("merging", 1), signal.SIGINT), signal.SIGINT)
    made.run(events=30)
    watching = Command(tmp_path / "watch.log", "sync", "--watch", DAGSTER_HOME=str(home))
    assert_stopped(watching.stop_when(more("landed", 1), signal.SIGINT), signal.SIGINT)

    with dg.DagsterInstance.from_config(str(home)) as instance:
        runs = [run.status.value for run in instance.get_runs()]
    assert set(runs) == {"CANCELED", "SUCCESS"}, runs
    assert runs.count("CANCELED") == 2, runs

    pipeline.sync()
    pipeline.assert_equal_to_the_org()
    positions = sorted(event["position"] for event in pipeline.scan("raw_events"))
    assert positions == list(range(1, pipeline.server.bus.last_number + 1))


def test_an_audit_that_waits_for_a_page_of_the_org_is_stopped_at_once(synced: EmulatedPipeline, tmp_path: Path) -> None:
    faults = synced.server.rest_faults
    faults.arm(RestFault.TIMEOUT, path="/jobs/query", method="GET")
    command = Command(tmp_path / "verify.log", "verify", "--entity", "Account")
    assert_stopped(command.stop_when(lambda: not faults.armed(), signal.SIGINT), signal.SIGINT)


def test_a_rebuild_that_is_stopped_leaves_the_tables_as_they_were(synced: EmulatedPipeline, tmp_path: Path) -> None:
    before = synced.table("current_state/Account").version()
    command = Command(tmp_path / "rebuild.log", "rebuild", "--entity", "Account")
    stopped = command.stop_when(lambda: workers_of_spark(str(synced.warehouse)) > 0, signal.SIGTERM)
    assert_stopped(stopped, signal.SIGTERM)
    assert synced.table("current_state/Account").version() == before
    synced.assert_equal_to_the_org()


@pytest.mark.parametrize(("ending", "code"), [("None", 0), ("sys.exit(3)", 3)])
def test_a_command_that_ends_by_itself_keeps_its_exit_code(ending: str, code: int) -> None:
    program = "import sys\nfrom sfcdc_assets.cli.terminal.stopping import stop_on_signals, stops_at_once\n"
    program += f"stop_on_signals()\nstops_at_once(lambda: {ending})()"
    root = Path(__file__).parents[3]
    assert (
        subprocess.run([sys.executable, "-c", program], cwd=root, check=False, timeout=BOUND_SECONDS).returncode == code
    )
