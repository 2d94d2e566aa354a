"""A busy run and its sensor's ticks, in simulated time: what they leave in Dagster's storage.

Six objects that change all the time, with the real jobs, sensor and databases, and the daemon's part done here. Batches
are applied in this process, which changes nothing of what is reported.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData

from sfcdc_assets.apply import follow_run
from sfcdc_assets.orchestration.jobs.run_config import config_of
from sfcdc_assets.runtime import clock
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids

ENTITIES = ("Account", "Contact", "Lead", "Opportunity", "Case", "Task")
TICK_SECONDS = 15.0
"""Three times the daemon's: what is reported does not depend on how many batches it stands for."""
FIELDS = {
    "Account": "Phone",
    "Contact": "Phone",
    "Lead": "Phone",
    "Opportunity": "NextStep",
    "Case": "Subject",
    "Task": "Subject",
}


SECONDS = 20_000.0
"""For which the run goes on: more than the ticks take."""


@dataclass(frozen=True)
class Stored:
    """Of a Dagster instance: bytes of its databases as far as they are used, and its events."""

    bytes: int
    events: int

    def __sub__(self, before: Stored) -> Stored:
        return Stored(self.bytes - before.bytes, self.events - before.events)


def stored(folder: Path) -> Stored:
    """What is in the databases below a folder."""
    used = events = 0
    for path in folder.rglob("*.db"):
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            pages, free, size = (
                database.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
            used += (pages - free) * size
            if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'event_logs'").fetchone():
                events += database.execute("SELECT count(*) FROM event_logs").fetchone()[0]
    return Stored(used, events)


class BusyStream:
    """Changes, and the ticks that land them, while a run is at work; `seconds` lie between two of them."""

    def __init__(self, pipeline: EmulatedPipeline, instance: dg.DagsterInstance, seed: int = 1) -> None:
        self.seconds = TICK_SECONDS
        self._pipeline = pipeline
        self._instance = pipeline.instance = instance
        self._dice = Random(seed)
        self._ids = {entity: ids(pipeline.org, entity) for entity in ENTITIES}
        instance.add_dynamic_partitions("salesforce_entity", list(ENTITIES))

    def change(self) -> None:
        """A change of each object."""
        for entity in ENTITIES:
            value = f"{self._dice.random():.6f}"
            with self._pipeline.org.transaction() as one:
                one.update(entity, self._dice.choice(self._ids[entity]), {FIELDS[entity]: value})

    def pause(self) -> None:
        """Let time pass until the next tick."""
        clock.sleep(self.seconds - follow_run.LOOK_SECONDS)

    def tick(self) -> SensorExecutionData:
        """Changes, and a tick of the sensor, whose events are reported as the daemon does."""
        self.change()
        self.pause()
        ticked = self._pipeline.sensor_tick()
        for event in ticked.asset_events:
            assert isinstance(event, dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation)
            self._instance.report_runless_asset_event(event)
        return ticked

    def config(self, _ticked: SensorExecutionData, seconds: float) -> Mapping[str, Any]:
        """A run's, which goes on for so many seconds and reaches no cut before its end."""
        return config_of("sync", channel=CHANNEL, landed_through_ms=0, entities=list(ENTITIES), follow_seconds=seconds)

    def run(self, ticks: int, patch: pytest.MonkeyPatch, each: Callable[[], object], seconds: float = SECONDS) -> str:
        """A run that goes on with what so many ticks land, for so many seconds; its id. `each`: called before each of
        the ticks."""
        done = 0

        def slept(a_while: float) -> None:
            nonlocal done
            if done < ticks:
                done += 1
                each()
                self.tick()
            clock.sleep(a_while if done < ticks else max(a_while, ends - clock.current().monotonic()))

        patch.setattr(follow_run, "clock", SimpleNamespace(current=clock.current, sleep=slept))
        ticked = self.tick()
        ends = clock.current().monotonic() + seconds
        run = self._pipeline.launch("sync", run_config=self.config(ticked, seconds))
        assert run.success, self._pipeline.failure(run)
        assert done == ticks or clock.current().monotonic() >= ends
        return run.run_id


def stored_of_asset(folder: Path, key: dg.AssetKey) -> Stored:
    """What is in the index of all runs of an asset's own reports: events, bytes of what they hold."""
    found = Stored(0, 0)
    for path in folder.rglob("index.db"):
        with sqlite3.connect(path) as database:
            count, size = database.execute(
                "SELECT count(*), sum(length(event)) FROM event_logs WHERE asset_key = ?", (key.to_string(),)
            ).fetchone()
            found = Stored(found.bytes + (size or 0), found.events + count)
    return found


def stored_of_run(folder: Path, run_id: str) -> Stored:
    """What a page of a run shows: its events, bytes of what they hold."""
    (path,) = folder.rglob(f"{run_id}.db")
    with sqlite3.connect(path) as database:
        count, size = database.execute("SELECT count(*), sum(length(event)) FROM event_logs").fetchone()
    return Stored(size, count)
