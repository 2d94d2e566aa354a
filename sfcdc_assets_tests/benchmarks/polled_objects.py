"""A day of 300 polled objects, ten of them busy: the API requests that it takes, and how old changes are when they are
read. The day passes on a simulated clock; the org answers over real sockets."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.landing.polled_reader import PolledReader
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.benchmarks.interleave import wall_seconds
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.entities.many_objects import object_names, objects
from sfcdc_assets_tests.pipeline.fixtures import only_settings_of_tests, served
from sfcdc_assets_tests.simulated_clock import SimulatedClock

INTERVAL, DAY, TICK_SECONDS = 900, 86_400, 60
BUSY_EVERY = 120
"""Seconds between two changes of a busy object; others change once a day."""
MOST_REQUESTS = 6_000
OLDEST = INTERVAL + 120


def measure(quick: bool) -> Sequence[Figure]:
    """The day begins when all is copied; every object changes in it at least once."""
    count, busy, seconds = (12, 2, DAY // 6) if quick else (300, 10, DAY)
    names = object_names(count)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        only_settings_of_tests(patch)
        patch.delenv("SFCDC_SPARK_CONF_spark.sql.shuffle.partitions")
        patch.setenv("SFCDC_SPARK_MASTER", "local[*]")
        patch.chdir(folder)
        org = EmulatedOrg(folder / "org", seed=5, clock=SimulatedClock(None, runs=True), objects=objects(count))
        org.populate(dict.fromkeys(names, 20))
        with served(org, folder / "org", patch) as pipeline:
            patch.setenv("SFCDC_CHANNELS", "none")
            patch.setenv("SFCDC_POLL", "Object_*")
            copied = wall_seconds(pipeline.sync)()
            org.clock.sleep(DAY)
            requests, ages, took = _a_day(pipeline, names, names[:busy], seconds)
            pipeline.sync()
            pipeline.assert_equal_to_the_org(names)
    # Of few objects in few hours more changes are of quiet ones, which are asked less often.
    goal, oldest = (None, None) if quick else (Goal(MOST_REQUESTS, must=True), Goal(OLDEST, must=True))
    what = f"{count} polled objects, {busy} of them busy, {seconds // 3600} hours"
    return [
        Figure(f"copying {count} objects, all runs", "s", [copied]),
        Figure(f"{what}: API requests", "requests", [requests], goal=goal),
        Figure(f"{what}: p95 of a change's age when it is read", "s", [_percentile(ages, 95)], goal=oldest),
        Figure(f"{what}: a change's greatest age", "s", [max(ages)]),
        Figure(f"{what}: reading, of the machine's time", "s", [took]),
    ]


def _a_day(
    pipeline: EmulatedPipeline, names: Sequence[str], busy: Sequence[str], seconds: int
) -> tuple[int, list[float], float]:
    """Return the requests of the day, the ages of the changes when they were read, and the seconds that reading took
    of the machine's."""
    dice, org = random.Random(7), pipeline.org
    records = {name: ids(org, name) for name in names}
    changes = [(at, name) for name in busy for at in range(dice.randrange(BUSY_EVERY), seconds, BUSY_EVERY)]
    changes += [(dice.randrange(seconds * 9 // 10), name) for name in names]
    changes.sort()
    began, took = org.clock(), 0.0
    waiting: dict[str, list[float]] = {}
    ages: list[float] = []
    with connect(load_settings()) as connected:
        reader = PolledReader(Warehouse(str(pipeline.warehouse)), connected)
        reader.land(TICK)
        before = connected.session.calls

        def land() -> None:
            for entity, rows in reader.land(TICK).events.items():
                if rows:
                    now = (org.clock() - began) / 1000
                    ages.extend(now - at for at in waiting.pop(entity, []))

        for second in range(0, seconds + 8 * INTERVAL, TICK_SECONDS):
            while changes and changes[0][0] < second:
                at, entity = changes.pop(0)
                with org.transaction() as work:
                    work.update(entity, dice.choice(records[entity]), {"Name": f"at {at}"})
                waiting.setdefault(entity, []).append((org.clock() - began) / 1000)
            if second == seconds:
                requests = connected.session.calls - before
            took += wall_seconds(land)()
            org.clock.sleep(TICK_SECONDS - (org.clock() - began) / 1000 % TICK_SECONDS)
    assert not waiting, f"never read: {waiting}"
    return requests, ages, took


def _percentile(values: Sequence[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


STAGE = Stage(
    "A day of polled objects",
    measure,
    "Every table with the org, field by field, after the day; and that no change was left unread.",
    "Requests: five objects in one, each object once in an interval while it changes and once in four when it has been "
    "quiet for eight hours. Age: the interval.",
)
