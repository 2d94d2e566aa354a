"""Dagster itself, with its daemon and its code server, over an org in this process: ticks, a reload, a killed process.

No run is started: the stream is what counts here, and the runs stay in the queue while the sensor goes on.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable

from sfcdc_assets.cli.local_dagster.dagster_home import INSTANCE
from sfcdc_assets.cli.local_dagster.dagster_ui import DagsterUi
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.spark import standing
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.free_port import free_port
from sfcdc_assets_tests.ui.dagster_server import ask, processes

pytestmark = pytest.mark.slow


class RunningDagster:
    """`dagster dev` with the project's settings but for the runs, whose queue is never emptied."""

    def __init__(self, folder: Path, org: EmulatedOrg, server: EmulatorServer) -> None:
        self.home = folder / "dagster_home"
        self.home.mkdir()
        settings = yaml.safe_load(INSTANCE.read_text())
        settings["concurrency"]["runs"]["max_concurrent_runs"] = 0
        (self.home / "dagster.yaml").write_text(yaml.safe_dump(settings))
        self.org, self.server = org, server
        self._warehouse = folder / "warehouse"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SFCDC_", "DAGSTER_"))}
        environment = {
            **kept,
            **server.client_environment(),
            "SFCDC_WAREHOUSE": str(self._warehouse),
            "SFCDC_SETTLE_SECONDS": "2",
        }
        self.ui = DagsterUi(ROOT / "workspace.yaml", self.home, free_port(), environment)
        self.published = 0
        self._ids = [str(record["Id"]) for record in org.records("Account")]

    def change(self) -> None:
        """One transaction of one event."""
        with self.org.transaction() as work:
            work.update("Account", self._ids[self.published % len(self._ids)], {"Phone": str(self.published)})
        self.published += 1

    def change_for(self, seconds: float) -> None:
        """Four transactions a second."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.change()
            time.sleep(0.25)

    def landed(self) -> list[dict[str, Any]]:
        """Positions and ids of the landed events, in order; none before there is a table."""
        if not (self._warehouse / "raw_events" / "_delta_log").is_dir():
            return []
        rows = pa.table(DeltaTable(str(self._warehouse / "raw_events")).scan(columns=["position", "event_id"]))
        return sorted(rows.to_pylist(), key=lambda row: row["position"])

    def all_is_landed(self) -> bool:
        return len(self.landed()) >= self.published

    def assert_landed_once(self) -> None:
        landed = self.landed()
        assert [row["position"] for row in landed] == list(range(1, self.published + 1))
        assert len({row["event_id"] for row in landed}) == self.published

    def code_servers(self) -> list[int]:
        """The processes that evaluate sensors."""
        return [number for number, command in processes(self.home).items() if " api grpc " in command]

    def spark(self) -> standing.StandingSpark | None:
        """The one that the code server keeps, when it is ready."""
        found = standing.read(self.home / Settings().spark_standing)
        return None if found is None or found.is_starting else found

    def spark_processes(self) -> list[int]:
        return [number for number, command in processes(self.home).items() if "sfcdc_assets.cli spark" in command]

    def reload(self) -> None:
        """As the button in the UI does."""
        answer = ask(
            self.ui.url,
            "mutation($name: String!) { reloadRepositoryLocation(repositoryLocationName: $name)"
            " { __typename ... on WorkspaceLocationEntry { loadStatus } } }",
            name="sfcdc_assets",
        )
        assert answer["reloadRepositoryLocation"]["loadStatus"] == "LOADED", answer

    def ticks(self) -> list[str]:
        """Statuses of the sensor's last ticks, newest first."""
        selector = {
            "repositoryName": "__repository__",
            "repositoryLocationName": "sfcdc_assets",
            "sensorName": "salesforce_poll_ChangeEvents",
        }
        found = ask(
            self.ui.url,
            "query($s: SensorSelector!) { sensorOrError(sensorSelector: $s)"
            " { ... on Sensor { sensorState { ticks(limit: 100) { status } } } } }",
            s=selector,
        )
        return [each["status"] for each in found["sensorOrError"]["sensorState"]["ticks"]]

    def queued(self) -> list[dict[str, str]]:
        """Tags of the sensor's runs that wait, with the name of their job: a schedule may have asked for others."""
        found = ask(
            self.ui.url,
            "query { runsOrError(filter: {statuses: [QUEUED]})"
            " { ... on Runs { results { jobName tags { key value } } } } }",
        )
        runs = [
            {"job": run["jobName"], **{tag["key"]: tag["value"] for tag in run["tags"]}}
            for run in found["runsOrError"]["results"]
        ]
        return [run for run in runs if run.get("dagster/sensor_name") == "salesforce_poll_ChangeEvents"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDagster]:
    folder = tmp_path_factory.mktemp("code_server")
    org = EmulatedOrg(folder / "org", seed=3)
    try:
        org.selected_entities = ["Account"]
        org.populate(20)
        with EmulatorServer(org, directory=folder / "org") as server:
            dagster = RunningDagster(folder, org, server)
            dagster.change()  # so that the stream answers at once and not by its first keepalive
            with dagster.ui:
                eventually(dagster.ui.answers, "the UI")
                eventually(dagster.all_is_landed, "Dagster's first tick")
                yield dagster
            eventually(lambda: not processes(dagster.home), "all of Dagster's processes, and Spark's, to end")
            eventually(lambda: server.service.open_streams == 0, "the stream to end with Dagster")
    finally:
        org.close()


