"""What it holds and takes while nothing happens, and at an event a second: memory and CPU of each part, as a person
runs it with `sfcdc dev`, and in the small form for a small machine."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil

from sfcdc_assets.emulator.events.first_change import make_first_change
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.emulator.traffic.traffic import TrafficGenerator
from sfcdc_assets_tests.benchmarks.org_process import (
    SEED,
    clean_environment,
    compare,
    environment,
    running,
    served_org,
    sfcdc,
    wait_for_tables,
)
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer
from sfcdc_assets_tests.documentation import ROOT

RECORDS = 300
READY_SECONDS = 600.0
HOUR_SECONDS, SHORT_SECONDS = 3600.0, 300.0
SAMPLE_SECONDS, SAMPLES = 5.0, 60
"""Between two samples at least, and how many are enough."""
WARM_SECONDS = 90.0
"""Spark ends workers that were idle for a minute; a code location that has just loaded is busy."""
PARTS = {
    "java": "Spark's Java",
    "sfcdc_assets.spark.worker_daemon": "Spark's Python",
    "spark": "Spark's Python",
    "sfcdc_assets.webserver": "webserver",
    "dagster_webserver": "webserver",
    "dagster._daemon": "daemon",
    "code-server": "code server",
    "api": "code server",
    "spawn_main": "runs",
}
"""A word of a process's command line -> its part, in the order of looking; what has none is the command itself."""
SMALL: Mapping[str, str] = {
    "SFCDC_SPARK_MASTER": "local[1]",
    "SFCDC_SPARK_CONF_SPARK__DRIVER__MEMORY": "512m",
}
"""docs/running.md, "On a machine of 2 GB"."""
AT_THE_BEGINNING = "at its beginning"
_MB = 1024 * 1024


@dataclass
class Taken:
    """What a command and all below it were seen to hold and take. `memory`: MB by part, a number a sample, of what is
    its own (a page that several processes share counts once); `cpu`: seconds by part; `seconds`: for how long."""

    memory: dict[str, list[float]] = field(default_factory=dict)
    cpu: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def total(self) -> list[float]:
        """MB of all parts, a number a sample."""
        length = max(map(len, self.memory.values()))
        return [sum(each[number] for each in self.memory.values()) for number in range(length)]

    @property
    def shares(self) -> Mapping[str, float]:
        """Percent of a core, by part."""
        return {part: 100 * seconds / self.seconds for part, seconds in self.cpu.items()}

    @property
    def share(self) -> float:
        """Percent of a core."""
        return sum(self.shares.values())


