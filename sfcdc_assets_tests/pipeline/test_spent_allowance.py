"""The org takes no more API requests today: events, which cost none, are applied, and copies wait for tomorrow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from sfcdc_assets import clock
from sfcdc_assets.jobs.request import config_of
from sfcdc_assets.sensors.channel import COPY_SECONDS, OPEN_CHANNELS
from sfcdc_assets.sensors.open_channels import MEMBERS_SECONDS
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids


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


@pytest.mark.slow
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
    assert not pipeline.sensor_tick().run_requests, "no run is asked for that would copy nothing"
    by_hand = pipeline.launch("snapshot", str(copied[0].partition))
    assert not by_hand.success
    assert "takes no more API requests" in pipeline.failure(by_hand)
    allow(pipeline, allowed)
    clock.sleep(24 * 3600)
    pipeline.sync()
    pipeline.assert_equal_to_the_org()
