"""A long run: `python -m sfcdc_assets_tests.pipeline.simulation.long_run --events 50000 --holes 0.05 --kills 10`.

An org makes traffic of every kind, a share of it with holes of every kind, while a syncing process is killed again and
again at moments drawn from the seed. At the end every table must equal the org and no entry be open.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from sfcdc_assets.emulator.events.first_change import make_first_change
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.emulator.traffic.traffic import FULL_MIX, TrafficGenerator
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.orchestration.dagster_instance import instance_in_memory
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.failures.killed_sync import QUICK_JVM
from sfcdc_assets_tests.pipeline.story import RETRIEVE, Requests, assert_equal_but_for, ledger, unhealed, waits

ROOT = Path(__file__).parents[3]
KILLED_WITHIN = (2.0, 30.0)
"""Seconds after its start at which a sync is killed; drawn. A new one starts in 2 to 3 s, with a JVM in 6 to 8."""
LAST_SYNCS = 10
"""The most that it may take at the end, each when the pause after a failed or stale read of the org is over."""
LONGEST_WAIT = 150.0
"""Seconds for which one of those pauses is waited for: 30 s after the first read, twice that after each more."""
SYNC_SECONDS = 900.0


@dataclass(frozen=True)
class LongRun:
    """What to do."""

    events: int
    holes: float
    kills: int
    seed: int
    records: int
    entities: tuple[str, ...] = ()
    killed_within: tuple[float, float] = KILLED_WITHIN


@dataclass
class Figures:
    """What it came to. `healed` counts entries by reason, `record_requests` the requests spent on single records."""

    transactions: int = 0
    events: int = 0
    landed: int = 0
    delivered: int = 0
    holes: Counter[str] = field(default_factory=Counter)
    killed: int = 0
    killed_after: list[float] = field(default_factory=list)
    healed: Counter[str] = field(default_factory=Counter)
    records_healed: int = 0
    record_requests: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    seconds_to_heal: list[float] = field(default_factory=list)
    texts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{self.transactions:,} transactions, {self.events:,} events published, {self.landed:,} landed"
        yield f"{self.delivered:,} deliveries charged, {self.delivered / max(1, self.events):.3f} an event"
        yield f"holes made: {_described(self.holes)}"
        yield f"{self.killed} syncs killed, after " + ", ".join(f"{after:.1f}" for after in self.killed_after) + " s"
        yield f"suspects healed: {_described(self.healed)}"
        per_record = self.record_requests / self.records_healed if self.records_healed else 0.0
        yield (
            f"{self.records_healed:,} records healed by {self.record_requests:,} API requests, "
            f"{per_record:.3f} a record"
        )
        yield f"API requests: {_described(self.requests)}"
        if self.seconds_to_heal:
            yield (
                f"seconds from entry to healing: median {statistics.median(self.seconds_to_heal):.1f}, "
                f"longest {max(self.seconds_to_heal):.1f}"
            )
        yield f"large texts: {_described(self.texts)}"
        yield f"{self.seconds:.0f} s in all"


def run(what: LongRun, folder: Path) -> Figures:
    """Do it; raises AssertionError where a table differs from the org or an entry is left."""
    started, dice, figures = time.monotonic(), Random(what.seed), Figures()
    with served(what, folder) as (pipeline, patch):
        requests = Requests(pipeline.server, patch)
        sync_to_the_end(pipeline, folder)
        traffic = TrafficGenerator(pipeline.org, what.seed, FULL_MIX, bus=pipeline.server.bus, holes=what.holes)
        share = -(-what.events // (what.kills + 1))
        while figures.killed < what.kills:
            after = dice.uniform(*what.killed_within)
            begun = time.monotonic()
            process = sync_process(folder)
            try:
                if pipeline.server.bus.last_number < share * (figures.killed + 1):
                    traffic.run(events=share)
                process.wait(max(0.0, begun + after - time.monotonic()))
            except subprocess.TimeoutExpired:
                figures.killed += 1
                figures.killed_after.append(time.monotonic() - begun)
            finally:
                kill(process)
        traffic.run(events=max(1, what.events - pipeline.server.bus.last_number))
        sync_to_the_end(pipeline, folder)
        check(pipeline)
        figures.transactions, figures.holes = traffic.transactions, traffic.holes.made
        collect(figures, pipeline, requests)
    figures.seconds = time.monotonic() - started
    return figures


@contextmanager
def served(what: LongRun, folder: Path) -> Iterator[tuple[EmulatedPipeline, pytest.MonkeyPatch]]:
    """The org behind its sockets, its settings in the environment."""
    settings = OrgSettings(
        diff_convention="mixed",
        daily_event_deliveries=10**7,
        enriched_fields={"Account": ("Industry", "Phone"), "Contact": ("Email",)},
    )
    org = EmulatedOrg(folder / "org", seed=what.seed, settings=settings)
    try:
        if what.entities:
            org.selected_entities = list(what.entities)
        org.populate(what.records)
        server = EmulatorServer(org, directory=folder / "org")
        with pytest.MonkeyPatch.context() as patch, server, instance_in_memory() as instance:
            for name in [name for name in os.environ if name.startswith(("SFCDC_", "DAGSTER_"))]:
                patch.delenv(name)
            for name, value in server.client_environment().items():
                patch.setenv(name, value)
            patch.setenv("SFCDC_WAREHOUSE", str(folder / "warehouse"))
            patch.setenv("SFCDC_VISIBILITY_SECONDS", "0.5")
            patch.setenv("SFCDC_SETTLE_SECONDS", "1")
            patch.setenv("SFCDC_SPARK_MASTER", "local[2]")
            patch.setenv("SFCDC_SPARK_CONF_spark.sql.shuffle.partitions", "2")
            make_first_change(org, server.bus)
            yield EmulatedPipeline(org, server, folder / "warehouse", instance), patch
    finally:
        org.close()


def sync_process(folder: Path) -> subprocess.Popen[bytes]:
    """`sfcdc sync --until-caught-up` in a process group of its own; what it says goes to `sync.log`."""
    command = "from sfcdc_assets.cli.main import app; app()"
    with (folder / "sync.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-c", command, "sync", "--until-caught-up"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "SFCDC_SPARK_CONF_spark.driver.extraJavaOptions": QUICK_JVM,
            },
            start_new_session=True,
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the process and its JVM."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(BOUND_SECONDS)


def sync_to_the_end(pipeline: EmulatedPipeline, folder: Path) -> None:
    """Sync until it succeeds and leaves no entry; the pauses are the product's own and pass by the real clock, as the
    syncs are processes."""
    for _ in range(LAST_SYNCS):
        process = sync_process(folder)
        try:
            done = process.wait(SYNC_SECONDS) == 0
        finally:
            kill(process)
        if done and not unhealed(pipeline):
            return
        time.sleep(seconds_until_due(pipeline))
    raise AssertionError(f"entries are left: {unhealed(pipeline)[:5]}; {(folder / 'sync.log').read_text()[-2000:]}")


def seconds_until_due(pipeline: EmulatedPipeline) -> float:
    """How long until the org may be asked again about one of the open entries, at most `LONGEST_WAIT`."""
    ledgers = [Ledger.open(Warehouse(str(pipeline.warehouse)), entity) for entity in pipeline.org.selected_entities]
    due_at = [suspect.due_at for ledger in ledgers if ledger is not None for suspect in ledger.open_suspects()]
    return min(max(0.0, min(due_at, default=0) / 1000 - time.time()), LONGEST_WAIT)


def check(pipeline: EmulatedPipeline) -> None:
    """Every table equals the org, each record of it, deleted ones too; each event was landed once."""
    for entity in pipeline.org.selected_entities:
        rows = pipeline.rows(entity)
        assert waits(rows) == set(), entity
        in_org = {str(record["Id"]) for record in pipeline.org.records(entity, include_deleted=True)}
        assert_equal_but_for(pipeline, entity, sorted(rows.keys() - in_org))
    quarantined = pipeline.scan("quarantine") if (pipeline.warehouse / "quarantine").exists() else []
    positions = [event["position"] for event in pipeline.scan("raw_events")]
    assert len(set(positions)) == len(positions)
    assert {*positions, *(row["position"] for row in quarantined)} == set(range(1, pipeline.server.bus.last_number + 1))


def collect(figures: Figures, pipeline: EmulatedPipeline, requests: Requests) -> None:
    """Read the figures from the ledgers and from what the org was asked."""
    figures.events = pipeline.server.bus.last_number
    figures.delivered = pipeline.server.meter.total
    figures.landed = len(pipeline.scan("raw_events"))
    entries = ledger(pipeline)
    figures.healed = Counter(entry["reason"] for entry in entries)
    figures.records_healed = sum(entry["record_id"] != "*" for entry in entries)
    figures.seconds_to_heal = [(entry["healed_at"] - entry["opened_at"]).total_seconds() for entry in entries]
    for request in requests.take_all():
        figures.requests[request.rpartition("/")[0] if RETRIEVE in request else _kind(request)] += 1
    figures.record_requests = figures.requests[f"POST {RETRIEVE}"] + figures.requests["GET /queryAll"]
    for entity in pipeline.org.selected_entities:
        figures.texts.update(row["origin"] for row in pipeline.scan(f"text_fields/{entity}"))


def _kind(request: str) -> str:
    method, _, path = request.partition(" ")
    return f"{method} /" + "/".join(path.strip("/").split("/")[: 2 if "jobs" in path else 1])


def _described(counted: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counted.most_common()) or "none"


def main() -> None:
    """Read the command line, run, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--holes", type=float, default=0.05, help="share of the transactions that meet one")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", type=int, default=500, help="of each object on day 0")
    parser.add_argument("--dir", type=Path, default=None, help="a new folder for the org and the warehouse")
    given = parser.parse_args()
    folder = given.dir or Path(tempfile.mkdtemp(prefix="long-run-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"seed {given.seed}, in {folder}", flush=True)
    what = LongRun(given.events, given.holes, given.kills, given.seed, given.records)
    for line in run(what, folder).lines():
        print(line)
    print("every table equals the org, no entry is open")


if __name__ == "__main__":
    main()
