"""What the Pub/Sub service of the emulated org refuses, with the vendor's statuses and codes."""

from __future__ import annotations

from collections.abc import Callable

import grpc
import pytest

from sfcdc_assets.emulator.events.event_bus import RETENTION_MS, EventBus
from sfcdc_assets.emulator.org.ids import to_15
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets_tests.emulator.pubsub_service.emulated import ALL, CUSTOM, LATEST, Emulated, refused
from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually


@pytest.mark.parametrize("number", [0, -1])
def test_a_request_for_no_events_is_refused(emulated: Emulated, number: int) -> None:
    error = emulated.subscribe(number).error()
    refused(error, grpc.StatusCode.INVALID_ARGUMENT, "subscription.fetch.requested.events.invalid")
    assert "must be greater than zero" in error.details()


def test_another_topic_in_a_later_request_is_refused(emulated: Emulated) -> None:
    error = emulated.subscribe(1, preset=LATEST).request(1, "/data/AccountChangeEvent").error()
    refused(error, grpc.StatusCode.INVALID_ARGUMENT, "subscription.fetch.topic.mismatch")


@pytest.mark.parametrize("topic", ["/data/NothingChangeEvent", "/data/accountChangeEvent", "AccountChangeEvent"])
def test_an_unknown_topic_is_not_found(emulated: Emulated, topic: str) -> None:
    error = emulated.subscribe(1, topic).error()
    refused(error, grpc.StatusCode.NOT_FOUND, "topic.not.found")
    assert f"org CORE/prod/{emulated.org.organization_id} and topic {topic} not found" in error.details()


def test_custom_without_an_id_is_refused(emulated: Emulated) -> None:
    error = emulated.subscribe(1, preset=CUSTOM).error()
    refused(error, grpc.StatusCode.INVALID_ARGUMENT, "subscription.fetch.replayid.validation.failed")


@pytest.mark.parametrize("preset", [3, 7, -1])
def test_a_preset_the_protocol_does_not_know_is_refused(emulated: Emulated, preset: int) -> None:
    emulated.create(1)
    replay = emulated.subscribe(1).events(1)[0].replay_id
    error = emulated.subscribe(1, preset=preset, replay=replay).error()
    refused(error, grpc.StatusCode.INVALID_ARGUMENT, "subscription.fetch.replayid.validation.failed")


def test_a_bad_and_an_expired_id_are_refused_alike(emulated: Emulated) -> None:
    emulated.create(2)
    old = emulated.subscribe(1).events(1)[0].replay_id
    emulated.clock.advance(RETENTION_MS + 1)
    for replay in (old, b"nonsense!"):
        error = emulated.subscribe(1, preset=CUSTOM, replay=replay).error()
        refused(error, grpc.StatusCode.INVALID_ARGUMENT, "subscription.fetch.replayid.corrupted")
        assert replay.hex() in error.details()


def test_an_unreadable_object_is_denied_alone_and_left_out_of_the_channel_of_all(emulated: Emulated) -> None:
    emulated.create(1)
    with emulated.org.transaction() as work:
        work.create("Lead", {"LastName": "l", "Company": "c"})
    emulated.org.unreadable_objects.add("Account")
    error = emulated.subscribe(1, "/data/AccountChangeEvent").error()
    refused(error, grpc.StatusCode.PERMISSION_DENIED, "subscription.topic.cannot.subscribe")
    (event,) = emulated.subscribe(5).events(1)
    assert event.event.schema_id == emulated.bus.newest_schema_id("Lead")
    topic = emulated.stub.GetTopic(pb.TopicRequest(topic_name="/data/AccountChangeEvent"), metadata=emulated.metadata)
    assert not topic.can_subscribe


