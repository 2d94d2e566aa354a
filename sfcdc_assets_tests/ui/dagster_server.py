"""A running `sfcdc dev` and what it says by GraphQL: waiting for conditions, never for time."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfcdc_assets.salesforce.query import query_rows
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets_tests.cli.command import SCRIPT
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.pipeline.failures.killed_sync import QUICK_JVM
from sfcdc_assets_tests.pipeline.fixtures import SPARK_OF_TESTS

ROOT = Path(__file__).parents[2]
QUICK = {**SPARK_OF_TESTS, "SFCDC_SPARK_CONF_spark.driver.extraJavaOptions": QUICK_JVM}
"""Each run starts a JVM."""
_REPOSITORY = {"repositoryName": "__repository__", "repositoryLocationName": "sfcdc_assets"}


def ask(url: str, text: str, **variables: object) -> Any:
    """The data of a GraphQL query to a Dagster UI."""
    request = urllib.request.Request(
        f"{url}/graphql",
        json.dumps({"query": text, "variables": variables}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=BOUND_SECONDS) as answer:
        reported = json.load(answer)
    assert not reported.get("errors"), reported["errors"]
    return reported["data"]


def processes(home: Path) -> dict[int, str]:
    """Living processes that a Dagster home was given to: id -> command line."""
    given = f"DAGSTER_HOME={home}".encode()
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if given in (process / "environ").read_bytes().split(b"\0"):
                found[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it has ended meanwhile
    return {number: command for number, command in found.items() if command}


class DagsterServer:
    """`sfcdc dev` in a folder of its own, on a free port."""

    def __init__(
        self,
        folder: Path,
        entities: Sequence[str],
        records: int,
        script: Path = SCRIPT,
        cwd: Path = ROOT,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`environment`: settings of other orgs than the emulated one that it would start."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SFCDC_", "DAGSTER_"))}
        command = [str(script), "dev", "--dir", str(folder), "--port", "0"]
        command += ["--records", str(records), "--traffic", "0.3", "--yes"]
        self.folder = folder
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env={
                **kept,
                **QUICK,
                "SFCDC_ENTITIES": ",".join(entities),
                "SFCDC_SAMPLE_ROWS": "10",
                **(environment or {}),
            },
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        self.said: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()
        self.url = self.wait(self._announced, 240, "the UI to come up")

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Interrupt it; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=BOUND_SECONDS)

    def left(self) -> list[str]:
        """Command lines of the living processes that Dagster's home was given to."""
        return list(processes(self.folder / "dagster_home").values())

    def wait(self, condition: Callable[[], Any], seconds: float, what: str) -> Any:
        """The condition's first true value; fails with what was said after so many seconds."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.process.poll() is None, "sfcdc dev ended: " + "".join(self.said)
            if found := condition():
                return found
            time.sleep(0.3)
        raise AssertionError(f"waited {seconds:.0f} s for {what}; said: {''.join(self.said[-30:])}")

    def query(self, text: str, **variables: object) -> Any:
        """The data of a GraphQL query."""
        return ask(self.url, text, **variables)

    def run_ids(self, job: str, status: str) -> list[str]:
        """Runs of a job that have this status."""
        found = self.query(
            "query($f: RunsFilter) { runsOrError(filter: $f) { ... on Runs { results { runId } } } }",
            f={"pipelineName": f"salesforce_{job}", "statuses": [status]},
        )
        return [run["runId"] for run in found["runsOrError"]["results"]]

    def succeeded(self, job: str, seconds: float) -> str:
        """Wait for a successful run of the job. Fails at once when one fails."""

        def ended() -> list[str]:
            assert not self.run_ids(job, "FAILURE"), "".join(self.said[-30:])
            return self.run_ids(job, "SUCCESS")

        return self.wait(ended, seconds, f"a successful {job} run")[0]

    def partition_keys(self, asset: str) -> list[str]:
        """Keys of an asset's partitions, in Dagster's order."""
        found = self.query(
            "query($k: AssetKeyInput!) { assetNodeOrError(assetKey: $k) { ... on AssetNode { partitionKeys } } }",
            k={"path": ["salesforce", asset]},
        )
        return found["assetNodeOrError"]["partitionKeys"]

    def sources_of_columns(self, asset: str, partition: str | None = None) -> dict[str, list[str]]:
        """Column -> the columns it comes from, as the newest materialization with columns says: those between two
        reports of the same columns lead to that one."""
        found = self.query(
            "query($k: AssetKeyInput!, $p: [String!]) { assetNodeOrError(assetKey: $k) { ... on AssetNode {"
            " assetMaterializations(partitions: $p, limit: 1000) { metadataEntries {"
            " ... on TableColumnLineageMetadataEntry"
            " { lineage { columnName columnDeps { assetKey { path } columnName } } } } } } } }",
            k={"path": ["salesforce", asset]},
            p=None if partition is None else [partition],
        )
        reported = (
            entry["lineage"]
            for materialization in found["assetNodeOrError"]["assetMaterializations"]
            for entry in materialization["metadataEntries"]
            if entry.get("lineage")
        )
        return {
            column["columnName"]: [f"{dep['assetKey']['path'][-1]}.{dep['columnName']}" for dep in column["columnDeps"]]
            for column in next(reported)
        }

    def figures(self, asset: str, entity: str) -> dict[str, list[float]]:
        """What is plotted of a partition: the numbers of its materializations by name, newest first."""
        found = self.query(
            "query($k: AssetKeyInput!, $p: [String!]) { assetNodeOrError(assetKey: $k) { ... on AssetNode {"
            " assetMaterializations(partitions: $p, limit: 100) { metadataEntries { label"
            " ... on IntMetadataEntry { intRepr } ... on FloatMetadataEntry { floatValue } } } } } }",
            k={"path": ["salesforce", asset]},
            p=[entity],
        )
        figures: dict[str, list[float]] = {}
        for materialization in found["assetNodeOrError"]["assetMaterializations"]:
            for entry in materialization["metadataEntries"]:
                number = entry.get("intRepr", entry.get("floatValue"))
                if number is not None:
                    figures.setdefault(entry["label"], []).append(float(number))
        return figures

    def launch(self, job: str, **config: object) -> str:
        """Launch a job, as the button in the UI does; its run's id."""
        answer = self.query(
            "mutation($p: ExecutionParams!) { launchRun(executionParams: $p)"
            " { __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }",
            p={"selector": {**_REPOSITORY, "jobName": f"salesforce_{job}"}, "runConfigData": config},
        )
        assert answer["launchRun"]["__typename"] == "LaunchRunSuccess", answer
        return str(answer["launchRun"]["run"]["runId"])

    def steps(self, run_id: str) -> list[str]:
        """Steps of a run that ended well, in order."""
        found = self.query(
            "query($id: ID!) { runOrError(runId: $id) { ... on Run { stepStats { stepKey status startTime } } } }",
            id=run_id,
        )
        ended = [each for each in found["runOrError"]["stepStats"] if each["status"] == "SUCCESS"]
        return [each["stepKey"] for each in sorted(ended, key=lambda each: each["startTime"])]

    def change(self, entity: str, values: dict[str, object]) -> None:
        """Change a record in the org, as any of its clients does."""
        with OrgSession(Settings(_env_file=self.folder / "org.env")) as session:
            (first, *_) = query_rows(session, f"SELECT Id FROM {entity} ORDER BY Id LIMIT 1")
            session.request("PATCH", f"sobjects/{entity}/{first['Id']}", json=values)

    @contextmanager
    def hidden_rows(self, entity: str) -> Iterator[None]:
        """The files of an entity's `current_state` are gone meanwhile, as on a disk that was not mounted."""
        folder = self.folder / "warehouse" / "current_state" / entity
        aside = {file: file.with_suffix(".aside") for file in folder.rglob("*.parquet")}
        for file, other in aside.items():
            file.rename(other)
        try:
            yield
        finally:
            for file, other in aside.items():
                other.rename(file)

    def come_to_rest(self, sensor: str) -> None:
        """Switch the sensor off and wait until no run is at work."""
        self.switch_off(sensor)
        unfinished = ("QUEUED", "NOT_STARTED", "STARTING", "STARTED")
        self.wait(
            lambda: not any(self.run_ids(job, each) for job in ("sync", "snapshot") for each in unfinished),
            120,
            "all runs to end",
        )

    def ends(self, job: str, status: str, seconds: float, **config: object) -> str:
        """Launch a job; its run's id when that has ended so."""
        launched = self.launch(job, **config)
        self.wait(lambda: launched in self.run_ids(job, status), seconds, f"a run of {job} to end as {status}")
        return launched

    def partition_counts(self, asset: str) -> dict[str, int]:
        """How many partitions of an asset are materialized, failed, and under way."""
        found = self.query(
            "query($k: AssetKeyInput!) { assetNodeOrError(assetKey: $k) { ... on AssetNode { partitionStats"
            " { numMaterialized numFailed numMaterializing } } } }",
            k={"path": ["salesforce", asset]},
        )
        return dict(found["assetNodeOrError"]["partitionStats"])

    def checks(self, asset: str) -> dict[str, bool | None]:
        """Check -> whether it passed for the newest materialization; None when it was not evaluated since."""
        found = self.query(
            "query($k: AssetKeyInput!) { assetNodeOrError(assetKey: $k) { ... on AssetNode { assetChecksOrError {"
            " ... on AssetChecks { checks { name executionForLatestMaterialization { evaluation { success } } } }"
            " } } } }",
            k={"path": ["salesforce", asset]},
        )
        return {
            check["name"]: (check["executionForLatestMaterialization"] or {}).get("evaluation", {}).get("success")
            for check in found["assetNodeOrError"]["assetChecksOrError"]["checks"]
        }

    def tick_statuses(self, sensor: str) -> list[str]:
        """Statuses of a sensor's ticks, newest first."""
        found = self.query(
            "query($s: SensorSelector!) { sensorOrError(sensorSelector: $s)"
            " { ... on Sensor { sensorState { ticks(limit: 20) { status } } } } }",
            s={**_REPOSITORY, "sensorName": sensor},
        )
        return [tick["status"] for tick in found["sensorOrError"]["sensorState"]["ticks"]]

    def runs_asked_for(self, sensor: str) -> list[str]:
        """Runs that a sensor's ticks asked for, newest first."""
        found = self.query(
            "query($s: SensorSelector!) { sensorOrError(sensorSelector: $s)"
            " { ... on Sensor { sensorState { ticks(limit: 20, statuses: [SUCCESS]) { runIds } } } } }",
            s={**_REPOSITORY, "sensorName": sensor},
        )
        return [run for tick in found["sensorOrError"]["sensorState"]["ticks"] for run in tick["runIds"]]

    def switch_off(self, sensor: str) -> None:
        """Stop a sensor, as its switch in the UI does."""
        found = self.query(
            "query($s: SensorSelector!) { sensorOrError(sensorSelector: $s) { ... on Sensor { sensorState { id } } } }",
            s={**_REPOSITORY, "sensorName": sensor},
        )
        answer = self.query(
            "mutation($id: String!) { stopSensor(id: $id) { __typename } }",
            id=found["sensorOrError"]["sensorState"]["id"],
        )
        assert answer["stopSensor"]["__typename"] == "StopSensorMutationResult", answer

    def _announced(self) -> str | None:
        found = re.search(r"UI is on (http://\S+)", "".join(self.said))
        return found.group(1) if found else None

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
