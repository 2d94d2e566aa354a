"""A standalone Spark cluster on loopback: a master and workers, processes of the pip package's own Spark."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.eventually import eventually

BOUND_SECONDS = 300.0
LOOPBACK = "127.0.0.1"


_OPTIONS = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "4",
}


@dataclass
class SparkCluster:
    """Where the master listens, and its workers' processes."""

    folder: Path
    url: str
    of_workers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Their environment."""
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """Settings of one who uses the cluster, and keeps Spark's event log."""
        settings = {f"SFCDC_SPARK_CONF_{name}": value for name, value in self._options.items()}
        return {"SFCDC_SPARK_MASTER": self.url, **settings}

    @property
    def _options(self) -> dict[str, str]:
        return {
            **_OPTIONS,
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": (self.folder / "events").as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }

    @contextmanager
    def connect_server(self) -> Iterator[str]:
        """A Spark Connect server whose application runs on the cluster; its URL. It has the workers' environment, and
        no clients when it is ended."""
        options = {
            **self._options,
            "spark.ui.enabled": "false",
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": "0",
        }
        conf = [part for name, value in options.items() for part in ("--conf", f"{name}={value}")]
        main = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", self.url]
        server = _start(self.folder, "connect", self.of_workers, "spark-submit", *main, *conf)
        try:
            port = _said(self.folder / "connect.log", r"Spark Connect server started at: \S*?:(\d+)")
            yield f"sc://{LOOPBACK}:{port}"
        finally:
            _kill(server)

    def tasks_by_executor(self) -> dict[tuple[str, int], Counter[str]]:
        """Application and stage -> executor -> tasks that it ended well, from Spark's event logs so far."""
        stages: dict[tuple[str, int], Counter[str]] = {}
        for log in sorted((self.folder / "events").iterdir()):
            for line in log.read_text().splitlines():
                event = json.loads(line)
                if event["Event"] == "SparkListenerTaskEnd" and event["Task End Reason"]["Reason"] == "Success":
                    stages.setdefault((log.name, event["Stage ID"]), Counter())[event["Task Info"]["Executor ID"]] += 1
        return stages

    def kill(self, number: int) -> None:
        """End a worker and its executors at once, as when its machine is gone."""
        _kill(self.workers[number])

    def kill_executors(self, number: int) -> None:
        """End the processes of a worker's executors at once, as when they run out of memory; it starts others."""
        for each in self.executors()[number]:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)

    def executors(self) -> dict[int, list[int]]:
        """Worker (by number) -> processes of its executors."""
        return {number: _children(worker.pid) for number, worker in enumerate(self.workers)}


@contextmanager
def spark_cluster(
    folder: Path, workers: int = 2, environment: Mapping[str, str] | None = None
) -> Iterator[SparkCluster]:
    """A master and so many workers of one core each; `environment`: of the workers, and so of their tasks."""
    (folder / "events").mkdir(parents=True)
    python = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "JAVA_HOME")}
    whole = {**kept, "SPARK_LOCAL_IP": LOOPBACK, **python, **(environment or {})}
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(_daemon(folder, "master", whole, "master.Master", "--host", LOOPBACK, "--port", "0"))
        url = _said(folder / "master.log", r"Starting Spark master at (spark://\S+)")
        cluster = SparkCluster(folder, url, whole)
        for number in range(workers):
            name = f"worker{number}"
            arguments = ("--host", LOOPBACK, "--cores", "1", "--memory", "1g", "--work-dir", str(folder / name), url)
            worker = _daemon(folder, name, whole, "worker.Worker", *arguments)
            started.append(worker)
            cluster.workers.append(worker)
        for number in range(workers):
            _said(folder / f"worker{number}.log", r"(Successfully registered with master)")
        yield cluster
    finally:
        for process in reversed(started):
            _kill(process)


def _daemon(
    folder: Path, name: str, environment: Mapping[str, str], of_deploy: str, *arguments: str
) -> subprocess.Popen[bytes]:
    start = (f"org.apache.spark.deploy.{of_deploy}", "--webui-port", "0")
    return _start(folder, name, {**environment, "SPARK_DAEMON_MEMORY": "256m"}, "spark-class", *start, *arguments)


def _start(
    folder: Path, name: str, environment: Mapping[str, str], script: str, *arguments: str
) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.log").open("wb") as output:
        return subprocess.Popen(
            [str(Path(pyspark.__file__).parent / "bin" / script), *arguments],
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _said(log: Path, pattern: str) -> str:
    found = eventually(
        lambda: re.search(pattern, log.read_text()),
        lambda: f"{log.name} to say {pattern!r}: {log.read_text()[-2000:]}",
        seconds=BOUND_SECONDS,
    )
    assert found is not None
    return found[1]


def _children(process: int) -> list[int]:
    """Those of all of its threads: a worker's executors are not children of its first one."""
    direct: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError):
                direct += map(int, (thread / "children").read_text().split())
    return [each for child in direct for each in (child, *_children(child))]


def _kill(process: subprocess.Popen[bytes]) -> None:
    # A worker's executors may be in process groups of their own.
    for each in (*_children(process.pid), process.pid):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    process.wait(BOUND_SECONDS)
