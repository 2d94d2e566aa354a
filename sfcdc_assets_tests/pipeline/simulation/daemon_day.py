"""A day under Dagster's daemon in simulated time: `python -m sfcdc_assets_tests.pipeline.simulation.daemon_day`.

Six objects change while the org has weather, a code server dies, the daemon is away, and commits fail. Dagster's own
loops do all that is done: they evaluate the sensors, launch what is scheduled for the night, and start runs. At the end
the daemon alone has an hour; then every table must equal the org, no entry be open, and each commit have been a step of
the model. Batches are applied in this process, without Spark.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import TickStatus
from deltalake import DeltaTable

from sfcdc_assets.emulator.events.first_change import make_first_change
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.emulator.traffic.traffic import FULL_MIX, TrafficGenerator
from sfcdc_assets.orchestration.sensors.channel import OPEN_CHANNELS
from sfcdc_assets.runtime import clock
from sfcdc_assets_tests.model.relation import Followed
from sfcdc_assets_tests.model.table_trace import recorded
from sfcdc_assets_tests.pipeline.busy_hour import ENTITIES, stored
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.fixtures import batches_in_this_process, only_settings_of_tests, served
from sfcdc_assets_tests.pipeline.simulation.busy_day import DELIVERIES
from sfcdc_assets_tests.pipeline.simulation.simulated_daemon import LOOP_SECONDS, SimulatedDaemon, simulated_daemon
from sfcdc_assets_tests.pipeline.simulation.whole_org_month import OF_REQUESTS, OF_STREAMS
from sfcdc_assets_tests.pipeline.story import assert_equal_but_for, unhealed
from sfcdc_assets_tests.simulated_clock import SimulatedClock

HOUR = 3600
BEFORE_SECONDS, AFTER_SECONDS = 1800, 3600
"""Without changes and without weather: the tables are made, and the daemon makes up for what went wrong last."""
OF_TABLES = ("raw_events", *(f"{layer}/{entity}" for layer in ("history", "current_state") for entity in ENTITIES))
AWAY_SECONDS = (60, 1800)
"""An outage, or a daemon that is not there; drawn."""


@dataclass(frozen=True)
class DaemonDay:
    """What to do. `an_hour`: transactions; `weather`: what goes wrong in an hour, on average."""

    hours: float = 24
    an_hour: int = 120
    weather: float = 4
    records: int = 200
    holes: float = 0.01
    seed: int = 3


@dataclass
class Figures:
    """What it came to. `runs` by job and status; `ticks` by status; `commits` by kind; `dagster_mb`: of its storage."""

    transactions: int = 0
    events: int = 0
    weather: Counter[str] = field(default_factory=Counter)
    ticks: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    commits: Counter[str] = field(default_factory=Counter)
    dagster_mb: float = 0.0
    seconds: float = 0.0

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{self.transactions:,} transactions, {self.events:,} events"
        for name in ("weather", "ticks", "runs", "commits"):
            counted = ", ".join(f"{count:,} {what}" for what, count in getattr(self, name).most_common())
            yield f"{name}: {counted}"
        yield f"Dagster's storage {self.dagster_mb:.0f} MB; {self.seconds:.0f} s in all"


class Day:
    """The org, its weather, and the daemon that follows it."""

    def __init__(self, what: DaemonDay, pipeline: EmulatedPipeline, patch: pytest.MonkeyPatch) -> None:
        self.daemon: SimulatedDaemon | None = None
        self.figures = Figures()
        self._what, self._pipeline, self._patch = what, pipeline, patch
        self._dice = Random(f"a day under the daemon:{what.seed}")
        self._traffic = TrafficGenerator(
            pipeline.org, what.seed, FULL_MIX, bus=pipeline.server.bus, holes=what.holes, of=lambda: ENTITIES
        )
        self._owed, self._is_calm = 0.0, True
        self._outage, self._outage_ends, self._away_until = ExitStack(), 0.0, 0.0
        self._fails: str | None = None
        self._kinds: dict[str, Callable[[], str]] = {
            "request": self._of_requests,
            "stream": self._of_streams,
            "commit": self._of_commits,
            "code server": self._code_server,
            "outage": self._begin_outage,
            "daemon": self._daemon_away,
        }

    def pass_time(self, seconds: float) -> None:
        """Let time pass: the org changes, things go wrong, and the daemon looks every five seconds."""
        ends = clock.current().monotonic() + seconds
        while (now := clock.current().monotonic()) < ends:
            if not self._is_calm:
                self._change(LOOP_SECONDS)
                if self._dice.random() < self._what.weather * LOOP_SECONDS / HOUR:
                    kind = self._dice.choice(list(self._kinds))
                    self.figures.weather[f"{kind}: {self._kinds[kind]()}"] += 1
            if self._outage_ends and now >= self._outage_ends:
                self._end_outage()
            if self.daemon is not None and now >= self._away_until:
                self.daemon.look()
            clock.sleep(LOOP_SECONDS)

    def live(self) -> None:
        """The day, between two quiet times."""
        self.pass_time(BEFORE_SECONDS)
        self._is_calm = False
        self._patch.setattr(
            DeltaTable, "create_write_transaction", self._committing(DeltaTable.create_write_transaction)
        )
        self.pass_time(self._what.hours * HOUR)
        self._is_calm, self._fails, self._away_until = True, None, 0.0
        self._end_outage()
        self._pipeline.server.rest_faults.disarm()
        self._pipeline.server.faults.disarm()
        self.pass_time(AFTER_SECONDS / 2)
        if self.daemon is not None:
            self.daemon.errors.clear()  # what fails while the weather is bad, ticks say
        self.pass_time(AFTER_SECONDS / 2)

    def _change(self, seconds: float) -> None:
        self._owed += self._what.an_hour * seconds / HOUR
        while self._owed >= 1:
            self._traffic.step()
            self._owed -= 1

    # -- weather: each says what it was

    def _of_requests(self) -> str:
        fault = self._dice.choice(OF_REQUESTS)
        self._pipeline.server.rest_faults.arm(fault, self._dice.randrange(1, 12))
        return fault.value

    def _of_streams(self) -> str:
        fault = self._dice.choice((*OF_STREAMS, Fault.SILENT_STREAM))
        self._pipeline.server.faults.arm(fault)
        return fault.value

    def _of_commits(self) -> str:
        self._fails = self._dice.choice(OF_TABLES)
        return "fails"

    def _committing(self, original: Callable[..., object]) -> Callable[..., object]:
        def commit(table: DeltaTable, *arguments: object, **options: object) -> object:
            if self._fails is not None and table.table_uri.rstrip("/").endswith(self._fails):
                self._fails = None
                raise OSError(28, "No space left on device")
            return original(table, *arguments, **options)

        return commit

    def _code_server(self) -> str:
        OPEN_CHANNELS.close()
        return "dies"

    def _begin_outage(self) -> str:
        if not self._outage_ends:
            self._outage_ends = clock.current().monotonic() + self._dice.uniform(*AWAY_SECONDS)
            self._outage.enter_context(self._pipeline.server.outage())
        return "of the org"

    def _end_outage(self) -> None:
        self._outage_ends = 0.0
        self._outage.close()

    def _daemon_away(self) -> str:
        self._away_until = clock.current().monotonic() + self._dice.uniform(*AWAY_SECONDS)
        return "is away"


def run(what: DaemonDay, folder: Path) -> Figures:
    """Live the day. Raises AssertionError where a table differs from the org, an entry is left, or something still
    fails half an hour after the weather, and `NotAllowed` for a commit that is no step of the model."""
    started, commits = time.monotonic(), Followed()
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        only_settings_of_tests(patch)
        patch.chdir(folder)
        stack.enter_context(batches_in_this_process())
        settings = OrgSettings(daily_event_deliveries=DELIVERIES)
        org = EmulatedOrg(folder / "org", settings=settings, seed=what.seed, clock=SimulatedClock(None, runs=True))
        org.selected_entities = list(ENTITIES)
        org.populate(dict.fromkeys(ENTITIES, what.records))
        pipeline = stack.enter_context(served(org, folder / "org", patch))
        make_first_change(org, pipeline.server.bus)
        day = Day(what, pipeline, patch)
        daemon = stack.enter_context(simulated_daemon(folder / "home", patch, day.pass_time))
        day.daemon = daemon
        with recorded(commits):
            day.live()
        assert not daemon.errors, daemon.errors[:3]
        assert not unhealed(pipeline, *ENTITIES)
        for entity in ENTITIES:
            in_org = {str(record["Id"]) for record in org.records(entity, include_deleted=True)}
            assert_equal_but_for(pipeline, entity, sorted(pipeline.rows(entity).keys() - in_org))
        figures = day.figures
        figures.transactions, figures.events = len(list(org.transactions())), pipeline.server.bus.last_number
        figures.commits = Counter(commits.counts)
        figures.ticks, figures.runs = ticks_of(daemon.instance), runs_of(daemon.instance)
        figures.dagster_mb = stored(folder / "home").bytes / 1e6
    figures.seconds = time.monotonic() - started
    return figures


def ticks_of(instance: dg.DagsterInstance) -> Counter[str]:
    """How many there were of each status."""
    return Counter(
        status.value
        for state in instance.all_instigator_state()
        for status in (TickStatus.SKIPPED, TickStatus.SUCCESS, TickStatus.FAILURE)
        for _ in instance.get_ticks(state.instigator_origin_id, state.selector_id, statuses=[status])
    )


def runs_of(instance: dg.DagsterInstance) -> Counter[str]:
    """How many of each job ended in which way."""
    return Counter(f"{run.job_name} {run.status.value}" for run in instance.get_runs())


def main() -> None:
    """Read the command line, live, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    day = DaemonDay()
    parser.add_argument("--hours", type=float, default=day.hours)
    parser.add_argument("--an-hour", type=int, default=day.an_hour, help="transactions")
    parser.add_argument("--weather", type=float, default=day.weather, help="what goes wrong in an hour, on average")
    parser.add_argument("--records", type=int, default=day.records, help="of each object")
    parser.add_argument("--holes", type=float, default=day.holes, help="share of the transactions that meet one")
    parser.add_argument("--seed", type=int, default=day.seed)
    what = DaemonDay(**vars(parser.parse_args()))
    print(what, flush=True)
    with tempfile.TemporaryDirectory() as name:
        for line in run(what, Path(name)).lines():
            print(line)
    print("every table equals the org, no entry is open, each commit is a step of the model")


if __name__ == "__main__":
    main()
