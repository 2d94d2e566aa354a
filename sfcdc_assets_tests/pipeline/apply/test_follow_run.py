"""A run that a sensor asked for goes on with what the sensor lands while it is at work."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData

from sfcdc_assets.apply import follow_run
from sfcdc_assets.orchestration.jobs import hand_over
from sfcdc_assets.orchestration.jobs.run_config import config_of
from sfcdc_assets.runtime import clock
from sfcdc_assets_tests.orchestration.sensors.dagster_runs import ends, run_of
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids


def asked_by_the_sensor(*entities: str, **more: float | str) -> dict[str, Any]:
    """The configuration of a run on what is landed."""
    return config_of("sync", channel=CHANNEL, landed_through_ms=0, entities=list(entities), **more)


def changed(pipeline: EmulatedPipeline, entity: str, field: str, value: str) -> SensorExecutionData:
    """Two transactions, of which the second completes the first, and an evaluation of the sensor that lands them."""
    for record_id in ids(pipeline.org, entity)[:2]:
        with pipeline.org.transaction() as one:
            one.update(entity, record_id, {field: value})
    return pipeline.sensor_tick()


@pytest.fixture
def pipeline(synced: EmulatedPipeline) -> EmulatedPipeline:
    """Synced, with both objects as partitions, as the sensor adds them."""
    synced.instance.add_dynamic_partitions("salesforce_entity", ["Account", "Contact"])
    return synced


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has things done, one after another, each time a run waits for more."""

    def do(*things: Callable[[], object]) -> None:
        waiting = list(things)

        def slept(seconds: float) -> None:
            if waiting:
                waiting.pop(0)()
            clock.sleep(seconds)

        monkeypatch.setattr(follow_run, "clock", SimpleNamespace(current=clock.current, sleep=slept))

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
    assert pipeline.launch("sync", run_config=asked_by_the_sensor("Account", "Contact", follow_seconds=60)).success
    after = pipeline.versions()
    assert after["Account"] > before["Account"] + 1
    assert after["Contact"] > before["Contact"]
    pipeline.sync()
    pipeline.assert_equal_to_the_org()


def test_it_ends_when_nothing_comes_and_when_its_time_is_over(
    pipeline: EmulatedPipeline, meanwhile: Callable[..., None]
) -> None:
    changed(pipeline, "Account", "Name", "first")
    assert pipeline.launch("sync", run_config=asked_by_the_sensor("Account", "Contact", follow_seconds=60)).success
    before = pipeline.versions()
    meanwhile(*[lambda: changed(pipeline, "Account", "Name", "again")] * 1000)
    assert pipeline.launch("sync", run_config=asked_by_the_sensor("Account", "Contact", follow_seconds=3)).success
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
    assert pipeline.launch("sync", run_config=asked_by_the_sensor("Account", follow_seconds=60)).success
    assert pipeline.versions() == {**before, "Account": before["Account"] + 1}
    pipeline.sync()
    pipeline.assert_equal_to_the_org()


@pytest.mark.parametrize(("tags", "rounds"), [({}, 1), ({hand_over.TAKES_OVER_TAG: "another"}, 2)])
def test_it_ends_for_a_run_that_waits_for_a_slot_but_not_for_one_that_waits_for_anothers(
    pipeline: EmulatedPipeline,
    meanwhile: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tags: dict[str, str],
    rounds: int,
) -> None:
    changed(pipeline, "Account", "Name", "first")
    before = pipeline.versions()

    def queued(filters: dg.RunsFilter) -> list[dg.DagsterRun]:
        assert filters.statuses == [dg.DagsterRunStatus.QUEUED]
        return [dg.DagsterRun("another_job", tags=tags)]

    def another_waits() -> None:
        # Only Dagster's own queue makes runs of this status, with the code server's address in them.
        monkeypatch.setattr(pipeline.instance, "get_runs", queued)
        changed(pipeline, "Account", "Name", "second")

    meanwhile(another_waits)
    run = pipeline.launch("sync", run_config=asked_by_the_sensor("Account", "Contact", follow_seconds=60))
    assert run.success, pipeline.failure(run)
    assert pipeline.versions()["Account"] == before["Account"] + rounds


