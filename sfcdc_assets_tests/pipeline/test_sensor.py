"""The channel's sensor: one request whatever was touched, reasons for skipping, failures that are failures, healing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dagster as dg
import pytest

from sfcdc_assets.emulator.faults import Fault
from sfcdc_assets.emulator.traffic import TrafficGenerator
from sfcdc_assets.salesforce.errors import LoginRefused, SessionExpired
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids

SEED = 3
RANGE = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")


def landed(pipeline: EmulatedPipeline) -> list[int]:
    return sorted(event["position"] for event in pipeline.scan("raw_events"))


def make_events(pipeline: EmulatedPipeline, count: int) -> None:
    print(f"seed {SEED}")
    TrafficGenerator(pipeline.org, SEED, bus=pipeline.server.bus).run(events=count)


def test_one_run_is_asked_for_whatever_the_number_of_entities_touched(synced: EmulatedPipeline) -> None:
    with synced.org.transaction() as both:
        both.update("Contact", ids(synced.org, "Contact")[0], {"Title": "x"})
        both.update("Account", ids(synced.org, "Account")[0], {"Name": "x"})
    told = synced.sensor_tick()
    assert told.run_requests is not None
    (request,) = told.run_requests
    assert request.job_name == "sync"
    assert [request.tags[name] for name in RANGE] == ["Account", "Contact"]
    assert request.run_key is None
    (added,) = told.dynamic_partitions_requests
    assert list(added.partition_keys) == ["Account", "Contact"]
    assert {event.partition for event in told.asset_events if isinstance(event, dg.AssetMaterialization)} == {
        "Account",
        "Contact",
    }
    assert landed(synced) == [1, 2]


def test_an_entity_that_was_not_touched_is_not_asked_for(synced: EmulatedPipeline) -> None:
    synced.instance.add_dynamic_partitions("salesforce_entity", ["Account", "Contact"])
    with synced.org.transaction() as one:
        one.update("Contact", ids(synced.org, "Contact")[0], {"Title": "x"})
    told = synced.sensor_tick()
    assert told.run_requests is not None
    assert [[request.tags[name] for name in RANGE] for request in told.run_requests] == [["Contact", "Contact"]]
    assert not told.dynamic_partitions_requests


def test_the_first_tick_of_all_asks_for_one_snapshot_run(make_pipeline: Callable[..., EmulatedPipeline]) -> None:
    pipeline = make_pipeline("Account", "Contact", "Lead", records=3)
    told = pipeline.sensor_tick()
    assert told.run_requests is not None
    assert [request.job_name for request in told.run_requests] == ["snapshot"]
    assert [told.run_requests[0].tags[name] for name in RANGE] == ["Account", "Lead"]


def test_an_entity_that_the_stream_names_first_becomes_a_partition(synced: EmulatedPipeline) -> None:
    synced.instance.add_dynamic_partitions("salesforce_entity", ["Account", "Contact"])
    synced.org.selected_entities = ["Account", "Contact", "Case"]
    with synced.org.transaction() as one:
        one.create("Case", {"Subject": "new to the channel"})
    told = synced.sensor_tick()
    assert [list(added.partition_keys) for added in told.dynamic_partitions_requests] == [["Case"]]
    assert told.run_requests is not None
    assert [(request.job_name, request.tags[RANGE[0]]) for request in told.run_requests] == [("snapshot", "Case")]


def test_nothing_new_is_a_skip_that_says_so(synced: EmulatedPipeline) -> None:
    told = synced.sensor_tick()
    assert not told.run_requests
    assert told.skip_message == f"0 events landed on {CHANNEL}, position 0; all 2 entities are up to date."


def test_a_run_at_work_is_a_skip_that_names_it_and_reads_nothing(synced: EmulatedPipeline) -> None:
    make_events(synced, 3)
    told = synced.sensor_tick()
    assert told.run_requests is not None
    with dg.DagsterInstance.ephemeral() as instance:
        synced.instance = instance
        run = instance.create_run_for_job(
            job_def=_a_job_of_the_same_name,
            tags=dict(told.run_requests[0].tags),
            status=dg.DagsterRunStatus.STARTED,
        )
        position = landed(synced)
        make_events(synced, 3)
        again = synced.sensor_tick()
    assert again.skip_message is not None
    assert run.run_id in again.skip_message
    assert landed(synced) == position


@dg.job(name="sync")
def _a_job_of_the_same_name() -> None:
    """For a run that is at work for ever."""


def test_a_refused_client_secret_fails_the_tick(synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_CLIENT_SECRET", "wrong")
    with pytest.raises(LoginRefused, match="SFCDC_CLIENT_SECRET"):
        synced.sensor_tick()


def test_a_refused_token_fails_the_tick(synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SFCDC_CLIENT_ID")
    monkeypatch.delenv("SFCDC_CLIENT_SECRET")
    monkeypatch.setenv("SFCDC_ACCESS_TOKEN", "00Dxx0000000000!expired")
    with pytest.raises(SessionExpired, match="SFCDC_ACCESS_TOKEN"):
        synced.sensor_tick()


@pytest.mark.parametrize("fault", [Fault.STREAM_RESET, Fault.STREAM_AUTH_ERROR, Fault.UNAVAILABLE])
def test_a_stream_that_breaks_at_its_start_heals_within_the_tick(synced: EmulatedPipeline, fault: Fault) -> None:
    make_events(synced, 30)
    synced.server.faults.arm(fault)
    told = synced.sensor_tick()
    assert synced.server.faults.armed(fault) == 0
    assert told.run_requests
    assert landed(synced) == list(range(1, synced.server.bus.last_number + 1))


@pytest.mark.parametrize("fault", [Fault.STREAM_RESET, Fault.STREAM_AUTH_ERROR])
def test_a_stream_that_breaks_in_its_midst_heals_within_the_tick(synced: EmulatedPipeline, fault: Fault) -> None:
    make_events(synced, 1000)
    with armed_once_events_flow(synced, fault):
        synced.sensor_tick()
    assert synced.server.faults.armed(fault) == 0
    assert landed(synced) == list(range(1, synced.server.bus.last_number + 1))
    events = synced.scan("raw_events")
    assert len({event["event_id"] for event in events}) == len(events)


def test_a_stream_that_falls_silent_in_its_midst_loses_nothing(synced: EmulatedPipeline) -> None:
    """Silence is taken for the tip, so it ends the tick; the next one goes on after the last event that was landed."""
    make_events(synced, 1000)
    with armed_once_events_flow(synced, Fault.SILENT_STREAM):
        synced.sensor_tick()
    assert synced.server.faults.armed(Fault.SILENT_STREAM) == 0
    first = landed(synced)
    assert first == list(range(1, len(first) + 1))
    synced.sensor_tick()
    assert landed(synced) == list(range(1, synced.server.bus.last_number + 1))
    assert synced.server.meter.more_than_once() == {}


@contextmanager
def armed_once_events_flow(pipeline: EmulatedPipeline, fault: Fault) -> Iterator[None]:
    """Arms the fault as soon as a first response was delivered."""
    over = threading.Event()

    def watch() -> None:
        deadline = time.monotonic() + 30
        while not pipeline.server.meter.total and time.monotonic() < deadline and not over.wait(0.001):
            pass
        pipeline.server.faults.arm(fault)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join(30)
