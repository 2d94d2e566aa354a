"""Hundreds of objects through Dagster: the first tick that meets them all, a run over a hundred of them, and what looks
at all of them: ticks, `sfcdc status`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.jobs import SNAPSHOT, SYNC
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.status.status import status_of
from sfcdc_assets_tests.benchmarks.interleave import wall_seconds
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.entities.many_objects import create_in_each, object_names, objects, update_in_each
from sfcdc_assets_tests.pipeline.fixtures import only_settings_of_tests, served
from sfcdc_assets_tests.simulated_clock import SimulatedClock

EVENTS = 20
RECORDS = 20
ROUNDS = 40
"""The most ticks until all objects are copied and applied."""


def measure(quick: bool) -> Sequence[Figure]:
    """500 objects, of which 100 change; the org is in this process, and what it takes of the machine counts too."""
    count, touched = (12, 4) if quick else (500, 100)
    names = object_names(count)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        only_settings_of_tests(patch)
        patch.delenv("SFCDC_SPARK_CONF_spark.sql.shuffle.partitions")
        patch.setenv("SFCDC_SPARK_MASTER", "local[*]")
        patch.chdir(folder)
        org = EmulatedOrg(folder / "org", seed=5, clock=SimulatedClock(None, runs=True), objects=objects(count))
        org.selected_entities = names
        org.populate(dict.fromkeys(names, RECORDS))
        with served(org, folder / "org", patch) as pipeline:
            create_in_each(org, names)
            first, idle, news, runs, statuses, commands = [], [], [], [], [], []
            first.append(wall_seconds(pipeline.sensor_tick)())
            copied = wall_seconds(lambda: _until_all_is_applied(pipeline))()
            for _ in range(1 if quick else 3):
                pipeline.sensor_tick()
                idle.append(1000 * wall_seconds(pipeline.sensor_tick)())
                update_in_each(org, names[:touched], EVENTS)
                news.append(wall_seconds(pipeline.sensor_tick)())
                runs.append(wall_seconds(lambda: _apply(pipeline))())
                statuses.append(wall_seconds(_status)())
                commands.append(wall_seconds(_status_command)())
            pipeline.assert_equal_to_the_org(names)
    return [
        Figure(f"first tick, {count} new objects", "s", first, goal=Goal(60)),
        Figure(f"copying {count} objects and applying their events, all runs", "s", [copied]),
        Figure(
            f"a tick that lands {touched * EVENTS:,} events of {touched} of {count} objects", "s", news, goal=Goal(15)
        ),
        Figure("the run that applies them, with Dagster's events, checks and cut", "s", runs, goal=Goal(15)),
        Figure(f"a tick without news, {count} objects", "ms", idle, goal=Goal(250)),
        Figure(f"`sfcdc status`, {count} objects, in a process that knows the tables", "s", statuses, goal=Goal(2)),
        Figure(f"`sfcdc status`, {count} objects, as a command", "s", commands, goal=Goal(10)),
    ]


def _status() -> None:
    settings = load_settings()
    status_of(Warehouse(settings.warehouse), settings)


def _status_command() -> None:
    subprocess.run([sys.executable, "-m", "sfcdc_assets", "status", "--json"], check=True, capture_output=True)


def _apply(pipeline: EmulatedPipeline) -> None:
    """The one run that the changes need."""
    jobs = pipeline.tick().jobs
    if jobs != (SYNC,):
        raise WrongAnswer(f"the changes of one poll were applied by {jobs}")


def _until_all_is_applied(pipeline: EmulatedPipeline) -> None:
    for _ in range(ROUNDS):
        jobs = pipeline.tick().jobs
        if not set(jobs) & {SNAPSHOT, SYNC}:
            return
    raise WrongAnswer(f"not all is copied and applied after {ROUNDS} ticks")


STAGE = Stage(
    "Hundreds of objects",
    measure,
    "Every table with the org's log, field by field; and that one run applies what one poll has brought.",
    "For each object that a run touches its rows and versions are worked out, four materializations are written into "
    "Dagster's event log with their columns and samples, and its tables are committed.",
)