def test_without_a_time_it_ends_with_what_was_landed_before(
    pipeline: EmulatedPipeline, meanwhile: Callable[..., None]
) -> None:
    changed(pipeline, "Account", "Name", "first")
    meanwhile(lambda: pytest.fail("the run waited"))
    assert pipeline.launch("sync", run_config=asked_by_the_sensor("Account", "Contact")).success


def test_the_sensor_asks_for_it_where_ticks_go_on_and_not_where_they_wait_for_the_run(
    pipeline: EmulatedPipeline,
) -> None:
    (asked,) = changed(pipeline, "Account", "Name", "first").run_requests or ()
    assert asked.run_config["ops"]["land"]["config"]["follow_seconds"] == follow_run.FOLLOW_SECONDS
    pipeline.sync()
    run = pipeline.instance.get_run_by_id(pipeline.last_run())
    assert run is not None
    assert run.job_name == "salesforce_sync"
    assert "follow_seconds" not in run.run_config["ops"]["land"]["config"]


def test_one_that_takes_over_applies_nothing_before_the_other_has_done_its_last_batch(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(pipeline, "Account", "Name", "first")
    before, instance = pipeline.versions(), pipeline.instance
    other = run_of(instance, "salesforce_sync", {}, dg.DagsterRunStatus.STARTED)
    looks = []

    def looked(_seconds: float) -> None:
        looks.append(pipeline.versions())
        if len(looks) == 3:
            hand_over.hand_over(instance, other.run_id)

    waiting = SimpleNamespace(current=clock.current, now_ms=clock.now_ms, sleep=looked)
    monkeypatch.setattr(hand_over, "clock", waiting)
    run = pipeline.launch("sync", run_config=asked_by_the_sensor("Account", "Contact", takes_over=other.run_id))

    assert run.success, pipeline.failure(run)
    assert looks == [before] * 3
    assert pipeline.versions()["Account"] == before["Account"] + 1


def test_one_that_follows_notes_until_when_and_that_it_is_done(
    pipeline: EmulatedPipeline, meanwhile: Callable[..., None]
) -> None:
    changed(pipeline, "Account", "Name", "first")
    noted = []

    def look() -> None:
        run = pipeline.instance.get_run_by_id(pipeline.last_run())
        assert run is not None
        noted.append({name: value for name, value in run.tags.items() if name.startswith("sfcdc/")})

    meanwhile(look)
    begun = clock.now_ms()
    run = pipeline.launch("sync", run_config=asked_by_the_sensor("Account", "Contact", follow_seconds=60))
    assert run.success
    ended = clock.now_ms()
    look()
    during, after = noted
    assert hand_over.HANDED_OVER_TAG not in during
    of, until = during[hand_over.FOLLOWS_UNTIL_TAG].split()
    assert of == after[hand_over.HANDED_OVER_TAG] == run.run_id
    assert begun + 60_000 <= int(until) <= ended + 60_000


def test_one_that_took_over_evaluates_the_checks_when_the_other_has_evaluated_its_own(
    pipeline: EmulatedPipeline, meanwhile: Callable[..., None]
) -> None:
    """Dagster shows the newest evaluation alone, and only if it is of the run that materialized last, or later."""
    changed(pipeline, "Account", "Name", "first")
    instance = pipeline.instance
    other = run_of(instance, "salesforce_sync", {}, dg.DagsterRunStatus.STARTED)
    hand_over.hand_over(instance, other.run_id)
    evaluated = []

    def change_and(also: Callable[[], object] = list) -> None:
        also()
        changed(pipeline, "Account", "Name", str(len(evaluated)))
        events = instance.all_logs(pipeline.last_run(), of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
        evaluated.append(len(events))

    meanwhile(
        change_and,
        change_and,
        lambda: change_and(lambda: ends(instance, other, dg.DagsterEventType.RUN_SUCCESS)),
        change_and,
        change_and,
    )
    config = asked_by_the_sensor("Account", "Contact", follow_seconds=60, takes_over=other.run_id)
    run = pipeline.launch("sync", run_config=config)

    assert run.success, pipeline.failure(run)
    assert evaluated[:3] == [0, 0, 0]
    assert evaluated[3] == evaluated[4] > 0
