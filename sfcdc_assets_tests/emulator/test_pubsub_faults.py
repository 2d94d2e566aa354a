"""Faults of calls and streams over real gRPC: the delivery allowance, outages in midst of a stream, refused schemas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from sfcdc_assets.emulator.faults import Fault
from sfcdc_assets.emulator.stream_timing import StreamTiming
from sfcdc_assets.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets_tests.emulator.test_pubsub_service import ALL, EARLIEST, Emulated, wait_for

PREFIX = "sfdc.platform.eventbus.grpc."


@pytest.fixture
def emulated(tmp_path: Path) -> Iterator[Emulated]:
    emulated = Emulated(tmp_path, StreamTiming())
    yield emulated
    emulated.close()


def error_code(error: grpc.RpcError) -> str:
    return dict(error.trailing_metadata())["error-code"].removeprefix(PREFIX)


def test_events_are_delivered_until_the_allowance_is_used_up(emulated: Emulated) -> None:
    emulated.org.settings = replace(emulated.org.settings, daily_event_deliveries=5)
    emulated.create(8)
    stream = emulated.subscribe(100)
    assert len(stream.events(5)) == 5
    error = stream.error()
    assert (error.code(), error_code(error)) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "subscription.limit.exceeded")
    assert emulated.service.allowance_left == 0
    assert error_code(emulated.subscribe(1).error()) == "subscription.limit.exceeded"
    emulated.clock.advance(24 * 3_600_000 + 1)
    emulated.org.settings = replace(emulated.org.settings, daily_event_deliveries=8)
    assert len(emulated.subscribe(100).events(8)) == 8


def test_a_stream_may_end_as_unavailable_in_its_midst(emulated: Emulated) -> None:
    emulated.create(1)
    stream = emulated.subscribe(10)
    stream.events(1)
    emulated.service.faults.arm(Fault.STREAM_UNAVAILABLE)
    error = stream.error()
    assert (error.code(), error_code(error)) == (grpc.StatusCode.INTERNAL, "service.unavailable")


def test_schemas_may_be_refused_for_a_while(emulated: Emulated) -> None:
    emulated.create(1)
    (event,) = emulated.subscribe(1).events(1)
    emulated.service.faults.arm(Fault.SCHEMA_REFUSED, 2)
    request = pb.SchemaRequest(schema_id=event.event.schema_id)
    for _ in range(2):
        with pytest.raises(grpc.RpcError) as raised:
            emulated.stub.GetSchema(request, metadata=emulated.metadata)
        assert error_code(raised.value) == "schema.api.unavailable"
    assert emulated.stub.GetSchema(request, metadata=emulated.metadata).schema_id == event.event.schema_id


def test_a_schema_may_be_one_that_the_user_may_not_read(emulated: Emulated) -> None:
    emulated.create(1)
    (event,) = emulated.subscribe(1).events(1)
    emulated.service.faults.arm(Fault.SCHEMA_NOT_PERMITTED)
    request = pb.SchemaRequest(schema_id=event.event.schema_id)
    with pytest.raises(grpc.RpcError) as raised:
        emulated.stub.GetSchema(request, metadata=emulated.metadata)
    assert raised.value.code() == grpc.StatusCode.PERMISSION_DENIED
    assert error_code(raised.value) == "schema.meta.permission"
    assert emulated.stub.GetSchema(request, metadata=emulated.metadata).schema_id == event.event.schema_id


def test_a_stream_may_pause_between_two_events_for_as_long_as_it_was_told(emulated: Emulated) -> None:
    emulated.create(8)
    emulated.service.faults.arm(Fault.STREAM_PAUSE, after=4, seconds=6)
    stream = emulated.subscribe(100)
    first = stream.next()
    assert (len(first.events), first.pending_num_requested) == (4, 96)
    assert first.latest_replay_id == first.events[-1].replay_id
    wait_for(lambda: emulated.service.next_due() == emulated.clock() + 6_000)
    emulated.create(1)
    emulated.clock.advance(6_000)
    second = stream.next()
    assert (len(second.events), emulated.service.meter.total) == (5, 9)


def test_a_pause_may_be_longer_than_the_time_of_a_keepalive(emulated: Emulated) -> None:
    emulated.create(2)
    emulated.service.faults.arm(Fault.STREAM_PAUSE, seconds=1_000)
    stream = emulated.subscribe(100)
    stream.events(1)
    wait_for(lambda: emulated.service.next_due() == emulated.clock() + 1_000_000)
    emulated.clock.advance(999_000)
    wait_for(lambda: emulated.service.next_due() == emulated.clock() + 1_000)
    emulated.clock.advance(1_000)
    assert len(stream.next().events) == 1


def test_a_pause_waits_for_a_response_that_it_can_cut(emulated: Emulated) -> None:
    emulated.create(1)
    emulated.service.faults.arm(Fault.STREAM_PAUSE)
    stream = emulated.subscribe(100)
    assert len(stream.next().events) == 1
    assert emulated.service.faults.armed(Fault.STREAM_PAUSE) == 1
    with emulated.org.transaction() as work:
        work.create("Account", {"Name": "a"})
        work.create("Lead", {"LastName": "l", "Company": "c"})
    assert len(stream.next().events) == 1
    emulated.clock.advance(5_000)
    assert len(stream.next().events) == 1
    assert emulated.service.faults.armed(Fault.STREAM_PAUSE) == 0


def test_the_first_answer_of_a_stream_may_be_late(emulated: Emulated) -> None:
    emulated.create(3)
    emulated.service.faults.arm(Fault.LATE_ANSWER, seconds=30)
    stream = emulated.subscribe(100)
    wait_for(lambda: emulated.service.subscribed_streams == 1)
    wait_for(lambda: emulated.service.next_due() == emulated.clock() + 30_000)
    assert emulated.service.meter.total == 0
    emulated.clock.advance(30_000)
    assert len(stream.next().events) == 3


def test_siblings_over_the_wire_share_a_replay_id_over_several_responses(emulated: Emulated) -> None:
    emulated.create(3)
    stream = emulated.subscribe(3, ALL, EARLIEST)
    stream.events(3)
    emulated.bus.faults.arm(Fault.ENRICHED)
    with emulated.org.transaction() as work:
        for record in list(emulated.org.records("Account")):
            work.update("Account", str(record["Id"]), {"Phone": "1"})
    found = []
    for _ in range(3):
        stream.request(1)
        found += stream.events(1)
    assert len({event.replay_id for event in found}) == 1
    assert len({event.event.payload for event in found}) == 3


def test_a_server_that_goes_away_cuts_its_streams_and_takes_new_ones_at_the_same_port(emulated: Emulated) -> None:
    emulated.create(1)
    stream = emulated.subscribe(10)
    (first,) = stream.events(1)
    for _ in range(2):
        emulated.service.faults.arm(Fault.GOAWAY, seconds=0)
        assert stream.error().code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
        emulated.create(1)
        topic = pb.TopicRequest(topic_name=ALL)
        emulated.stub.GetTopic(topic, metadata=emulated.metadata, wait_for_ready=True, timeout=30)
        stream = emulated.subscribe(10, preset=pb.ReplayPreset.CUSTOM, replay=first.replay_id)
        (first,) = stream.events(1)
    assert emulated.service.faults.struck(Fault.GOAWAY) == 2
