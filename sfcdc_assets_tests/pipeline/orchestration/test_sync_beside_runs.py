"""`sfcdc sync` with the instance of a Dagster whose runs are gone, in the queue, or at work."""

from __future__ import annotations

import dagster as dg
import pytest

from sfcdc_assets.cli.local_dagster import channel_sync
from sfcdc_assets.cli.local_dagster.channel_sync import AnotherRunAtWork, NotCaughtUp
from sfcdc_assets.cli.local_dagster.drive import sync_channels
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.lake.store.runs_at_work import note_at_work
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.jobs import lost_runs
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets_tests.orchestration.sensors.dagster_runs import run_of, tags_of_channel
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids

STARTED, QUEUED = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.QUEUED
OF_SYNC = tags_of_channel(CHANNEL, "sync")


def test_a_sync_does_the_work_of_a_run_that_is_gone_and_of_one_that_is_only_in_the_queue(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_runs, "SILENT_SECONDS", -1.0)
    for counts_as in (STARTED, QUEUED):
        run_of(synced.instance, ASSETS.name("sync"), OF_SYNC, counts_as)
        with synced.org.transaction() as work:
            work.update("Account", ids(synced.org, "Account")[0], {"Phone": str(counts_as)})
        synced.sync()
        synced.assert_equal_to_the_org()


def test_a_sync_does_not_end_well_while_a_living_run_has_what_is_due(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_sync, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(channel_sync, "WAITS", 3)
    run = run_of(synced.instance, ASSETS.name("sync"), OF_SYNC, STARTED)
    note_at_work(Warehouse(str(synced.warehouse)), run.run_id, Clock().now_ms())
    synced.sync()  # it has nothing to do: the run that is there is no obstacle
    with synced.org.transaction() as work:
        work.update("Account", ids(synced.org, "Account")[0], {"Phone": "12345"})
    with pytest.raises(AnotherRunAtWork, match=run.run_id):
        synced.sync()
    synced.instance.report_run_failed(run)
    synced.sync()
    synced.assert_equal_to_the_org()


def test_a_sync_that_reads_once_does_not_end_well_either_while_a_living_run_has_what_is_due(
    synced: EmulatedPipeline,
) -> None:
    def sync_once() -> None:
        sync_channels(synced.instance, until_caught_up=False, report=synced.said.append)

    run = run_of(synced.instance, ASSETS.name("sync"), OF_SYNC, STARTED)
    note_at_work(Warehouse(str(synced.warehouse)), run.run_id, Clock().now_ms())
    sync_once()  # it has nothing to do
    with synced.org.transaction() as work:
        work.update("Account", ids(synced.org, "Account")[0], {"Phone": "12345"})
    synced.sensor_tick()
    clock.sleep(20)
    synced.sensor_tick()
    with pytest.raises(AnotherRunAtWork, match=f"{run.run_id} of another process is at work on it, and what is due"):
        sync_once()
    synced.instance.report_run_failed(run)
    sync_once()
    synced.assert_equal_to_the_org()


def test_a_sync_whose_last_turn_had_work_still_does_not_end_well(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_sync, "ROUNDS", 1)
    with synced.org.transaction() as work:
        work.update("Account", ids(synced.org, "Account")[0], {"Phone": "12345"})
    with pytest.raises(NotCaughtUp, match=CHANNEL):
        synced.sync()
