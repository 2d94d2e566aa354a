"""The org takes no more API requests today: events, which cost none, are applied, and copies wait for tomorrow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from sfcdc_assets.emulator.rest.api_usage import ApiUsage
from sfcdc_assets.orchestration.jobs.run_config import config_of
from sfcdc_assets.orchestration.sensors.channel import OPEN_CHANNELS
from sfcdc_assets.orchestration.sensors.due import COPY_SECONDS
from sfcdc_assets.orchestration.sensors.open_channel import MEMBERS_SECONDS
from sfcdc_assets.runtime import clock
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids

pytestmark = pytest.mark.slow


def allow(pipeline: EmulatedPipeline, requests: int) -> None:
    """So many API requests a day."""
    pipeline.org.settings = replace(pipeline.org.settings, daily_api_requests=requests)


def test_changes_are_applied_while_the_org_takes_no_more_requests(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a process that knows the channel's members, for hours, and by one that begins then."""
    monkeypatch.setenv("SFCDC_DESCRIBE_SECONDS", "1")
    pipeline = make_pipeline("Account", "Contact", records=4)
    pipeline.sync()
    pipeline.settled_tick()
    allowed = pipeline.org.settings.daily_api_requests
    allow(pipeline, 1)
    for number in range(2):
        clock.sleep(MEMBERS_SECONDS)
        with pipeline.org.transaction() as change:
            change.update("Account", ids(pipeline.org, "Account")[number], {"Name": f"changed {number}"})
        pipeline.settled_tick()
        pipeline.assert_equal_to_the_org()
        OPEN_CHANNELS.close()
    allow(pipeline, allowed)
    pipeline.sync()
    pipeline.assert_equal_to_the_org()


def test_copies_that_nobody_waits_for_pause_when_the_org_takes_no_more_requests(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_SNAPSHOT_RESERVE_PERCENT", "0")
    names = ("Account", "Case", "Contact", "Lead", "Opportunity", "Task")
    pipeline = make_pipeline(*names, records=4)
    pipeline.sensor_tick()
    allowed = pipeline.org.settings.daily_api_requests
    allow(pipeline, 40)
    of_sensor = config_of("snapshot", channel=CHANNEL, for_seconds=COPY_SECONDS)
    run = pipeline.launch("snapshot", run_config=of_sensor)
    assert run.success, pipeline.failure(run)
    copied = [each for each in run.all_events if each.is_step_materialization]
    assert 0 < len(copied) < len(names)
    asked_for = {request.job_name for request in pipeline.sensor_tick().run_requests or ()}
    assert asked_for <= {"salesforce_sync"}, "no run is asked for that would copy nothing; what was copied is applied"
    by_hand = pipeline.launch("snapshot", str(copied[0].partition))
    assert not by_hand.success
    assert "takes no more API requests" in pipeline.failure(by_hand)
    allow(pipeline, allowed)
    clock.sleep(24 * 3600)
    pipeline.sync()
    pipeline.assert_equal_to_the_org()


@pytest.mark.parametrize("how", [(), ("--until-caught-up",)], ids=["once", "until caught up"])
def test_a_sync_that_had_no_room_for_copies_says_so_and_status_says_why(
    make_pipeline: Callable[..., EmulatedPipeline], how: tuple[str, ...]
) -> None:
    pipeline = make_pipeline("Account", "Contact", records=4)
    pipeline.org.settings = replace(pipeline.org.settings, daily_bulk_query_jobs=0)
    synced = sfcdc("sync", *how, "--yes")
    assert synced.exit_code == 1
    assert "Not all is copied: Account, Contact wait for a snapshot" in synced.stderr
    assert "0 of 0 Bulk query jobs" in synced.stderr
    shown = " ".join(sfcdc("status").stdout.split())
    assert "2 entities wait for a snapshot; next: Account, Contact. No copy was begun at the last look:" in shown
    assert "0 of 0 Bulk query jobs left today" in shown
    pipeline.org.settings = replace(pipeline.org.settings, daily_bulk_query_jobs=10_000)
    assert sfcdc("sync", "--until-caught-up", "--yes").exit_code == 0
    assert "No copy was begun" not in sfcdc("status").stdout


def test_no_more_bulk_jobs_are_taken_than_the_reserve_leaves(make_pipeline: Callable[..., EmulatedPipeline]) -> None:
    pipeline = make_pipeline("Account", "Case", "Contact", "Lead", "Opportunity", records=2)
    pipeline.org.settings = replace(pipeline.org.settings, daily_bulk_query_jobs=5)
    assert sfcdc("sync", "--until-caught-up", "--yes").exit_code == 1
    assert ApiUsage(pipeline.org).used("bulk_query") == 4, "20 % of five is one"
