"""Which queued runs Dagster starts under the project's dagster.yaml: applying events never waits for long work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.events import RunFailureReason
from dagster._core.execution.retries import auto_reexecution_should_retry_run
from dagster._core.test_utils import instance_for_test
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon

from sfcdc_assets.cli.local_dagster.dagster_home import INSTANCE
from sfcdc_assets.definitions import ASSETS, defs
from sfcdc_assets.orchestration.jobs import JOBS
from sfcdc_assets.orchestration.org_assets import CONCURRENCY_TAG
from sfcdc_assets_tests.orchestration.sensors.dagster_runs import ends, run_of

pytestmark = pytest.mark.slow

CHANNELS = [f"/data/{name}ChangeEvent" for name in ("Account", "Contact", "Lead", "Case")]


class Slots:
    """A Dagster instance with the project's settings, its queue, and the daemon that starts runs."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self.daemon = QueuedRunCoordinatorDaemon(interval_seconds=5)
        self._queued: dict[str, tuple[str, dg.DagsterRun]] = {}

    def queue(self, job: str, name: str, **tags: str) -> None:
        """A run of a job of the project, with the tags that Dagster gives it, and those it was asked for with."""
        own = defs.resolve_job_def(ASSETS.name(job)).run_tags if job in JOBS else {}
        all_tags = {**own, **{key.replace("__", "/"): value for key, value in tags.items()}}
        run = run_of(self.instance, ASSETS.name(job), all_tags, dg.DagsterRunStatus.QUEUED)
        self._queued[run.run_id] = (name, run)

    def materialize(self, *assets: str) -> None:
        """As a person does it in the UI."""
        keys = {dg.AssetKey(["salesforce", asset]) for asset in assets}
        job = defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection=keys)
        run = run_of(self.instance, job.name, {}, dg.DagsterRunStatus.QUEUED, job)
        number = sum(name.startswith(assets[0]) for name, _ in self._queued.values()) + 1
        self._queued[run.run_id] = (f"{assets[0]} {number}", run)

    def asked_for_by_the_sensor(self, job: str, channel: str) -> None:
        self.queue(job, f"{job} {channel}", **{CONCURRENCY_TAG: ASSETS.concurrency_key(channel, job)})

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


@pytest.fixture
def slots(tmp_path: Path) -> Iterator[Slots]:
    overrides = yaml.safe_load(INSTANCE.read_text())
    with instance_for_test(
        overrides={key: overrides[key] for key in ("concurrency", "run_retries")}, temp_dir=str(tmp_path)
    ) as instance:
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


def test_two_materializations_of_the_same_tables_wait_for_each_other_and_hold_up_nothing_else(slots: Slots) -> None:
    tables = ("text_fields", "gap_reconciliation", "current_state", "history")
    slots.materialize(*tables)
    slots.materialize("raw_events")
    assert slots.start() == ["text_fields 1", "raw_events 1"], "Dagster gives a pool its limit when it first sees it"
    slots.materialize(*tables)
    slots.materialize("raw_events")
    slots.materialize("snapshot")
    slots.asked_for_by_the_sensor("sync", CHANNELS[0])
    assert set(slots.start()) == {"snapshot 1", f"sync {CHANNELS[0]}"}
    assert slots.start() == []
    slots.end("text_fields 1")
    assert slots.start() == ["text_fields 2"]


@pytest.mark.parametrize(
    "job", ["sync", "snapshot", "audit", "checks", "maintain", "pack", "read_formulas", "drop_payloads", "forget_runs"]
)
def test_of_a_job_that_schedules_and_people_launch_one_run_is_at_work_at_a_time(slots: Slots, job: str) -> None:
    slots.queue(job, "first")
    slots.queue(job, "second")
    assert slots.start() == ["first"]
    slots.end("first")
    assert slots.start() == ["second"]


def test_a_nightly_run_whose_process_was_killed_is_done_once_more_and_a_failed_step_is_not(slots: Slots) -> None:
    killed = Counter[str]()
    for job in ("maintain", "sync"):
        for reason in (None, RunFailureReason.STEP_FAILURE):
            tags = {**defs.resolve_job_def(ASSETS.name(job)).run_tags}
            run = run_of(slots.instance, ASSETS.name(job), tags, dg.DagsterRunStatus.FAILURE)
            killed[job] += auto_reexecution_should_retry_run(slots.instance, run, reason)
    assert killed == {"maintain": 1, "sync": 0}
