"""What Dagster does with the sensor in one process, without Dagster: ticks over channels that stay open."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import dagster as dg
import pytest

from sfcdc_assets.apply.catch_up import ApplyListener, CatchUp
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.entities.entities import entity_states
from sfcdc_assets.entities.entity_state import EntityState
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.open_suspect import ENTITY
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.landing.run_lander import LandedOnly
from sfcdc_assets.orchestration.jobs import SNAPSHOT
from sfcdc_assets.orchestration.sensors.channel import tick
from sfcdc_assets.orchestration.sensors.open_channel import OpenChannel
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels
from sfcdc_assets.org_reads.take_snapshot import ToCopy, take_snapshot
from sfcdc_assets.org_reads.watermark import Watermarks
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.timeline.suspect import NewSuspect, Reason
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.orchestration.dagster_instance import instance_in_memory
from sfcdc_assets_tests.orchestration.sensors.dagster_runs import ends, run_of
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream
from sfcdc_assets_tests.run_contexts import run_on


class CodeServer:
    """A process that evaluates the sensor of one channel; two of them may have one warehouse."""

    def __init__(self, stream: Stream, instance: dg.DagsterInstance, *, lands_between_ticks: bool = False) -> None:
        self.stream = stream
        self.instance = instance
        self.channels = OpenChannels(lands_between_ticks=lands_between_ticks)
        self._readers: list[Any] = []

    def open(self, channel: str = CHANNEL) -> OpenChannel:
        """The channel as the sensor asks for it."""
        warehouse = Warehouse(os.environ["SFCDC_WAREHOUSE"])
        opened = self.channels.of(channel, warehouse, load_settings(), partial(ASSETS.connect, warehouse))
        if opened.reader not in self._readers:
            self._readers.append(self.stream.adopt(opened.reader))
        return opened

    def tick(self) -> dg.SensorResult:
        """A tick that meets all that was sent before it; Dagster adds the partitions it asks for."""
        self.stream.wait_until_the_org_is_idle()
        result = tick(ASSETS, self.instance, CHANNEL, self.open(), TICK)
        for added in result.dynamic_partitions_requests or ():
            self.instance.add_dynamic_partitions(ASSETS.entities.name or "", list(added.partition_keys))
        return result

    def ticks(self, seconds: float, every: float = 5.0) -> list[dg.SensorResult]:
        """Ticks while so much time passes."""
        results = []
        for _ in range(round(seconds / every)):
            self.stream.pass_time(every)
            results.append(self.tick())
        return results

    def do(self, request: dg.RunRequest) -> None:
        """The work of a run that a tick asked for: all of it but Spark and Dagster, which cost seconds."""
        landed = LandedOnly(self.stream.warehouse, {CHANNEL: landed_through_ms(request)})
        entities = dict.fromkeys(self.stream.org.selected_entities, CHANNEL)
        if request.job_name == ASSETS.name(SNAPSHOT):
            states = entity_states(self.stream.warehouse, entities, self.stream.clock())
            found = [outcome_of(snapshot, self.stream, state, landed) for state in states if state.needs_snapshot]
            for failure in (each for each in found if each is not None):
                raise failure
        else:
            catch_up(self.stream, entities, landed)

    def do_and_note(self, request: dg.RunRequest) -> None:
        """The same, and Dagster knows afterwards whether it failed: the next run waits then."""
        failure = outcome_of(self.do, request)
        if failure is not None and not isinstance(failure, SfcdcError | RuntimeError):
            raise failure
        self.note(request, dg.DagsterEventType.RUN_FAILURE if failure else dg.DagsterEventType.RUN_SUCCESS)

    def note(self, request: dg.RunRequest, how: dg.DagsterEventType) -> None:
        """Dagster hears that a run that was asked for ended now, by the clock of the test."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "time", lambda: self.stream.clock() / 1000)
            run = run_of(self.instance, request.job_name or "", request.tags, dg.DagsterRunStatus.STARTED)
            ends(self.instance, run, how)

    def ticks_and_runs(self, seconds: float) -> list[dg.SensorResult]:
        """Ticks every five seconds; what they ask for is done at once."""
        results = []
        for _ in range(round(seconds / 5)):
            results += self.ticks(5)
            for request in results[-1].run_requests or ():
                self.do(request)
        return results

    def die(self) -> None:
        """The process is gone, and its connections with it."""
        self.channels.close()


@contextmanager
def code_servers(stream: Stream) -> Iterator[Callable[[], CodeServer]]:
    """Starts code servers of one Dagster instance; all are gone at the end."""
    started: list[CodeServer] = []
    with instance_in_memory() as instance:

        def start() -> CodeServer:
            started.append(CodeServer(stream, instance))
            return started[-1]

        try:
            yield start
        finally:
            for each in started:
                each.die()


def start_caught_up(start: Callable[[], CodeServer]) -> CodeServer:
    """Start one, and have the tables of its entities equal the org."""
    server = start()
    server.stream.update(0)
    server.ticks_and_runs(120)
    return server


def want_a_copy(stream: Stream, entity: str) -> None:
    """Note as an audit in another process does that the entity's tables differ from the org."""
    suspect = NewSuspect(ENTITY, Reason.DRIFT, stream.checkpoint().position, "an audit in another process")
    Ledger.open_or_create(stream.warehouse, entity).note([suspect], CHANNEL, suspect.position, stream.clock())


def jobs(results: Iterable[dg.SensorResult]) -> list[str]:
    """Return the short names of the jobs that ticks asked for."""
    return [ASSETS.short(str(request.job_name)) for each in results for request in each.run_requests or ()]


def landed_through_ms(request: dg.RunRequest) -> int:
    """What a run knows of how far the sensor has landed."""
    (step,) = request.run_config["ops"].values()
    return int(step["config"]["landed_through_ms"])


def snapshot(stream: Stream, state: EntityState, landed: LandedOnly) -> None:
    """Day zero of an entity."""
    run = run_on(stream.warehouse, stream.connected, visibility_seconds=5.0)
    watermarks, wanted = Watermarks(run, landed), ToCopy(state.entity, state.channel, state.entity_suspect or 0)
    take_snapshot(run, wanted, lambda position: watermarks.of(state.channel, position))


def catch_up(stream: Stream, entities: dict[str, str], landed: LandedOnly) -> None:
    """What a run of `sync` does."""
    run = run_on(stream.warehouse, stream.connected, visibility_seconds=5.0, describe_seconds=900.0)
    CatchUp(run, landed, entities, entities, ApplyListener(), every_entity=False).run()


def streams_end(stream: Stream) -> None:
    eventually(lambda: stream.server.service.open_streams == 0, "the org to see its streams end")


def assert_landed(stream: Stream, *accounts: int) -> None:
    """Each event once, in order, at dense positions."""
    assert stream.records_landed() == stream.ids(*accounts)
    assert [row["position"] for row in stream.landed()] == list(range(1, len(accounts) + 1))
