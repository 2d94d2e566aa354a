"""A run that a sensor asked for goes on with what the sensor lands while it is at work."""

from __future__ import annotations

from collections.abc import Callable

import dagster as dg
import pytest

from sfcdc_assets.assets.run_scope import (
    CHANNEL_TAG,
    COMPLETE_THROUGH_TAG,
    FOLLOW_SECONDS_TAG,
    SENSOR,
    TRIGGER_TAG,
)
from sfcdc_assets.definitions import defs
from sfcdc_assets.pipeline import following
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids

TAGS = {TRIGGER_TAG: SENSOR, CHANNEL_TAG: CHANNEL, COMPLETE_THROUGH_TAG: "0"}


def changed(pipeline: EmulatedPipeline, entity: str, field: str, value: str) -> None:
    """Two transactions, of which the second completes the first, and an evaluation of the sensor that lands them."""
    for record_id in ids(pipeline.org, entity)[:2]:
        with pipeline.org.transaction() as one:
            one.update(entity, record_id, {field: value})
    pipeline.sensor_tick()


@pytest.fixture
def pipeline(synced: EmulatedPipeline) -> EmulatedPipeline:
    """Synced, with both objects as partitions, as the sensor adds them."""
    synced.instance.add_dynamic_partitions("salesforce_entity", ["Account", "Contact"])
    return synced


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has things done, one after another, each time a run waits for more."""

    def do(*things: Callable[[], object]) -> None:
        waiting, sleep = list(things), following.clock.sleep

        def slept(seconds: float) -> None:
            if waiting:
                waiting.pop(0)()
            sleep(seconds)

        monkeypatch.setattr(following.Following.__init__, "__kwdefaults__", {"monotonic": None, "sleep": slept})

    return do


def test_it_applies_what_is_landed_while_it_is_at_work(
    pipeline: EmulatedPipeline, meanwhile: Callable[..., None]
) -> None:
    changed(pipeline, "Account", "Name", "first")
    before = pipeline.versions()
    meanwhile(
        lambda: changed(pipeline, "Contact", "LastName", "second"),
        lambda: changed(pipeline, "Account", "Name", "third"),
    )
    assert pipeline.launch("sync", "Account", "Contact", tags={**TAGS, FOLLOW_SECONDS_TAG: "60"}).success
    after = pipeline.versions()
    assert after["Account"] > before["Account"] + 1
    assert after["Contact"] > before["Contact"]
    pipeline.sync()
    pipeline.assert_equal_to_the_org()


def test_it_ends_when_nothing_comes_and_when_its_time_is_over(
    pipeline: EmulatedPipeline, meanwhile: Callable[..., None]
) -> None:
    changed(pipeline, "Account", "Name", "first")
    assert pipeline.launch("sync", "Account", "Contact", tags={**TAGS, FOLLOW_SECONDS_TAG: "60"}).success
    before = pipeline.versions()
    meanwhile(*[lambda: changed(pipeline, "Account", "Name", "again")] * 1000)
    assert pipeline.launch("sync", "Account", "Contact", tags={**TAGS, FOLLOW_SECONDS_TAG: "3"}).success
    assert pipeline.versions()["Account"] > before["Account"]


def test_it_ends_for_an_entity_that_it_may_not_work_on(
    pipeline: EmulatedPipeline, meanwhile: Callable[..., None]
) -> None:
    changed(pipeline, "Account", "Name", "first")
    before = pipeline.versions()
    meanwhile(
        lambda: changed(pipeline, "Contact", "LastName", "second"),
        lambda: changed(pipeline, "Account", "Name", "third"),
    )
    assert pipeline.launch("sync", "Account", tags={**TAGS, FOLLOW_SECONDS_TAG: "60"}).success
    assert pipeline.versions() == {**before, "Account": before["Account"] + 1}
    pipeline.sync()
    pipeline.assert_equal_to_the_org()


def test_it_ends_for_a_run_that_waits_for_a_slot(pipeline: EmulatedPipeline, meanwhile: Callable[..., None]) -> None:
    changed(pipeline, "Account", "Name", "first")
    before = pipeline.versions()

    def another_waits() -> None:
        pipeline.instance.create_run_for_job(
            defs.resolve_job_def("maintain"), status=dg.DagsterRunStatus.QUEUED, tags={"sfcdc/work": "long"}
        )
        changed(pipeline, "Account", "Name", "second")

    meanwhile(another_waits)
    assert pipeline.launch("sync", "Account", "Contact", tags={**TAGS, FOLLOW_SECONDS_TAG: "60"}).success
    assert pipeline.versions()["Account"] == before["Account"] + 1


def test_without_a_time_it_ends_with_what_was_landed_before(
    pipeline: EmulatedPipeline, meanwhile: Callable[..., None]
) -> None:
    changed(pipeline, "Account", "Name", "first")
    meanwhile(lambda: pytest.fail("the run waited"))
    assert pipeline.launch("sync", "Account", "Contact", tags=TAGS).success


def test_the_sensor_asks_for_it_where_ticks_go_on_and_not_where_they_wait_for_the_run(
    pipeline: EmulatedPipeline,
) -> None:
    changed(pipeline, "Account", "Name", "first")
    (asked,) = pipeline.sensor_tick().run_requests or ()
    assert float(asked.tags[FOLLOW_SECONDS_TAG]) == following.FOLLOW_SECONDS
    pipeline.sync()
    run = pipeline.instance.get_run_by_id(pipeline.last_run())
    assert run is not None
    assert run.job_name == "sync"
    assert FOLLOW_SECONDS_TAG not in run.tags