def test_many_ticks_read_one_open_stream_and_every_event_is_paid_once(running: RunningDagster) -> None:
    ticks, streams = len(running.ticks()), set()
    for _ in range(20):
        running.change_for(1)
        streams.add(running.server.service.open_streams)
    eventually(running.all_is_landed, "the ticks that land the rest")
    running.assert_landed_once()
    assert streams == {1}
    assert running.server.meter.total == running.published
    assert "FAILURE" not in running.ticks()
    assert len(running.ticks()) >= ticks + 3


def test_the_sensor_lands_while_its_run_is_only_queued_and_the_run_has_the_tags_that_slots_are_kept_by(
    running: RunningDagster,
) -> None:
    eventually(running.queued, "the first tick to end, which lands before it asks for a run")
    (run,) = running.queued()
    assert (run["job"], run["sfcdc/work"]) == ("salesforce_snapshot", "long")
    assert run["sfcdc/concurrency_key"] == "salesforce_snapshot /data/ChangeEvents"
    before = len(running.landed())
    running.change()
    eventually(running.all_is_landed, "the event that came while the run was queued")
    assert len(running.landed()) == before + 1
    assert len(running.queued()) == 1


def test_the_code_location_keeps_one_spark_for_its_runs(running: RunningDagster) -> None:
    eventually(running.spark, "the Spark that the first tick has started")
    found = running.spark()
    assert found is not None
    assert running.spark_processes() == [found.pid]
    (code_server,) = running.code_servers()
    status = Path(f"/proc/{found.pid}/status").read_text()
    assert f"PPid:\t{code_server}\n" in status
    assert "FAILURE" not in running.ticks()


def test_a_reload_of_the_code_location_hands_the_channel_over_and_the_old_stream_ends(running: RunningDagster) -> None:
    (old,) = running.code_servers()
    charged = running.server.meter.total - running.published
    running.change_for(1)
    running.reload()
    running.change_for(3)
    eventually(running.all_is_landed, "the new process to land")
    eventually(lambda: old not in running.code_servers(), "the old process to end")
    eventually(lambda: running.server.service.open_streams == 1, "the old stream to end")
    running.change_for(2)
    eventually(running.all_is_landed, "the new process to land more")
    running.assert_landed_once()
    assert running.server.meter.total - running.published - charged <= 20  # what was on its way to the old one


def test_a_killed_code_server_is_followed_by_one_that_goes_on_where_it_was(running: RunningDagster) -> None:
    charged = running.server.meter.total - running.published
    (killed,) = running.code_servers()
    eventually(running.spark, "the code server's Spark")
    kept = running.spark_processes()
    running.change_for(1)
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: running.server.service.open_streams == 0, "the org to see that the process is gone")
    running.change_for(2)
    running.reload()  # `dagster dev` starts another code server when it is asked to, not by itself
    eventually(running.all_is_landed, "the new process to land what the old one did not")
    running.change_for(2)
    eventually(running.all_is_landed, "the new process to land more")
    running.assert_landed_once()
    assert running.code_servers() != [killed]
    eventually(lambda: not set(kept) & set(running.spark_processes()), "the killed one's Spark to end by itself")
    eventually(lambda: len(running.spark_processes()) == 1 and running.spark(), "the new one's Spark")
    assert running.server.service.open_streams == 1
    assert running.server.meter.total - running.published - charged <= 20
