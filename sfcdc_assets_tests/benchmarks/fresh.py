"""How fresh the tables are under `sfcdc dev`: from a commit in the org until a reader of the table sees it."""

from __future__ import annotations

import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sfcdc_assets.apply.follow_run import FOLLOW_SECONDS
from sfcdc_assets.emulator.events.first_change import make_first_change
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.emulator.traffic.traffic import TrafficGenerator
from sfcdc_assets.lake.tables.landing_commit import landing_commits
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.jobs.run_config import SYNC
from sfcdc_assets.orchestration.org_assets import PREFIX
from sfcdc_assets_tests.benchmarks.org_process import SEED, compare, environment, running, served_org, sfcdc
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer
from sfcdc_assets_tests.documentation import ROOT

RATE = 10.0
LOOK_SECONDS = 0.1
READY_SECONDS = 240.0
WINDOW_SECONDS = 1.5 * FOLLOW_SECONDS
"""Longer than a run goes on, so that one ends within it."""
CAUGHT_UP_SECONDS = 120.0
CHANNEL = "/data/ChangeEvents"
BESIDE_UPKEEP = "while tables are packed and vacuumed, the slowest"


@dataclass
class Seen:
    """What a reader saw of one table: at which moments (epoch s) it was applied up to which positions."""

    version: int = -1
    positions: list[int] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)

    def look(self, path: Path) -> None:
        """Open the table as any reader does when its log has another commit, and read it; the version counts from when
        it has been read."""
        if not (path / "_delta_log" / f"{self.version + 1:020}.json").exists():
            return
        table = DeltaTable(str(path))
        column = pa.table(table.scan(columns=["_position"]))["_position"]
        self.version = table.version()
        self.positions.append(pc.max(column).as_py() or 0)
        self.moments.append(time.time())

    def shown_at(self, position: int) -> float | None:
        """When the change of this position could be seen; None if it never was."""
        index = bisect_left(self.positions, position)
        return self.moments[index] if index < len(self.moments) else None


class Reader:
    """Looks at the tables of a warehouse in a thread."""

    def __init__(self, warehouse: Path, entities: Sequence[str]) -> None:
        self._warehouse = warehouse
        self.seen = {entity: Seen() for entity in entities}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While entered."""
        self._thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            for entity, seen in self.seen.items():
                seen.look(self._warehouse / "current_state" / entity)


class Traffic:
    """Transactions at a rate, in a thread, and when each was begun: the moment its delay counts from."""

    def __init__(self, org: EmulatedOrg, server: EmulatorServer) -> None:
        self._generator = TrafficGenerator(org, SEED, bus=server.bus)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.begun: dict[str, float] = {}
        """Transaction key -> epoch seconds."""

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """While entered."""
        self._thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            due += 1 / RATE
            now = time.time()
            self.begun[self._generator.step().transaction_key] = now


def measure(quick: bool) -> Sequence[Figure]:
    """Ten transactions a second for a quarter of an hour: the delay of each until its last change can be seen. In that
    time a run ends, because it has followed the stream for as long as one does, and the next one takes over; and the
    tables are packed and vacuumed."""
    return measured(10.0, 5.0, 50) if quick else measured(WINDOW_SECONDS, 60.0, 500, disturbed=True)


def measured(window: float, warm: float, records: int, *, disturbed: bool = False) -> Sequence[Figure]:
    """The same for so many seconds, after others that count for nothing; `records` of each object in the org.
    `disturbed`: `sfcdc maintain` runs in the middle, and it is a wrong answer if no run hands over to another one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with served_org(folder, records) as (org, server):
            env = environment(server, folder)
            arguments = ("dev", "--dir", str(folder / "dev"), "--port", "0")
            reader = Reader(folder / "warehouse", org.selected_entities)
            with running(*arguments, env=env, cwd=ROOT, log=folder / "dev.log") as process, reader.reading():

                def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
                    deadline = time.monotonic() + seconds
                    while not condition():
                        if process.poll() is not None or time.monotonic() > deadline:
                            raise WrongAnswer(f"{what} did not come: {(folder / 'dev.log').read_text()[-2000:]}")
                        time.sleep(0.5)

                # An org that never had a transaction has a stream without a replay id, to which nothing is pinned.
                make_first_change(org, server.bus)
                until(lambda: all(seen.moments for seen in reader.seen.values()), READY_SECONDS, "every table")
                traffic = Traffic(org, server)
                with traffic.flowing():
                    time.sleep(warm)
                    begun = time.time()
                    time.sleep(window / 2)
                    upkeep_begun = time.time()
                    if disturbed:
                        sfcdc("maintain", env=env, cwd=folder)
                    upkeep_ended = time.time()
                    time.sleep(max(0.0, begun + window - upkeep_ended))
                    ended = time.time()
                    time.sleep(2.0)
                wanted = {key: at for key, at in traffic.begun.items() if begun <= at < ended}
                shown: list[Shown] = []

                def all_seen() -> bool:
                    shown[:] = _shown(wanted, folder, reader)
                    return len(shown) >= len(wanted)

                until(all_seen, CAUGHT_UP_SECONDS, "every transaction")
                received, landed = _on_the_way(shown, folder)
                commits = _commits_an_hour(folder, begun, ended)
            if disturbed and not hands_over(_sync_runs(folder / "dev"), begun, ended):
                raise WrongAnswer(f"no run handed over to the next one in {ended - begun:.0f} s")
            sfcdc("sync", "--until-caught-up", env=env, cwd=folder)
            compare(org, folder)
    delays = [each.seen_at - each.begun_at for each in shown]
    percentiles = quantiles(delays, n=100)
    # What came a moment earlier still waits when it begins.
    beside = [
        each.seen_at - each.begun_at for each in shown if each.begun_at < upkeep_ended and each.seen_at >= upkeep_begun
    ]
    return [
        Figure("10 transactions a second, p50", "s", [percentiles[49]], goal=Goal(2)),
        Figure("10 transactions a second, p95", "s", [percentiles[94]], goal=Goal(4)),
        Figure("10 transactions a second, the slowest", "s", [max(delays)], goal=Goal(8)),
        *([Figure(BESIDE_UPKEEP, "s", [max(beside)], goal=Goal(8))] if disturbed else []),
        Figure("of it until received, p50", "s", [median(received)]),
        Figure("from there until landed, p50", "s", [median(landed)]),
        Figure("from there until seen, p50", "s", [median(delays) - median(received) - median(landed)]),
        *(Figure(f"commits of {name}, an hour", "", [count]) for name, count in commits.items()),
    ]