def test_events_read_ahead_are_those_that_follow_however_many_are_asked_for(emulated: Emulated) -> None:
    emulated.create(9)
    expected = emulated.bus.read({"Account"}, after=0, max_events=9, max_bytes=10**6).events
    stream, found = emulated.subscribe(2), []
    for number, more in zip((2, 1, 3, 2, 1), (1, 3, 2, 1, 0), strict=True):
        response = stream.next()
        assert (len(response.events), response.pending_num_requested) == (number, 0)
        found.extend(response.events)
        assert response.latest_replay_id == found[-1].replay_id or len(found) == 9
        eventually(lambda: emulated.service.next_due() != 0, "the stream to come to rest")  # has read ahead
        if more:
            stream.request(more)
    assert [event.event.id for event in found] == [event.event_id for event in expected]
    assert emulated.service.meter.total == 9


def test_what_was_read_ahead_is_not_given_to_who_may_no_longer_read_it(emulated: Emulated) -> None:
    emulated.create(4)
    stream = emulated.subscribe(2)
    stream.next()
    eventually(lambda: emulated.service.next_due() != 0, "the stream to come to rest")
    emulated.org.unreadable_objects.add("Account")
    with emulated.org.transaction() as work:
        work.create("Lead", {"LastName": "l", "Company": "c"})
    (event,) = stream.request(2).events(1)
    assert event.event.schema_id == emulated.bus.newest_schema_id("Lead")


@pytest.mark.parametrize("remove", [EventBus.expire, EventBus.move])
def test_what_was_read_ahead_is_not_given_once_it_is_gone(
    emulated: Emulated, remove: Callable[[EventBus], None]
) -> None:
    emulated.create(4)
    stream = emulated.subscribe(2)
    stream.next()
    eventually(lambda: emulated.service.next_due() != 0, "the stream to come to rest")
    remove(emulated.bus)
    emulated.create(1)
    (event,) = stream.request(2).events(1)
    assert event.event.id == emulated.bus.read({"Account"}, after=0, max_events=9, max_bytes=10**6).events[0].event_id


@pytest.mark.parametrize("form", ["15", "18", "core"])
def test_the_organization_id_is_accepted_in_its_three_forms(emulated: Emulated, form: str) -> None:
    org_id = emulated.org.organization_id
    tenant = {"15": to_15(org_id), "18": org_id, "core": f"core/MyDomain/{to_15(org_id)}"}[form]
    metadata = emulated.with_header("tenantid", tenant)
    assert emulated.stub.GetTopic(pb.TopicRequest(topic_name=ALL), metadata=metadata).topic_name == ALL


@pytest.mark.parametrize(
    ("header", "value", "error_code"),
    [
        ("accesstoken", "wrong", "service.auth.error"),
        ("tenantid", "00D000000000009AAA", "service.auth.error"),
        ("accesstoken", None, "service.auth.headers.invalid"),
        ("instanceurl", " ", "service.auth.headers.invalid"),
        ("instanceurl", "https://localhost:1/services", "service.auth.headers.invalid"),
        ("tenantid", None, "service.auth.headers.invalid"),
        ("tenantid", "not an id", "service.auth.headers.invalid"),
        ("instanceurl", "https://another.my.salesforce.com", "service.auth.error"),
    ],
)
def test_wrong_credentials_are_refused_on_every_call(
    emulated: Emulated, header: str, value: str | None, error_code: str
) -> None:
    metadata = emulated.with_header(header, value)
    stub = emulated.stub
    topic, schema = pb.TopicRequest(topic_name=ALL), pb.SchemaRequest(schema_id="x")
    for kind, call in {
        "GetTopic": lambda: stub.GetTopic(topic, metadata=metadata, timeout=BOUND_SECONDS),
        "GetSchema": lambda: stub.GetSchema(schema, metadata=metadata, timeout=BOUND_SECONDS),
        "Subscribe": lambda: next(stub.Subscribe(iter([]), metadata=metadata, timeout=BOUND_SECONDS)),
    }.items():
        with pytest.raises(grpc.RpcError) as raised:
            call()
        refused(raised.value, grpc.StatusCode.UNAUTHENTICATED, error_code, kind)
        assert "wrong" not in raised.value.details()
