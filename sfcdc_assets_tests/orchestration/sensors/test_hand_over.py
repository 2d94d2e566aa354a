"""One run takes over from another before that one has ended, so that what lands meanwhile does not wait."""

from __future__ import annotations

from collections.abc import Callable

import dagster as dg
import pytest

from sfcdc_assets.apply.follow_run import FOLLOW_SECONDS
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.orchestration.jobs.hand_over import (
    AHEAD_SECONDS,
    LONGEST_WAIT_SECONDS,
    hand_over,
    keys_of,
    note_following,
    wait_for,
)
from sfcdc_assets.orchestration.org_assets import CONCURRENCY_TAG
from sfcdc_assets.orchestration.sensors.due import RETRY_SECONDS
from sfcdc_assets.runtime.clock import Clock, using
from sfcdc_assets_tests.orchestration.dagster_instance import instance_in_memory
from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer
from sfcdc_assets_tests.orchestration.sensors.dagster_runs import ends, run_of
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream

pytestmark = pytest.mark.slow

FIRST, SECOND = keys_of(ASSETS, CHANNEL, "sync")


@pytest.fixture
def server(weather: Stream, server: CodeServer) -> CodeServer:
    """One whose tables equal the org, and which has landed what no run has applied."""
    weather.update(1)
    return server


def at_work(server: CodeServer, key: str = FIRST, **tags: str) -> dg.DagsterRun:
    """A run of the channel whose process lives."""
    of = {CONCURRENCY_TAG: key, **tags}
    return run_of(server.instance, ASSETS.name("sync"), of, dg.DagsterRunStatus.STARTED)


def asked_for(server: CodeServer, seconds: float) -> list[dg.RunRequest]:
    return [request for result in server.ticks(seconds) for request in result.run_requests or ()]


def run_for(server: CodeServer, request: dg.RunRequest) -> dg.DagsterRun:
    """The run that was asked for, at work."""
    return at_work(server, request.tags[CONCURRENCY_TAG])


def test_the_next_run_is_asked_for_once_a_moment_before_the_one_at_work_ends(server: CodeServer) -> None:
    first = at_work(server)
    assert asked_for(server, 30) == [], "not before it follows"
    note_following(server.instance, first.run_id, FOLLOW_SECONDS)

    assert asked_for(server, FOLLOW_SECONDS - AHEAD_SECONDS - 5) == []
    asked, *_ = asked_for(server, 10)

    assert asked.tags[CONCURRENCY_TAG] == SECOND
    assert asked.run_config["ops"]["land"]["config"]["takes_over"] == first.run_id
    assert asked.run_config["ops"]["land"]["config"]["follow_seconds"] == FOLLOW_SECONDS


def test_while_both_are_at_work_and_when_the_first_has_ended_no_other_is_asked_for(server: CodeServer) -> None:
    first = at_work(server)
    note_following(server.instance, first.run_id, AHEAD_SECONDS + 2)
    (asked,) = asked_for(server, 5)
    second = run_for(server, asked)

    assert asked_for(server, 10) == []
    ends(server.instance, first, dg.DagsterEventType.RUN_SUCCESS)
    assert asked_for(server, 20) == []

    note_following(server.instance, second.run_id, AHEAD_SECONDS + 2)
    (third,) = asked_for(server, 5)
    assert third.tags[CONCURRENCY_TAG] == FIRST
    assert third.run_config["ops"]["land"]["config"]["takes_over"] == second.run_id


def test_one_that_fails_before_it_takes_over_is_asked_for_again_after_a_pause(server: CodeServer) -> None:
    first = at_work(server)
    note_following(server.instance, first.run_id, AHEAD_SECONDS + 2)
    (asked,) = asked_for(server, 5)
    server.note(asked, dg.DagsterEventType.RUN_FAILURE)

    assert asked_for(server, RETRY_SECONDS - 5) == []
    (again,) = asked_for(server, 10)[:1]
    assert again.tags == asked.tags


class Waited(Clock):
    """Moves when somebody waits; `meanwhile` is called first."""

    def __init__(self, meanwhile: Callable[[], object] = list) -> None:
        self.waited = 0.0
        self._meanwhile = meanwhile

    def monotonic(self) -> float:
        return self.waited

    def sleep(self, seconds: float) -> None:
        self._meanwhile()
        self.waited += seconds


@pytest.mark.parametrize("ended", [None, dg.DagsterEventType.RUN_FAILURE, dg.DagsterEventType.RUN_SUCCESS])
def test_a_run_waits_until_the_other_has_handed_over_or_has_ended(ended: dg.DagsterEventType | None) -> None:
    with instance_in_memory() as instance:
        first = run_of(instance, ASSETS.name("sync"), {}, dg.DagsterRunStatus.STARTED)
        clock = Waited(lambda: clock.waited < 3 or goes())

        def goes() -> None:
            if ended is None:
                hand_over(instance, first.run_id)
            else:
                ends(instance, first, ended)

        warnings: list[str] = []
        with using(clock):
            wait_for(instance, first.run_id, warnings.append)
    assert 3 <= clock.waited < 4
    assert warnings == []


def test_a_run_does_not_wait_for_one_that_dagster_has_forgotten() -> None:
    with instance_in_memory() as instance, using(Waited()) as _:
        wait_for(instance, "00000000-0000-0000-0000-000000000000", pytest.fail)


def test_a_run_does_not_wait_for_ever_and_says_so() -> None:
    with instance_in_memory() as instance:
        first = run_of(instance, ASSETS.name("sync"), {}, dg.DagsterRunStatus.STARTED)
        warnings: list[str] = []
        clock = Waited()
        with using(clock):
            wait_for(instance, first.run_id, warnings.append)
    assert warnings == [f"Run {first.run_id} has not handed over within 120 s; this one begins beside it."]
    assert clock.waited == LONGEST_WAIT_SECONDS
