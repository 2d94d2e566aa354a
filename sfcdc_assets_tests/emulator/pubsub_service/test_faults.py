"""Faults of calls and streams over real gRPC: the delivery allowance, outages in midst of a stream, refused schemas."""

from __future__ import annotations

from dataclasses import replace

import grpc
import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets_tests.emulator.pubsub_service.emulated import ALL, EARLIEST, LATEST, Emulated, refused, trailers
from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually

PREFIX = "sfdc.platform.eventbus.grpc."


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


def test_a_stream_may_pause_between_two_events_for_as_long_as_was_asked(emulated: Emulated) -> None:
    emulated.create(8)
    emulated.service.faults.arm(Fault.STREAM_PAUSE, after=4, seconds=6)
    stream = emulated.subscribe(100)
    first = stream.next()
    assert (len(first.events), first.pending_num_requested) == (4, 96)
    assert first.latest_replay_id == first.events[-1].replay_id
    eventually(lambda: emulated.service.next_due() == emulated.clock() + 6_000, "the stream to wait for that")
    emulated.create(1)
    emulated.clock.advance(6_000)
    second = stream.next()
    assert (len(second.events), emulated.service.meter.total) == (5, 9)


def test_a_pause_may_be_longer_than_the_time_of_a_keepalive(emulated: Emulated) -> None:
    emulated.create(2)
    emulated.service.faults.arm(Fault.STREAM_PAUSE, seconds=1_000)
    stream = emulated.subscribe(100)
    stream.events(1)
    eventually(lambda: emulated.service.next_due() == emulated.clock() + 1_000_000, "the stream to wait for that")
    emulated.clock.advance(999_000)
    eventually(lambda: emulated.service.next_due() == emulated.clock() + 1_000, "the stream to wait for that")
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
    eventually(lambda: emulated.service.subscribed_streams == 1, "the stream to be begun")
    eventually(lambda: emulated.service.next_due() == emulated.clock() + 30_000, "the stream to wait for that")
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
        emulated.stub.GetTopic(topic, metadata=emulated.metadata, wait_for_ready=True, timeout=BOUND_SECONDS)
        stream = emulated.subscribe(10, preset=pb.ReplayPreset.CUSTOM, replay=first.replay_id)
        (first,) = stream.events(1)
    assert emulated.service.faults.struck(Fault.GOAWAY) == 2


def test_a_reset_stream_ends_as_internal_without_trailers(emulated: Emulated) -> None:
    stream = emulated.subscribe(5, preset=LATEST)
    eventually(lambda: emulated.service.subscribed_streams == 1, "the stream to be begun")
    emulated.service.faults.arm(Fault.STREAM_RESET)
    error = stream.error()
    assert error.code() == grpc.StatusCode.INTERNAL
    assert error.details() == "Received RST_STREAM with code 0 (Call ended without gRPC status)"
    assert trailers(error) == {}


def test_an_armed_fault_happens_as_often_as_armed(emulated: Emulated) -> None:
    emulated.create(1)
    emulated.service.faults.arm(Fault.STREAM_AUTH_ERROR)
    refused(emulated.subscribe(1).error(), grpc.StatusCode.UNAUTHENTICATED, "service.auth.error")
    assert len(emulated.subscribe(1).events(1)) == 1


def test_an_unavailable_service_says_internal(emulated: Emulated) -> None:
    emulated.service.faults.arm(Fault.UNAVAILABLE, times=2)
    refused(emulated.subscribe(1).error(), grpc.StatusCode.INTERNAL, "service.unavailable")
    with pytest.raises(grpc.RpcError) as raised:
        emulated.stub.GetTopic(pb.TopicRequest(topic_name=ALL), metadata=emulated.metadata)
    refused(raised.value, grpc.StatusCode.INTERNAL, "service.unavailable", "GetTopic")
    assert emulated.stub.GetTopic(pb.TopicRequest(topic_name=ALL), metadata=emulated.metadata).topic_name == ALL


def test_a_silent_stream_sends_neither_events_nor_keepalives(emulated: Emulated) -> None:
    stream = emulated.subscribe(5, preset=LATEST)
    eventually(lambda: emulated.service.subscribed_streams == 1, "the stream to be begun")
    emulated.clock.advance(270_000)
    stream.next()
    emulated.service.faults.arm(Fault.SILENT_STREAM)
    eventually(lambda: emulated.service.faults.armed(Fault.SILENT_STREAM) == 0, "the stream to fall silent")
    emulated.create(1)
    other = emulated.subscribe(5)
    other.events(1)
    emulated.clock.advance(270_000)
    other.next()
    assert emulated.service.meter.total == 1
    stream.cancel()
    eventually(lambda: emulated.service.open_streams == 1, "the call to come in")
