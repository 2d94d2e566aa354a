"""The channel's sensor: one request whatever was touched, reasons for skipping, failures that are failures, healing.

Between its ticks the channel's subscription stays open; a transaction is asked a run for when it is complete.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorEvaluationContext, SensorExecutionData
from dagster._core.instance.ref import InstanceRef
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

from sfcdc_assets.apply.follow_run import FOLLOW_SECONDS
from sfcdc_assets.definitions import ASSETS, defs
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.traffic.traffic import TrafficGenerator
from sfcdc_assets.orchestration.assets.front_doors import WITHOUT_ASSET_TAG
from sfcdc_assets.orchestration.jobs.run_config import config_of
from sfcdc_assets.orchestration.org_assets import CHANNEL_TAG, CONCURRENCY_TAG
from sfcdc_assets.orchestration.sensors.channel import OPEN_CHANNELS
from sfcdc_assets.orchestration.sensors.due import LOOK_SECONDS
from sfcdc_assets.orchestration.sensors.instance_of_ticks import close_instances
from sfcdc_assets.orchestration.sensors.open_channels import FORGOTTEN_SECONDS
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.errors import LoginRefused, SessionExpired
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.streams.transport import SILENCE_SECONDS
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.orchestration.sensors.code_server import landed_through_ms
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids

pytestmark = pytest.mark.slow

SEED = 3
KEEPALIVE_SECONDS = 270


def landed(pipeline: EmulatedPipeline) -> list[int]:
    return sorted(event["position"] for event in pipeline.scan("raw_events"))


def tick_when_settled(pipeline: EmulatedPipeline) -> SensorExecutionData:
    """A tick when nothing has come for as long as it takes until the last transaction counts as complete."""
    clock.sleep(load_settings().settle_seconds)
    return pipeline.sensor_tick()


def tick_for(pipeline: EmulatedPipeline, seconds: float) -> None:
    """Ticks for so long, often enough for the channel to stay open."""
    often = FORGOTTEN_SECONDS / 2
    for _ in range(math.ceil(seconds / often)):
        clock.sleep(often)
        pipeline.sensor_tick()


def make_events(pipeline: EmulatedPipeline, count: int) -> None:
    print(f"seed {SEED}")
    TrafficGenerator(pipeline.org, SEED, bus=pipeline.server.bus).run(events=count)


def test_one_run_is_asked_for_whatever_the_number_of_entities_touched(synced: EmulatedPipeline) -> None:
    with synced.org.transaction() as both:
        both.update("Contact", ids(synced.org, "Contact")[0], {"Title": "x"})
        both.update("Account", ids(synced.org, "Account")[0], {"Name": "x"})
    description = synced.sensor_tick()
    assert not description.run_requests
    assert "the last transaction may not be complete yet" in str(description.skip_message)
    (added,) = description.dynamic_partitions_requests
    assert list(added.partition_keys) == ["Account", "Contact"]
    reported = [event for event in description.asset_events if isinstance(event, dg.AssetMaterialization)]
    assert {(event.asset_key.path[-1], event.partition) for event in reported} == {
        ("ChangeEvents", None),
        ("raw_events", "Account"),
        ("raw_events", "Contact"),
    }
    figures = {event.partition: event.metadata for event in reported}
    assert [figures[each]["deliveries"].value for each in (None, "Account", "Contact")] == [2, 1, 1]
    assert cast(float, figures["Account"]["lag_seconds"].value) >= 0
    assert landed(synced) == [1, 2]
    description = tick_when_settled(synced)
    assert description.run_requests is not None
    (request,) = description.run_requests
    assert request.job_name == "salesforce_sync"
    assert request.run_config == config_of(
        "sync", channel=CHANNEL, landed_through_ms=landed_through_ms(request), follow_seconds=FOLLOW_SECONDS
    )
    own = [tag for tag in request.tags if not tag.startswith("dagster/")]
    assert set(own) <= {CONCURRENCY_TAG, CHANNEL_TAG, WITHOUT_ASSET_TAG}, "no tag changes what the run does"
    assert request.run_key is None
    assert synced.server.meter.total == 2


def test_a_run_has_no_step_for_an_entity_that_was_not_touched(synced: EmulatedPipeline) -> None:
    synced.instance.add_dynamic_partitions("salesforce_entity", ["Account", "Contact"])
    with synced.org.transaction() as one:
        one.update("Contact", ids(synced.org, "Contact")[0], {"Title": "x"})
    synced.sensor_tick()
    description = tick_when_settled(synced)
    assert not description.dynamic_partitions_requests
    (request,) = description.run_requests or ()
    run = synced.launch("sync", run_config=request.run_config)
    steps = [event.step_key for event in run.all_events if event.is_step_success]
    assert [step for step in steps if step and step.startswith("apply")] == ["apply[Contact]"]


def test_the_first_tick_of_all_asks_for_one_snapshot_run(make_pipeline: Callable[..., EmulatedPipeline]) -> None:
    pipeline = make_pipeline("Account", "Contact", "Lead", records=3)
    description = pipeline.sensor_tick()
    assert description.run_requests is not None
    assert [request.job_name for request in description.run_requests] == ["salesforce_snapshot"]
    (added,) = description.dynamic_partitions_requests
    assert list(added.partition_keys) == ["Account", "Contact", "Lead"]


def test_an_entity_that_the_stream_names_first_becomes_a_partition(synced: EmulatedPipeline) -> None:
    synced.instance.add_dynamic_partitions("salesforce_entity", ["Account", "Contact"])
    synced.org.selected_entities = ["Account", "Contact", "Case"]
    with synced.org.transaction() as one:
        one.create("Case", {"Subject": "new to the channel"})
    description = synced.sensor_tick()
    assert [list(added.partition_keys) for added in description.dynamic_partitions_requests] == [["Case"]]
    assert description.run_requests is not None
    assert [request.job_name for request in description.run_requests] == ["salesforce_snapshot"]


def test_nothing_new_is_a_skip_that_says_whether_the_stream_has_answered(synced: EmulatedPipeline) -> None:
    """That a call could be made says nothing about the stream: it is heard of with an event or a keepalive."""
    description = synced.sensor_tick()
    assert not description.run_requests
    nothing = f"0 events landed on {CHANNEL}, position 0"
    said = f"{nothing} (the stream has not answered yet); all 2 entities are up to date."
    assert (description.skip_message or "").startswith(said)
    tick_for(synced, KEEPALIVE_SECONDS)
    clock.sleep(LOOK_SECONDS)
    assert (synced.sensor_tick().skip_message or "").startswith(f"{nothing}; all 2 entities are up to date.")
    assert (synced.sensor_tick().skip_message or "").startswith(f"{nothing}; nothing has changed.")


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTED])
def test_a_run_that_is_queued_or_at_work_is_named_and_the_tick_lands_all_the_same(
    synced: EmulatedPipeline, status: dg.DagsterRunStatus
) -> None:
    make_events(synced, 3)
    description = synced.sensor_tick()
    assert description.run_requests is not None
    run = synced.instance.create_run_for_job(
        job_def=_a_job_of_the_same_name,
        tags=dict(description.run_requests[0].tags),
        status=status,
        remote_job_origin=RemoteJobOrigin(
            RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("of the test"), "of the test"), "salesforce_sync"
        ),
    )
    make_events(synced, 3)
    again = synced.sensor_tick()
    assert not again.run_requests
    assert run.run_id in str(again.skip_message)
    assert landed(synced) == list(range(1, synced.server.bus.last_number + 1))
    synced.instance.delete_run(run.run_id)
    assert tick_when_settled(synced).run_requests


@dg.job(name="salesforce_sync")
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
    description = synced.sensor_tick()
    assert synced.server.faults.armed(fault) == 0
    assert description.run_requests
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
    """One that sends no keepalive either is dead; the next tick begins it again after the last event it brought."""
    make_events(synced, 1000)
    with armed_once_events_flow(synced, Fault.SILENT_STREAM):
        synced.sensor_tick()
    assert synced.server.faults.armed(Fault.SILENT_STREAM) == 0
    first = landed(synced)
    assert first == list(range(1, len(first) + 1))
    assert len(first) < synced.server.bus.last_number
    synced.sensor_tick()
    assert landed(synced) == first
    tick_for(synced, SILENCE_SECONDS + 1)
    assert landed(synced) == list(range(1, synced.server.bus.last_number + 1))
    assert synced.server.meter.more_than_once() == {first[-1]: 2}


def test_a_first_answer_that_comes_late_is_landed_by_the_tick_that_hears_it_and_paid_for_once(
    synced: EmulatedPipeline,
) -> None:
    make_events(synced, 30)
    published = synced.server.bus.last_number
    synced.server.faults.arm(Fault.LATE_ANSWER, seconds=30)
    for _ in range(3):
        description = synced.sensor_tick()
        assert "the stream has not answered yet" in str(description.skip_message)
        assert not description.run_requests
    clock.sleep(30)
    assert synced.sensor_tick().run_requests
    assert landed(synced) == list(range(1, published + 1))
    assert synced.server.meter.total == published


def test_the_events_of_one_replay_id_between_which_the_stream_pauses_are_all_landed(synced: EmulatedPipeline) -> None:
    """The stream says nothing for as long as it likes, and the process that reads it may be another one then."""
    with synced.org.transaction() as one:
        for record_id in ids(synced.org, "Account")[:8]:
            one.update("Account", record_id, {"Site": "one save of eight records"})
    before = synced.server.bus.last_number
    synced.server.faults.arm(Fault.ENRICHED)
    with synced.org.transaction() as one:
        for record_id in ids(synced.org, "Account")[:8]:
            one.update("Account", record_id, {"Site": "and another"})
    assert synced.server.bus.last_number == before + 8
    synced.server.faults.arm(Fault.STREAM_PAUSE, after=before + 4, seconds=60)
    synced.sensor_tick()
    assert landed(synced) == list(range(1, before + 5))
    tick_when_settled(synced)
    OPEN_CHANNELS.close()
    synced.sync()
    assert landed(synced) == list(range(1, before + 9))
    synced.assert_equal_to_the_org()


@contextmanager
def armed_once_events_flow(pipeline: EmulatedPipeline, fault: Fault) -> Iterator[None]:
    """Arms the fault as soon as a first response was delivered."""
    over = threading.Event()

    def watch() -> None:
        while not pipeline.server.meter.total and not over.wait(0.001):
            pass
        pipeline.server.faults.arm(fault)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join(BOUND_SECONDS)


def test_ticks_without_news_open_one_instance_in_all(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    ref, opened, open_one = InstanceRef.from_dir(str(tmp_path / "home")), [], dg.DagsterInstance.from_ref
    monkeypatch.setattr(dg.DagsterInstance, "from_ref", lambda ref: opened.append(ref) or open_one(ref))
    sensor = defs.resolve_sensor_def(ASSETS.name("poll_ChangeEvents"))
    for _ in range(3):
        with SensorEvaluationContext(ref, definitions=defs) as context:
            assert sensor.evaluate_tick(context).skip_message
    assert opened == [ref]
    close_instances()
