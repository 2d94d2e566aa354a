"""The pause after runs of a job that failed."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest

from sfcdc_assets.orchestration.jobs.failed_runs import seconds_after_failures
from sfcdc_assets.orchestration.jobs.lost_runs import LOST_TAG
from sfcdc_assets.runtime import clock
from sfcdc_assets_tests.orchestration.dagster_instance import instance_in_memory
from sfcdc_assets_tests.orchestration.sensors.dagster_runs import ends, run_of

FAILS, IS_CANCELED = dg.DagsterEventType.RUN_FAILURE, dg.DagsterEventType.RUN_CANCELED
WORKS = dg.DagsterEventType.RUN_SUCCESS


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with instance_in_memory() as opened:
        yield opened


def runs(instance: dg.DagsterInstance, *how: dg.DagsterEventType, **tags: str) -> None:
    """Runs that end now, one after another."""
    for each in how:
        ends(instance, run_of(instance, "a_job", tags, dg.DagsterRunStatus.STARTED), each)


def left(instance: dg.DagsterInstance, most: int = 8, **tags: str) -> float:
    """Rounded: the runs ended some milliseconds ago."""
    return round(seconds_after_failures(instance, "a_job", 100, 1_000, tags=tags, most=most), -1)


@pytest.mark.parametrize(
    ("how", "seconds"),
    [
        ((), 0),
        ((WORKS,), 0),
        ((FAILS,), 100),
        ((FAILS, FAILS, FAILS), 400),
        ((FAILS,) * 9, 1_000),
        ((FAILS, FAILS, WORKS), 0),
        ((FAILS, WORKS, FAILS), 100),
        ((IS_CANCELED,), 100),
        ((FAILS, IS_CANCELED), 200),
    ],
)
def test_the_pause_doubles_with_each_failure_since_a_run_worked(
    instance: dg.DagsterInstance, how: tuple[dg.DagsterEventType, ...], seconds: float
) -> None:
    runs(instance, *how)
    assert left(instance) == seconds


def test_after_a_lost_run_there_is_no_pause_and_what_failed_before_it_does_not_count(
    instance: dg.DagsterInstance,
) -> None:
    runs(instance, FAILS, FAILS)
    runs(instance, FAILS, **{LOST_TAG: "true"})
    assert left(instance) == 0
    runs(instance, FAILS)
    assert left(instance) == 100


def test_a_run_that_is_lost_again_and_again_is_asked_for_after_pauses_that_grow(instance: dg.DagsterInstance) -> None:
    """Its work may be what ends its process."""
    pauses = []
    for _ in range(4):
        runs(instance, FAILS, **{LOST_TAG: "true"})
        pauses.append(left(instance))
    assert pauses == [0, 100, 200, 400]


def test_runs_of_other_tags_do_not_count_and_no_more_than_are_asked_for(instance: dg.DagsterInstance) -> None:
    runs(instance, FAILS, FAILS, channel="one")
    assert left(instance, channel="another") == 0
    assert left(instance, channel="one") == 200
    assert left(instance, most=1, channel="one") == 100


def test_the_pause_ends(instance: dg.DagsterInstance) -> None:
    class Later(clock.Clock):
        def now_ms(self) -> int:
            return super().now_ms() + 101_000

    runs(instance, FAILS)
    with clock.using(Later()):
        assert left(instance) == 0
