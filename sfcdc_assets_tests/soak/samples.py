"""What is noted every five seconds: memory, threads and open files of each part, disk, Dagster's database and ticks,
freshness."""

from __future__ import annotations

import json
import os
import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg2

from sfcdc_assets_tests.files_below import disk_use
from sfcdc_assets_tests.soak.deployment import Deployment
from sfcdc_assets_tests.soak.faults import command_line
from sfcdc_assets_tests.soak.freshness import Freshness

SAMPLE_SECONDS = 5.0
_MB = 1024 * 1024


@dataclass(frozen=True)
class Sample:
    """Megabytes, seconds and counts at a moment (s since the beginning). None where nobody answered: the database was
    gone, or no tick has ended since the sample before."""

    at: float
    memory_mb: dict[str, float]
    """By part: resident set, of all processes that it has. What the code server's container has is told apart."""
    warehouse_files: int
    warehouse_mb: float
    database_mb: float | None
    storage_mb: float
    """What runs print, in DAGSTER_HOME."""
    events: int | None
    """Rows of Dagster's event log."""
    tick_seconds: float | None
    """Of the sensors' ticks since the sample before, the median of those that landed or looked."""
    waits: float
    """How long the oldest change has waited that no reader sees yet."""
    suspects: int
    threads: Mapping[str, int] = field(default_factory=dict)
    """By part, as memory is. Soaks of before these were noted have none."""
    open_files: Mapping[str, int] = field(default_factory=dict)
    """By part: descriptors, sockets among them."""

    def line(self) -> str:
        """For who watches."""
        memory = ", ".join(f"{part} {size:.0f}" for part, size in self.memory_mb.items())
        return (
            f"oldest change waits {self.waits:.0f} s; tick {self.tick_seconds} s; {self.warehouse_files} files, "
            f"{self.warehouse_mb:.0f} MB; {self.events} events, {self.database_mb} MB; MB of memory: {memory}"
        )


class Samples:
    """Takes them in a thread."""

    def __init__(self, deployment: Deployment, warehouse: Path, freshness: Freshness) -> None:
        self._deployment, self._warehouse, self._freshness = deployment, warehouse, freshness
        self._stopping = threading.Event()
        self.began = time.time()
        self._last_tick = 0
        self.taken: list[Sample] = []

    @contextmanager
    def taking(self) -> Iterator[None]:
        """While entered; its moments count from then."""
        self.began = time.time()
        thread = threading.Thread(target=self._run, daemon=True, name="samples")
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            due = max(due + SAMPLE_SECONDS, time.monotonic())
            self.taken.append(self._sample())

    def _sample(self) -> Sample:
        look = self._freshness.last()
        files, size = disk_use(self._warehouse)
        database, events, tick = self._of_dagster()
        memory, threads, open_files = self._held()
        return Sample(
            at=round(time.time() - self.began, 1),
            memory_mb={part: round(size, 1) for part, size in memory.items()},
            warehouse_files=files,
            warehouse_mb=round(size / _MB, 1),
            database_mb=database,
            storage_mb=round(disk_use(self._deployment.home / "storage")[1] / _MB, 1),
            events=events,
            tick_seconds=tick,
            waits=round(look.waits, 1) if look else 0.0,
            suspects=look.suspects if look else 0,
            threads=threads,
            open_files=open_files,
        )

    def _held(self) -> tuple[dict[str, float], dict[str, int], dict[str, int]]:
        """Return the memory, threads and open files of each part."""
        memory: dict[str, float] = {}
        threads: dict[str, int] = {}
        files: dict[str, int] = {}
        main = self._deployment.code.main_process()
        for name, container in self._deployment.containers.items():
            for pid in container.processes():
                with suppress(OSError, IndexError):
                    part = name if container is not self._deployment.code or pid == main else _below_code_server(pid)
                    size, count, opened = _resident_mb(pid), threads_of(pid), open_files_of(pid)
                    memory[part] = memory.get(part, 0.0) + size
                    threads[part] = threads.get(part, 0) + count
                    files[part] = files.get(part, 0) + opened
        return memory, threads, files

    def _of_dagster(self) -> tuple[float | None, int | None, float | None]:
        try:
            connection = psycopg2.connect(**self._deployment.database(), connect_timeout=2)
        except psycopg2.Error:
            return None, None, None
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_database_size('dagster'), (SELECT count(*) FROM event_logs)")
                size, events = cursor.fetchone() or (0, 0)
                cursor.execute(
                    "SELECT id, tick_body FROM job_ticks WHERE type = 'SENSOR' AND id > %s AND status <> 'STARTED' "
                    "ORDER BY id",
                    (self._last_tick,),
                )
                ticks = cursor.fetchall()
        except psycopg2.Error:
            return None, None, None
        finally:
            connection.close()
        self._last_tick = max((number for number, _ in ticks), default=self._last_tick)
        took = [seconds for _, body in ticks if (seconds := _tick_seconds(body)) is not None]
        return round(size / _MB, 1), events, round(statistics.median(took), 2) if took else None


def _tick_seconds(body: str) -> float | None:
    """Of the channel's sensor alone."""
    tick = json.loads(body)
    if tick.get("end_timestamp") is None or not tick["job_name"].startswith("salesforce_poll_"):
        return None
    return float(tick["end_timestamp"]) - float(tick["timestamp"])


def _below_code_server(pid: int) -> str:
    words = command_line(pid)
    if Path(words[0]).name == "java":
        return "Spark's Java"
    return "runs" if any("spawn_main" in word for word in words) else "Spark's Python"


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / _MB


def threads_of(pid: int) -> int:
    """Return how many threads a process has. Raises `OSError` where it has ended."""
    return len(os.listdir(f"/proc/{pid}/task"))


def open_files_of(pid: int) -> int:
    """Return how many descriptors a process has. Raises `OSError` where it has ended."""
    return len(os.listdir(f"/proc/{pid}/fd"))
