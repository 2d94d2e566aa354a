"""Dagster's own daemons in simulated time: their loops over sensors, schedules, the queue of runs and its monitoring.

Ticks and runs are in this process, as nobody else could have the clock. What happens at the same time elsewhere happens
in turns here: while a run waits for what lands, the sensors tick; another run begins when it has ended.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest
import yaml
from dagster._core import log_manager
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.test_utils import create_test_daemon_workspace_context, get_freezable_log_manager
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster._daemon.monitoring import execute_run_monitoring_iteration
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon
from dagster._daemon.sensor import execute_sensor_iteration
from dagster._scheduler.scheduler import ScheduleIterationTimes, launch_scheduled_runs
from dagster._utils.error import SerializableErrorInfo

from sfcdc_assets.apply import follow_run
from sfcdc_assets.cli.local_dagster.dagster_home import INSTANCE
from sfcdc_assets.orchestration.sensors.instance_of_ticks import close_instances
from sfcdc_assets.runtime import clock

LOOP_SECONDS = 5.0
"""From one look of the sensors' daemon to the next."""
MINUTE = 60
LOCATION = "sfcdc_assets.definitions"
_RUNS_HERE = {"module": "dagster._core.launcher.sync_in_memory_run_launcher", "class": "SyncInMemoryRunLauncher"}


class SimulatedDaemon:
    """What `dagster-daemon run` does, when it is asked to look."""

    def __init__(self, instance: dg.DagsterInstance, workspace: WorkspaceProcessContext) -> None:
        self.instance = instance
        self.errors: list[str] = []
        """That the loops caught, as the daemon's log has them."""
        self._workspace = workspace
        self._queue = QueuedRunCoordinatorDaemon(interval_seconds=1)
        self._iteration_times: dict[str, ScheduleIterationTimes] = {}
        self._minute = 0
        self._runs = False
        self._log = logging.getLogger("dagster.daemon.simulated")

    def look(self) -> None:
        """One turn of each loop that is due."""
        self._take(execute_sensor_iteration(self._workspace, self._log, None, None))
        now = clock.now()
        minute = int(now.timestamp()) // MINUTE
        if minute != self._minute:
            self._minute = minute
            self._take(
                launch_scheduled_runs(
                    self._workspace, self._log, end_datetime_utc=now, iteration_times=self._iteration_times
                )
            )
            self._take(execute_run_monitoring_iteration(self._workspace, self._log))
        if not self._runs:
            self._runs = True
            try:
                self._take(self._queue.run_iteration(self._workspace))
            finally:
                self._runs = False

    def _take(self, turn: Iterable[object]) -> None:
        self.errors += [str(each) for each in turn if isinstance(each, SerializableErrorInfo)]


@contextmanager
def simulated_daemon(
    home: Path, patch: pytest.MonkeyPatch, meanwhile: Callable[[float], None]
) -> Iterator[SimulatedDaemon]:
    """A daemon over an instance as `sfcdc dev` has it, in the folder `home`, by the clock that is used now.
    `meanwhile`: lets so many seconds pass while a run waits for what lands."""
    home.mkdir()
    config = yaml.safe_load(INSTANCE.read_text()) | {"run_launcher": _RUNS_HERE}
    (home / "dagster.yaml").write_text(yaml.safe_dump(config))
    patch.setattr("dagster._time._mockable_get_current_datetime", clock.now)
    patch.setattr("dagster._time._mockable_get_current_timestamp", lambda: clock.now_ms() / 1000)
    patch.setattr(log_manager, "DagsterLogManager", get_freezable_log_manager())
    waits = SimpleNamespace(current=clock.current, sleep=lambda seconds: meanwhile(max(seconds, LOOP_SECONDS)))
    patch.setattr(follow_run, "clock", waits)
    origin = InProcessCodeLocationOrigin(
        LoadableTargetOrigin(executable_path=sys.executable, module_name=LOCATION), location_name=LOCATION
    )
    with (
        dg.DagsterInstance.from_config(str(home)) as instance,
        create_test_daemon_workspace_context(InProcessWorkspaceLoadTarget(origin), instance) as workspace,
    ):
        try:
            yield SimulatedDaemon(instance, workspace)
        finally:
            close_instances()
