"""What polls have read and no run applies is late, as events are: to status, its alarm and the check."""

from __future__ import annotations

import json

from sfcdc_assets.entities.freshness import EntityLag, lags
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.orchestration.checks import freshness
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.status.staleness import stale_parts
from sfcdc_assets_tests.cli.command import refusal, sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.polls.polled_org import reading, rename


def test_rows_that_were_polled_and_that_no_run_applies_are_late_until_one_does(org: EmulatedPipeline) -> None:
    org.sync()
    rename(org, "Lead", 3, "read, and not applied")
    org.org.clock.sleep(2 * 900)
    with reading(org) as (reader, _, warehouse):
        reader.land(TICK, entity="Lead")
        for _ in range(12):
            org.org.clock.sleep(300)
            reader.land(TICK)
        settings, now_ms = load_settings(), clock.now_ms()
        [late] = [lag for lag in lags(warehouse, settings, now_ms) if lag.is_late(settings)]
        assert late == EntityLag("Lead", 3, late.seconds, "polled record")
        assert 3600 <= late.seconds < 3660
        assert list(stale_parts(warehouse, settings, 600, now_ms)) == [
            "3 polled records of Lead wait to be applied, the oldest for 1 h 0 min"
        ]
        result = freshness.checked(warehouse, settings)
        assert (result.passed, result.metadata["late"].value) == (False, "Lead")
    shown = {each["entity"]: each for each in json.loads(sfcdc("status", "--json").stdout)["entities"]}
    assert (shown["Lead"]["up_to_date"], shown["Lead"]["waiting_events"]) == (False, 3)
    assert (shown["Case"]["up_to_date"], shown["Case"]["waiting_events"]) == (True, 0)
    assert shown["Lead"]["lag_seconds"] >= 3600
    assert "reads waiting" in sfcdc("status").stdout
    assert "3 polled records of Lead wait" in refusal(sfcdc("status", "--fail-if-stale", "10m"))
    org.sync()
    assert sfcdc("status", "--fail-if-stale", "10m").exit_code == 0
    assert "reads waiting" not in sfcdc("status").stdout
