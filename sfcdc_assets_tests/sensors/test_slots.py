"""Which queued runs Dagster starts under the project's dagster.yaml: applying events never waits for long work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.test_utils import instance_for_test
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon

from sfcdc_assets.cli.dagster_home import INSTANCE
from sfcdc_assets.definitions import defs
from sfcdc_assets.jobs.request import CONCURRENCY_TAG, concurrency_key
from sfcdc_assets_tests.sensors.dagster_runs import ends, run_of

CHANNELS = [f"/data/{name}ChangeEvent" for name in ("Account", "Contact", "Lead", "Case")]


class Slots:
    """A Dagster instance with the project's settings, its queue, and the daemon that starts runs."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self.daemon = QueuedRunCoordinatorDaemon(interval_seconds=5)
        self._queued: dict[str, tuple[str, dg.DagsterRun]] = {}

    def queue(self, job: str, name: str, **tags: str) -> None:
        """A run of a job of the project, with the tags that Dagster gives it, and those it was asked for with."""
        own = defs.resolve_job_def(job).run_tags if job in defs_jobs() else {}
        all_tags = {**own, **{key.replace("__", "/"): value for key, value in tags.items()}}
        run = run_of(self.instance, job, all_tags, dg.DagsterRunStatus.QUEUED)
        self._queued[run.run_id] = (name, run)

    def asked_for_by_the_sensor(self, job: str, channel: str) -> None:
        self.queue(job, f"{job} {channel}", **{CONCURRENCY_TAG: concurrency_key(channel, job)})

    def start(self) -> list[str]:
        """Names of the runs that the daemon would start now; they are at work from then on."""
        config = self.instance.get_concurrency_config()
        chosen = self.daemon._get_runs_to_dequeue(self.instance, config, fixed_iteration_time=None)
        for run in chosen:
            ends(self.instance, run, dg.DagsterEventType.RUN_STARTING)
            ends(self.instance, run, dg.DagsterEventType.RUN_START)
        return [self._queued[run.run_id][0] for run in chosen]

    def end(self, name: str) -> None:
        """A run that is at work ends well."""
        (run,) = (run for each, run in self._queued.values() if each == name)
        ends(self.instance, run, dg.DagsterEventType.RUN_SUCCESS)


def defs_jobs() -> set[str]:
    return {job.name for job in defs.resolve_all_job_defs()}


@pytest.fixture
def slots(tmp_path: Path) -> Iterator[Slots]:
    overrides = yaml.safe_load(INSTANCE.read_text())
    with instance_for_test(overrides={"concurrency": overrides["concurrency"]}, temp_dir=str(tmp_path)) as instance:
        yield Slots(instance)


def test_two_long_runs_leave_slots_for_the_syncs_of_every_channel_and_a_third_long_run_waits(slots: Slots) -> None:
    slots.asked_for_by_the_sensor("snapshot", CHANNELS[0])
    slots.queue("audit", "the nightly audit")
    assert slots.start() == [f"snapshot {CHANNELS[0]}", "the nightly audit"]
    slots.asked_for_by_the_sensor("snapshot", CHANNELS[1])
    slots.queue("drop_payloads", "the nightly clean-up")
    for channel in CHANNELS:
        slots.asked_for_by_the_sensor("sync", channel)
    assert slots.start() == [f"sync {channel}" for channel in CHANNELS]
    assert slots.start() == []
    slots.end("the nightly audit")
    assert slots.start() == [f"snapshot {CHANNELS[1]}"]


def test_a_channel_has_one_sync_at_a_time_and_one_snapshot_beside_it(slots: Slots) -> None:
    for _ in range(2):
        slots.asked_for_by_the_sensor("sync", CHANNELS[0])
    slots.asked_for_by_the_sensor("snapshot", CHANNELS[0])
    assert slots.start() == [f"sync {CHANNELS[0]}", f"snapshot {CHANNELS[0]}"]
    assert slots.start() == []


def test_however_many_snapshots_are_queued_they_hold_up_no_sync(slots: Slots) -> None:
    for number in range(30):
        slots.asked_for_by_the_sensor("snapshot", f"/data/Object{number}__ChangeEvent")
    assert len(slots.start()) == 2
    slots.asked_for_by_the_sensor("sync", CHANNELS[0])
    assert slots.start() == [f"sync {CHANNELS[0]}"]


def test_backfills_that_a_person_launches_leave_slots_for_the_syncs(slots: Slots) -> None:
    """A backfill of assets is a run of a job of Dagster's own, which has none of our tags."""
    for number in range(8):
        slots.queue("__ASSET_JOB", f"backfill {number}", **{"dagster/backfill": f"backfill{number}"})
    assert slots.start() == ["backfill 0", "backfill 1"]
    slots.asked_for_by_the_sensor("sync", CHANNELS[0])
    assert slots.start() == [f"sync {CHANNELS[0]}"]


def test_when_a_person_has_taken_every_slot_the_first_that_is_free_goes_to_a_sync(slots: Slots) -> None:
    for number in range(9):
        slots.queue("__ASSET_JOB", f"by hand {number}")
    assert len(slots.start()) == 6
    slots.asked_for_by_the_sensor("sync", CHANNELS[0])
    assert slots.start() == []
    slots.end("by hand 3")
    assert slots.start() == [f"sync {CHANNELS[0]}"]