def hands_over(runs: Sequence[tuple[float, float | None]], begun: float, ended: float) -> bool:
    """Whether one of the runs, each with its start and its end (epoch s), ends in the window, and one that began after
    it, in the window too, goes on."""
    return any(
        end is not None
        and begun <= end < ended
        and any(start < next_start < ended and (next_end or ended) > end for next_start, next_end in runs)
        for start, end in runs
    )


def _sync_runs(directory: Path) -> list[tuple[float, float | None]]:
    """Start and end of the runs that applied events, as the Dagster of `sfcdc dev` noted them."""
    (home,) = directory.glob("dagster_home*")
    with dg.DagsterInstance.from_config(str(home)) as instance:
        records = instance.get_run_records(dg.RunsFilter(job_name=f"{PREFIX}_{SYNC}"))
    return [(each.start_time, each.end_time) for each in records if each.start_time is not None]


@dataclass(frozen=True)
class Shown:
    """A transaction all of whose changes could be seen: when (epoch s), and its last place in the stream."""

    begun_at: float
    seen_at: float
    received_at: float
    position: int


def _shown(begun: Mapping[str, float], folder: Path, reader: Reader) -> list[Shown]:
    """Those of the transactions all of whose changes could be seen.

    Their places in the stream are known from what was landed; a table shows a change when it is applied that far.
    """
    columns = ["transaction_key", "entity_name", "position", "received_at"]
    events = pa.table(DeltaTable(str(folder / "warehouse" / "raw_events")).scan(columns=columns))
    shown: dict[str, Shown] = {}
    lacking = set()
    for row in events.to_pylist():
        key, seen = row["transaction_key"], reader.seen.get(row["entity_name"])
        if key not in begun:
            continue
        at = None if seen is None else seen.shown_at(row["position"])
        if at is None:
            lacking.add(key)
            continue
        before = shown.get(key, Shown(begun[key], 0.0, 0.0, 0))
        shown[key] = Shown(
            begun[key],
            max(at, before.seen_at),
            max(row["received_at"].timestamp(), before.received_at),
            max(row["position"], before.position),
        )
    return [each for key, each in shown.items() if key not in lacking]


def _on_the_way(shown: Sequence[Shown], folder: Path) -> tuple[list[float], list[float]]:
    """Return, of each transaction, the seconds until its last event was received, and from there until it was landed,
    as the commit dates itself."""
    warehouse = Warehouse(str(folder / "warehouse"))
    commits = landing_commits(warehouse, "raw_events", CHANNEL, [each.position for each in shown])
    received = [each.received_at - each.begun_at for each in shown]
    return received, [commits[each.position].committed_at.timestamp() - each.received_at for each in shown]


def _commits_an_hour(folder: Path, begun: float, ended: float) -> dict[str, float]:
    """Table -> how many commits it had in the window (epoch s), counted for an hour; of entities the one with the most
    stands for all."""
    found: dict[str, float] = {}
    for name, pattern in (("raw_events", "raw_events"), ("current_state, most", "current_state/*")):
        logs = [table / "_delta_log" for table in (folder / "warehouse").glob(pattern)]
        counts = [sum(begun <= each.stat().st_mtime < ended for each in log.glob("*.json")) for log in logs]
        found[name] = max(counts, default=0) * 3600 / (ended - begun)
    return found


STAGE = Stage(
    title="fresh, 10 transactions a second",
    measure=measure,
    compared="Afterwards every row of every table is compared with the org's log, field by field; within the "
    "time that is measured a run must have handed over to the next one.",
    limit="Events are landed each second or two, and what was landed waits for the batch that is at work.",
)
