"""A day of steady traffic in simulated time, and what it leaves on disk:
`python -m sfcdc_assets_tests.pipeline.simulation.busy_day`.

Six objects change three times a second. The real sensor lands, runs go on with what lands, every ten minutes cuts are
thinned out, small files are packed where there are many, and at night all is maintained. In the last hour a batch
stands for five seconds of changes, in those before for as many as cuts of that age are kept apart: a minute, and five
where they are an hour. Batches are applied in this process, without Spark. At the end every table must equal the org.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData
from deltalake import DeltaTable

from sfcdc_assets.apply import follow_run
from sfcdc_assets.apply.follow_run import FOLLOW_SECONDS, QUIET_SECONDS
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.emulator.traffic.traffic import TrafficGenerator
from sfcdc_assets.lake.maintenance.maintain import maintain_with_settings, retention_of, thin_out
from sfcdc_assets.lake.maintenance.pack_by_count import pack_where_many
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.files_below import disk_use, files_below
from sfcdc_assets_tests.pipeline.busy_hour import ENTITIES, BusyStream
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.fixtures import batches_in_this_process, only_settings_of_tests, served
from sfcdc_assets_tests.simulated_clock import SimulatedClock

HOUR = 3600
MB = 1024 * 1024
MINUTE_HOURS = 3
"""Before the last one, in which one cut a minute is kept, with an hour to spare."""
DELIVERIES = 1_000_000
"""An org with such traffic has bought more than the 50,000 a day that come with an edition."""
TIMES_LIVING, FILES = 3, 20_000
"""The goals: so many times what lives, and what the day has changed; so many files."""


@dataclass(frozen=True)
class BusyDay:
    """What to do. `seconds`: of changes in a batch in the last hour, the three before it, and those before; `records`:
    of each object."""

    hours: int = 24
    seconds: tuple[float, float, float] = (5.0, 60.0, 300.0)
    changes_a_second: float = 3.0
    records: int = 2000
    seed: int = 7

    def seconds_in(self, hour: int) -> float:
        """Of changes in a batch of an hour, counted from 0."""
        left = self.hours - 1 - hour
        return self.seconds[0 if left == 0 else 1 if left <= MINUTE_HOURS else 2]


@dataclass(frozen=True)
class Disk:
    """Megabytes of a warehouse: of all its files, of those that are part of tables now, and of these the ones of each
    kind of table."""

    files: int
    mb: float
    living_mb: float
    by_table: Counter[str] = field(compare=False)

    def is_small(self, began: Disk) -> bool:
        """Whether it is within the goals, after a day that began with another."""
        return self.mb <= TIMES_LIVING * self.living_mb + (self.living_mb - began.living_mb) and self.files <= FILES

    def line(self) -> str:
        """For people."""
        tables = ", ".join(f"{name} {size:.1f}" for name, size in self.by_table.most_common(4))
        return f"{self.files:,} files, {self.mb:,.0f} MB, {self.living_mb:,.1f} MB of it living ({tables})"


def disk_of(warehouse: Path) -> Disk:
    """Look at all of it."""
    files, size = disk_use(warehouse)
    living: Counter[str] = Counter()
    for log in warehouse.rglob("_delta_log"):
        kind = log.relative_to(warehouse).parts[0]
        actions = pl.DataFrame(pa.table(DeltaTable(str(log.parent)).get_add_actions(flatten=True)))
        living[kind] += (actions["size_bytes"].sum() if len(actions) else 0) / MB
    return Disk(files, size / MB, living.total(), living)


class SteadyTraffic(BusyStream):
    """Changes of every kind, so many a second."""

    def __init__(self, what: BusyDay, pipeline: EmulatedPipeline) -> None:
        super().__init__(pipeline, pipeline.instance, what.seed)
        self._traffic = TrafficGenerator(
            pipeline.org, what.seed, bus=pipeline.server.bus, of=lambda: pipeline.org.selected_entities
        )
        self._a_second = what.changes_a_second
        self._owed, self._due = 0.0, clock.current().monotonic()
        self.changes = 0

    def change(self) -> None:
        """What falls into the time between two ticks."""
        self._owed += self._a_second * self.seconds
        while self._owed > 0:
            changes = len(self._traffic.step().changes)
            self.changes += changes
            self._owed -= max(1, changes)

    def pause(self) -> None:
        """The clock runs: what a batch took has passed already."""
        now = clock.current().monotonic()
        self._due = max(now, self._due + self.seconds)
        clock.sleep(self._due - now)

    def config(self, ticked: SensorExecutionData, seconds: float) -> Mapping[str, Any]:
        """As the sensor asked for the run."""
        (asked,) = ticked.run_requests or ()
        return asked.run_config


class Ages:
    """Of the files of a warehouse: maintenance goes by when they were written by the machine's clock, for which a day
    is half an hour."""

    def __init__(self, warehouse: Path, clock: SimulatedClock) -> None:
        self._warehouse = warehouse
        self._clock = clock
        self._written: dict[str, int] = {}
        """Path -> when, by the simulated clock (epoch ms)."""

    def pass_on(self) -> None:
        """Make each file as old as it is in simulated time."""
        known, self._written, ahead = self._written, {}, self._clock() / 1000 - time.time()
        for path, found in files_below(self._warehouse):
            written = known.get(path) or self._clock.event_at(round(found.st_mtime * 1000))
            self._written[path] = written
            os.utime(path, (written / 1000 - ahead,) * 2)


def live(what: BusyDay, folder: Path, *, tell: bool = False) -> list[Disk]:
    """Live the day; what is on disk at its beginning, after each hour, and after the night's maintenance. Raises
    AssertionError where a table differs from the org."""
    started = time.monotonic()
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        only_settings_of_tests(patch)
        patch.chdir(folder)
        stack.enter_context(batches_in_this_process())
        simulated = SimulatedClock(None, runs=True)
        settings = OrgSettings(daily_event_deliveries=DELIVERIES)
        org = EmulatedOrg(folder / "org", settings=settings, seed=what.seed, clock=simulated)
        org.selected_entities = list(ENTITIES)
        org.populate(dict.fromkeys(ENTITIES, what.records))
        pipeline = stack.enter_context(served(org, folder / "org", patch))
        pipeline.sync()
        found = [disk_of(pipeline.warehouse)]
        traffic, ages = SteadyTraffic(what, pipeline), Ages(pipeline.warehouse, simulated)
        for hour in range(what.hours):
            traffic.seconds = what.seconds_in(hour)
            patch.setattr(follow_run, "QUIET_SECONDS", max(QUIET_SECONDS, 2 * traffic.seconds))
            for _ in range(math.ceil(HOUR / FOLLOW_SECONDS)):
                traffic.run(round(FOLLOW_SECONDS / traffic.seconds) - 1, patch, _nothing, FOLLOW_SECONDS)
                ages.pass_on()
                _keep_small(pipeline)
            found.append(disk_of(pipeline.warehouse))
            if tell:
                print(f"hour {hour + 1}: {found[-1].line()}; {time.monotonic() - started:.0f} s", flush=True)
        ages.pass_on()
        used = load_settings()
        night = list(maintain_with_settings(Warehouse(used.warehouse), used, simulated()))
        assert not [each for each in night if each.problem], night
        found.append(disk_of(pipeline.warehouse))
        pipeline.sync()
        pipeline.assert_equal_to_the_org()
        if tell:
            print(f"after the night's maintenance: {found[-1].line()}")
            print(f"{traffic.changes:,} changes, {time.monotonic() - started:.0f} s; every table equals the org")
    return found


def _keep_small(pipeline: EmulatedPipeline) -> None:
    """What Dagster's schedule does every ten minutes, and its sensor where many files have landed."""
    warehouse, settings = Warehouse(str(pipeline.warehouse)), load_settings()
    done = [
        *thin_out(warehouse, retention_of(settings), pipeline.org.clock()),
        *pack_where_many(warehouse, settings.payload_retention_days),
    ]
    assert not [each for each in done if each.problem], done


def _nothing() -> None:
    """Nothing is to be seen before a tick."""


def main() -> None:
    """Read the command line, live, print what is on disk."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    day = BusyDay()
    parser.add_argument("--hours", type=int, default=day.hours)
    parser.add_argument("--changes-a-second", type=float, default=day.changes_a_second)
    parser.add_argument("--records", type=int, default=day.records, help="of each object")
    parser.add_argument("--seed", type=int, default=day.seed)
    what = BusyDay(**vars(parser.parse_args()))
    print(what, flush=True)
    with tempfile.TemporaryDirectory() as name:
        found = live(what, Path(name), tell=True)
    goal = f"{TIMES_LIVING} times what lives and what the day has changed, in {FILES:,} files"
    if not all(disk.is_small(found[0]) for disk in found[-2:]):
        sys.exit(f"missed at the end of the day or after its night: {goal}")
    print(f"reached: {goal}")


if __name__ == "__main__":
    main()
