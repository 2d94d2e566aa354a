"""A syncing process, and the moments at which it can be killed: seen from outside, in the org and in the warehouse."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sfcdc_assets.emulator.serving.server import EmulatorServer

LOOK_EVERY_SECONDS = 0.002
GIVE_UP_SECONDS = 300.0
"""On a very busy machine a JVM takes minutes to start and to have work done."""
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"


@dataclass(frozen=True)
class Moment:
    """When to kill: as soon as `count()` has grown by `more` since the process was started."""

    name: str
    count: Callable[[], int]
    more: int


def moments(server: EmulatorServer, warehouse: Path) -> dict[str, Callable[[], int]]:
    """What of a sync's progress can be counted from outside, by the name of what it is doing then."""

    def files(pattern: str) -> Callable[[], int]:
        return lambda: sum(1 for _ in warehouse.glob(pattern))

    return {
        "polling": lambda: server.service.open_streams,
        "receiving": lambda: server.meter.total,
        "landing": files("raw_events/entity_name=*/*.parquet"),
        "landed": files("raw_events/_delta_log/*.json"),
        "reading pages": files("snapshot/*/_snapshot=*/*.parquet"),
        "keeping pages": files("snapshot/*/_delta_log/*.json"),
        "decoding": lambda: workers_of_spark(str(warehouse)),
        "merging": files("current_state/*/*.parquet"),
        "committing": files("current_state/*/_delta_log/*.json"),
    }


def workers_of_spark(mark: str) -> int:
    """Python processes that Spark has started for the sync whose environment holds `mark`."""
    found = 0
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and b"sfcdc_assets.spark.worker_daemon" in (process / "cmdline").read_bytes():
                found += mark.encode() in (process / "environ").read_bytes()
        except OSError:
            continue  # it ended while we looked
    return found


class SyncProcess:
    """`sfcdc sync --until-caught-up` with its JVM, in a process group of its own."""

    def __init__(self, log: Path) -> None:
        """Start it with the settings of the environment; what it says is appended to `log`."""
        root = Path(__file__).parents[3]
        environment = {
            **os.environ,
            "PYTHONPATH": str(root),
            "SFCDC_SETTLE_SECONDS": "1",
            "SFCDC_SPARK_MASTER": "local[2]",
            "SFCDC_SPARK_CONF_spark.driver.extraJavaOptions": QUICK_JVM,
        }
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sfcdc_assets_tests.pipeline.small_batches", "sync", "--until-caught-up"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )

    def kill_at(self, moment: Moment) -> bool:
        """Kill all of it at the moment; False when it had ended before the moment came."""
        base = moment.count()
        deadline = time.monotonic() + GIVE_UP_SECONDS
        try:
            while moment.count() < base + moment.more:
                if self.process.poll() is not None:
                    return False
                assert time.monotonic() < deadline, f"{moment.name} +{moment.more} did not come"
                time.sleep(LOOK_EVERY_SECONDS)
            return self.process.poll() is None
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL to the process and its JVM; Python workers of Spark end when their JVM is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(GIVE_UP_SECONDS)
