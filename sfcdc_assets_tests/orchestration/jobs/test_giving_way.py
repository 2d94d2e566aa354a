"""A run that follows its stream gives way to runs that wait for a slot, and not to each that is asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import dagster as dg

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.orchestration.jobs.sync import WAITS_SECONDS, a_run_waits
from sfcdc_assets_tests.orchestration.dagster_instance import instance_in_memory
from sfcdc_assets_tests.orchestration.sensors.dagster_runs import run_of


def test_a_run_that_was_asked_for_just_now_ends_no_run_that_follows_and_one_that_waits_for_a_slot_does() -> None:
    with instance_in_memory() as instance:
        now, later = datetime.now(UTC), datetime.now(UTC) + timedelta(seconds=WAITS_SECONDS + 60)
        assert not a_run_waits(instance, later)
        run_of(instance, ASSETS.name("pack"), {}, dg.DagsterRunStatus.STARTED)
        assert not a_run_waits(instance, later)
        run_of(instance, ASSETS.name("pack"), {}, dg.DagsterRunStatus.QUEUED)
        assert not a_run_waits(instance, now)
        assert a_run_waits(instance, later)