def measure(quick: bool) -> Sequence[Figure]:
    """Idle, then at an event a second, for an hour each; for minutes Dagster with a code location that has nothing in
    it, and the small form."""
    seconds, short, warm = (10.0, 10.0, 0.0) if quick else (HOUR_SECONDS, SHORT_SECONDS, WARM_SECONDS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone = _dagster_alone(folder / "alone", short, warm)
        with served_org(folder, RECORDS) as (org, server):
            make_first_change(org, server.bus)
            idle, busy = _of_dev(org, server, folder / "dev", seconds, warm)
            small = _of_small_form(org, server, folder / "small", short, warm)
    beyond = [one - median(alone.total) for one in idle.total]
    return [
        Figure("`sfcdc dev`, idle", "MB", idle.total, {"Dagster, an empty location": alone.total}),
        Figure("`sfcdc dev`, idle, beyond what Dagster takes", "MB", beyond, goal=Goal(700)),
        *(Figure(f"of this: {part}", "MB", sizes) for part, sizes in sorted(idle.memory.items())),
        Figure("`sfcdc dev`, an event a second", "MB", busy.total, {"idle": idle.total}),
        flat("`sfcdc dev`, idle, at the end of the time", idle.total),
        flat("`sfcdc dev`, an event a second, at the end of the time", busy.total),
        Figure("`sfcdc dev`, idle", "% of a core", [idle.share], {"Dagster, an empty location": [alone.share]}),
        Figure("idle, beyond what Dagster takes", "% of a core", [idle.share - alone.share], goal=Goal(1)),
        *(Figure(f"of this: {part}", "% of a core", [share]) for part, share in sorted(idle.shares.items())),
        Figure("`sfcdc dev`, an event a second", "% of a core", [busy.share]),
        Figure("the small form, an event a second", "MB", small.total, goal=Goal(1_000)),
        Figure("the small form, an event a second", "% of a core", [small.share]),
    ]


def flat(case: str, sizes: Sequence[float]) -> Figure:
    """The last sixth of the samples beside the first one, which is after the warm-up: memory that stays as it is."""
    sixth = max(1, len(sizes) // 6)
    return Figure(case, "MB", sizes[-sixth:], {AT_THE_BEGINNING: sizes[:sixth]}, Goal(1.1, of=AT_THE_BEGINNING))


def _dagster_alone(folder: Path, seconds: float, warm: float) -> Taken:
    """Dagster's own processes over an asset that does nothing."""
    folder.mkdir()
    (folder / "nothing.py").write_text(
        "import dagster as dg\n\n\n@dg.asset\ndef nothing():\n    pass\n\n\ndefs = dg.Definitions([nothing])\n"
    )
    home = folder / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    command = [sys.executable, "-m", "dagster", "dev", "-f", "nothing.py", "-h", "127.0.0.1", "-p", "0"]
    env = {**clean_environment(), "DAGSTER_HOME": str(home)}
    with (folder / "log").open("wb") as log:
        process = psutil.Popen(command, cwd=folder, env=env, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not {"daemon", "code server"} <= {_part(each) for each in _all(process)}:
            if process.poll() is not None or time.monotonic() > deadline:
                raise WrongAnswer(f"dagster dev did not start: {(folder / 'log').read_text()[-2000:]}")
            time.sleep(0.5)
        time.sleep(warm or SAMPLE_SECONDS)
        return _watch(process, seconds)
    finally:
        for each in reversed(_all(process)):
            with suppress(psutil.NoSuchProcess):
                each.terminate()
        process.wait(READY_SECONDS)


def _of_dev(org: EmulatedOrg, server: EmulatorServer, folder: Path, seconds: float, warm: float) -> tuple[Taken, Taken]:
    """Idle, and at an event a second."""
    folder.mkdir()
    arguments = ("dev", "--dir", str(folder / "dev"), "--port", "0", "--yes")
    with _following(org, server, folder, *arguments) as process:
        time.sleep(warm)
        idle = _watch(process, seconds)
        busy = _watch(process, seconds, TrafficGenerator(org, SEED, bus=server.bus))
    _compare(org, server, folder)
    return idle, busy


def _of_small_form(org: EmulatedOrg, server: EmulatorServer, folder: Path, seconds: float, warm: float) -> Taken:
    """At an event a second."""
    folder.mkdir()
    with _following(org, server, folder, "sync", "--watch", **SMALL) as process:
        time.sleep(warm)
        taken = _watch(process, seconds, TrafficGenerator(org, SEED + 1, bus=server.bus))
    _compare(org, server, folder)
    return taken


@contextmanager
def _following(
    org: EmulatedOrg, server: EmulatorServer, folder: Path, *arguments: str, **more: str
) -> Iterator[psutil.Process]:
    """A command that follows the org, and has every table by now."""
    env, log = environment(server, folder, **more), folder / "log"
    with running(*arguments, env=env, cwd=ROOT, log=log) as process:
        wait_for_tables(process, folder, org.selected_entities, log, READY_SECONDS)
        yield psutil.Process(process.pid)


def _compare(org: EmulatedOrg, server: EmulatorServer, folder: Path) -> None:
    sfcdc("sync", "--until-caught-up", env=environment(server, folder), cwd=folder)
    compare(org, folder)


def _watch(process: psutil.Process, seconds: float, traffic: TrafficGenerator | None = None) -> Taken:
    """Look at a process and all below it; with traffic, of an event a second."""
    taken, began, before = Taken(), time.monotonic(), _cpu(process)
    samples, pause = 0, max(SAMPLE_SECONDS, seconds / SAMPLES)
    while (passed := time.monotonic() - began) < seconds:
        if traffic is not None:
            traffic.step()
        if passed >= samples * pause:
            sizes = Counter[str]()
            for each in _all(process):
                with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    sizes[_part(each)] += each.memory_full_info().pss / _MB
            for part in {*taken.memory, *sizes}:
                earlier = taken.memory.setdefault(part, [0.0] * samples)
                earlier.append(sizes[part])
            samples += 1
        time.sleep(1.0)
    taken.seconds, after = time.monotonic() - began, _cpu(process)
    taken.cpu = {part: seconds - before.get(part, 0.0) for part, seconds in after.items()}
    return taken


def _cpu(process: psutil.Process) -> Mapping[str, float]:
    """Seconds of a process and all below it, by part; those that have ended are with their parents."""
    found = Counter[str]()
    for each in _all(process):
        with suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            found[_part(each)] += times.user + times.system + times.children_user + times.children_system
    return found


def _all(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return [process, *process.children(recursive=True)]
    return []


def _part(process: psutil.Process) -> str:
    """Return the part that a process belongs to, by its command line, or by that of whoever started it."""
    try:
        words = process.cmdline()
        parent = process.parent()
    except psutil.NoSuchProcess:
        return "ended"
    names = [Path(words[0]).name, *words[1:]] if words else []
    for word, part in PARTS.items():
        if any(word == each or (word == "spawn_main" and word in each) for each in names):
            return part
    return _part(parent) if parent is not None and parent.pid != psutil.Process().pid else "the command"


STAGE = Stage(
    title="Footprint, 8 objects",
    measure=measure,
    compared="Afterwards every row of every table is compared with the org's log, field by field.",
    limit="The libraries that each process loads: Dagster, Arrow, Polars and delta-rs 200 MB for each of those that "
    "have them, a JVM 300. A page that processes share counts once.",
)
