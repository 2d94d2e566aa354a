"""The Pub/Sub service over real gRPC and TLS on loopback."""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import grpc
import pytest
from fastavro import parse_schema, schemaless_reader

from sfcdc_assets.emulator.certificate import server_certificate
from sfcdc_assets.emulator.clock import ManualClock
from sfcdc_assets.emulator.event_bus import RETENTION_MS, EventBus
from sfcdc_assets.emulator.faults import Fault
from sfcdc_assets.emulator.ids import to_15
from sfcdc_assets.emulator.org import EmulatedOrg
from sfcdc_assets.emulator.pubsub_server import PubSubServer
from sfcdc_assets.emulator.pubsub_service import PubSubService
from sfcdc_assets.emulator.stream_timing import StreamTiming
from sfcdc_assets.emulator.topic_reader import MAX_PAYLOAD_BYTES
from sfcdc_assets.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.pubsub.proto import pubsub_api_pb2_grpc as pb_grpc

TOKEN = "00Dxx!token-of-the-test"
ALL = "/data/ChangeEvents"
EARLIEST, LATEST, CUSTOM = pb.ReplayPreset.EARLIEST, pb.ReplayPreset.LATEST, pb.ReplayPreset.CUSTOM
DEADLINE = 20


class OneToken:
    """Sessions of an org that has given out one token."""

    def user_of(self, access_token: str) -> str | None:
        return "005000000000001AAA" if access_token == TOKEN else None


class Stream:
    """A Subscribe call whose requests are sent when the test says so."""

    def __init__(self, call: Callable[..., Iterator[pb.FetchResponse]], metadata: list[tuple[str, str]]) -> None:
        self._requests: queue.SimpleQueue[pb.FetchRequest | None] = queue.SimpleQueue()
        self.responses = call(iter(self._requests.get, None), metadata=metadata, timeout=DEADLINE)

    def request(self, number: int, topic: str = "", preset: int = LATEST, replay: bytes = b"") -> Stream:
        self._requests.put(
            pb.FetchRequest(topic_name=topic, num_requested=number, replay_preset=preset, replay_id=replay)
        )
        return self

    def half_close(self) -> None:
        self._requests.put(None)

    def next(self) -> pb.FetchResponse:
        return next(self.responses)

    def events(self, count: int) -> list[pb.ConsumerEvent]:
        """Read until at least `count` events have come; the call's deadline bounds the wait."""
        found: list[pb.ConsumerEvent] = []
        while len(found) < count:
            found.extend(self.next().events)
        return found

    def error(self) -> grpc.RpcError:
        with pytest.raises(grpc.RpcError) as raised:
            for _ in self.responses:
                pass
        return raised.value

    def ended_by_the_server(self) -> bool:
        """Whether the stream is over, normally or as a cancelled one, with nothing more delivered."""
        try:
            return not list(self.responses)
        except grpc.RpcError as error:
            return error.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)

    def cancel(self) -> None:
        self.half_close()
        self.responses.cancel()


class Emulated:
    """A served org and a client of it."""

    def __init__(self, directory: Path, timing: StreamTiming) -> None:
        self.clock = ManualClock()
        self.org = EmulatedOrg(clock=self.clock, seed=4)
        self.bus = EventBus(self.org)
        certificate = server_certificate(directory)
        self.service = PubSubService(self.org, self.bus, sessions=OneToken(), timing=timing)
        self.server = PubSubServer(self.service, certificate)
        self.server.start()
        credentials = grpc.ssl_channel_credentials(certificate.ca_file.read_bytes())
        self.channel = grpc.secure_channel(f"localhost:{self.server.port}", credentials)
        self.stub = pb_grpc.PubSubStub(self.channel)
        self.metadata = [
            ("accesstoken", TOKEN),
            ("instanceurl", "https://localhost:1"),
            ("tenantid", self.org.organization_id),
        ]
        self.streams: list[Stream] = []

    def subscribe(self, number: int, topic: str = ALL, preset: int = EARLIEST, replay: bytes = b"") -> Stream:
        return self.open().request(number, topic, preset, replay)

    def open(self) -> Stream:
        self.streams.append(Stream(self.stub.Subscribe, self.metadata))
        return self.streams[-1]

    def create(self, count: int, **values: object) -> None:
        for _ in range(count):
            with self.org.transaction() as work:
                work.create("Account", {"Name": "a", **values})

    def with_header(self, name: str, value: str | None) -> list[tuple[str, str]]:
        others = [(key, text) for key, text in self.metadata if key != name]
        return others if value is None else [*others, (name, value)]

    def close(self) -> None:
        for stream in self.streams:
            stream.cancel()
        self.channel.close()
        self.server.stop()
        self.org.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Emulated]]:
    served: list[Emulated] = []

    def start(**timing: float | bool) -> Emulated:
        served.append(Emulated(tmp_path, StreamTiming(**timing)))
        return served[-1]

    yield start
    for each in served:
        each.close()


@pytest.fixture
def emulated(serve: Callable[..., Emulated]) -> Emulated:
    return serve()


def trailers(error: grpc.RpcError) -> dict[str, str]:
    return {key: value for key, value in error.trailing_metadata() if key in ("error-code", "rpc-id", "type")}


def refused(error: grpc.RpcError, status: grpc.StatusCode, error_code: str, kind: str = "Subscribe") -> None:
    """The status, the code, and the rpc id both in the trailers and at the end of the text."""
    assert error.code() == status
    found = trailers(error)
    assert found["error-code"] == "sfdc.platform.eventbus.grpc." + error_code
    assert found["type"] == kind
    assert error.details().endswith(f" rpcId: {found['rpc-id']}")


# -- events and flow control


def test_events_arrive_in_order_and_decode_with_the_schema_of_their_id(emulated: Emulated) -> None:
    emulated.create(3, Phone="123")
    with emulated.org.transaction() as work:
        work.create("Lead", {"LastName": "l", "Company": "c"})
    events = emulated.subscribe(10).events(4)
    entities = []
    for event in events:
        info = emulated.stub.GetSchema(pb.SchemaRequest(schema_id=event.event.schema_id), metadata=emulated.metadata)
        payload = BytesIO(event.event.payload)
        record = schemaless_reader(payload, parse_schema(json.loads(info.schema_json)), None)
        assert payload.read() == b""
        assert len(event.replay_id) == 10
        entities.append(record["ChangeEventHeader"]["entityName"])
    assert entities == ["Account"] * 3 + ["Lead"]


def test_an_unset_preset_is_latest_and_gives_only_what_comes_later(emulated: Emulated) -> None:
    emulated.create(2)
    stream = emulated.open().request(10, ALL)
    wait_for(lambda: emulated.service.subscribed_streams == 1)
    emulated.create(1)
    (event,) = stream.events(1)
    assert event.replay_id == emulated.bus.read({"Account"}, after=2, max_events=1, max_bytes=1).events[0].replay_id


def wait_for(condition: Callable[[], bool]) -> None:
    """Bounded wait for something the server does without telling the client."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_a_client_gets_what_it_asked_for_and_not_more(emulated: Emulated) -> None:
    emulated.create(5)
    stream = emulated.subscribe(3)
    first = stream.next()
    assert (len(first.events), first.pending_num_requested) == (3, 0)
    second = stream.request(1).next()
    assert (len(second.events), second.pending_num_requested) == (1, 0)


def test_a_partial_batch_leaves_the_rest_pending(emulated: Emulated) -> None:
    emulated.create(2)
    stream = emulated.subscribe(5)
    first = stream.next()
    assert (len(first.events), first.pending_num_requested) == (2, 3)
    emulated.create(1)
    second = stream.next()
    assert (len(second.events), second.pending_num_requested) == (1, 2)


def test_at_most_100_events_are_outstanding_over_all_requests(emulated: Emulated) -> None:
    stream = emulated.subscribe(70, preset=LATEST).request(70).request(1000)
    wait_for(lambda: emulated.service.outstanding == 100)
    with emulated.org.transaction() as work:
        for number in range(130):
            work.create("Account", {"Name": f"a{number}"})
    response = stream.next()
    assert (len(response.events), response.pending_num_requested) == (100, 0)
    assert len(stream.request(100).next().events) == 30


def test_a_response_holds_at_most_three_megabytes(emulated: Emulated) -> None:
    emulated.create(120, Description="é" * 16_000)
    stream = emulated.subscribe(100)
    response = stream.next()
    size = sum(len(event.event.payload) for event in response.events)
    assert 1 < len(response.events) < 100
    assert size <= MAX_PAYLOAD_BYTES
    assert response.pending_num_requested == 100 - len(response.events)
    assert len(response.events) + len(stream.events(100 - len(response.events))) == 100


def test_custom_resumes_strictly_after_an_id_of_ten_or_eight_bytes(emulated: Emulated) -> None:
    emulated.create(4)
    ids = [event.replay_id for event in emulated.subscribe(4).events(4)]
    for form in (ids[1], ids[1][:8]):
        assert [e.replay_id for e in emulated.subscribe(4, preset=CUSTOM, replay=form).events(2)] == ids[2:]


def test_later_replay_arguments_are_ignored(emulated: Emulated) -> None:
    emulated.create(2)
    stream = emulated.subscribe(1)
    (first,) = stream.events(1)
    (second,) = stream.request(1, ALL, CUSTOM, b"nonsense").events(1)
    assert second.replay_id > first.replay_id


def test_the_topic_of_one_object_carries_its_events_only(emulated: Emulated) -> None:
    emulated.create(1)
    with emulated.org.transaction() as work:
        work.create("Invoice_Statement__c", {})
    (event,) = emulated.subscribe(5, "/data/Invoice_Statement__ChangeEvent").events(1)
    assert event.event.schema_id == emulated.bus.newest_schema_id("Invoice_Statement__c")


def test_nothing_is_delivered_twice_over_a_chain_of_streams(emulated: Emulated) -> None:
    emulated.create(30)
    replay = b""
    for _ in range(3):
        stream = emulated.subscribe(10, preset=CUSTOM if replay else EARLIEST, replay=replay)
        replay = stream.events(10)[-1].replay_id
        stream.cancel()
    assert emulated.service.meter.total == 30
    assert emulated.service.meter.more_than_once() == {}


# -- keepalive, idleness, end


def test_a_quiet_stream_gets_a_keepalive_that_names_the_newest_id_within_270_seconds(emulated: Emulated) -> None:
    emulated.create(1)
    stream = emulated.subscribe(5)
    stream.events(1)
    for _ in range(2):
        wait_for(lambda: emulated.service.next_due() == emulated.clock() + 270_000)
        emulated.clock.advance(270_000)
        keepalive = stream.next()
        assert len(keepalive.events) == 0
        assert keepalive.pending_num_requested == 4
        assert keepalive.latest_replay_id == emulated.bus.latest_replay_id()


def test_a_stream_with_nothing_requested_any_more_is_closed_normally_after_60_seconds(emulated: Emulated) -> None:
    emulated.create(1)
    stream = emulated.subscribe(1)
    stream.events(1)
    wait_for(lambda: emulated.service.next_due() == emulated.clock() + 60_000)
    emulated.clock.advance(60_000)
    assert list(stream.responses) == []
    assert stream.responses.code() == grpc.StatusCode.OK


def test_the_idle_end_can_be_an_error(serve: Callable[..., Emulated]) -> None:
    emulated = serve(idle_is_error=True)
    emulated.create(1)
    stream = emulated.subscribe(1)
    stream.events(1)
    emulated.clock.advance(60_000)
    assert stream.error().code() == grpc.StatusCode.DEADLINE_EXCEEDED


def test_a_client_that_closes_its_side_ends_the_call(emulated: Emulated) -> None:
    stream = emulated.subscribe(5, preset=LATEST)
    wait_for(lambda: emulated.service.subscribed_streams == 1)
    stream.half_close()
    assert list(stream.responses) == []
    assert stream.responses.code() == grpc.StatusCode.OK


def test_a_client_that_closes_its_side_at_once_gets_the_events_that_are_there(emulated: Emulated) -> None:
    emulated.create(7)
    stream = emulated.subscribe(5)
    stream.half_close()
    assert sum(len(response.events) for response in stream.responses) == 5
    assert stream.responses.code() == grpc.StatusCode.OK
    stream = emulated.subscribe(100)
    stream.half_close()
    assert sum(len(response.events) for response in stream.responses) == 7


def test_a_cancelled_stream_is_given_up_by_the_server(emulated: Emulated) -> None:
    stream = emulated.subscribe(5, preset=LATEST)
    wait_for(lambda: emulated.service.subscribed_streams == 1)
    stream.cancel()
    wait_for(lambda: emulated.service.open_streams == 0)


def test_stopping_ends_open_streams_within_a_second(emulated: Emulated) -> None:
    streams = [emulated.subscribe(5, preset=LATEST) for _ in range(3)]
    wait_for(lambda: emulated.service.subscribed_streams == 3)
    began = time.monotonic()
    emulated.server.stop()
    assert time.monotonic() - began < 1
    for stream in streams:
        assert stream.ended_by_the_server()


# -- refusals


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
        wait_for(lambda: emulated.service.next_due() != 0)  # has read ahead
        if more:
            stream.request(more)
    assert [event.event.id for event in found] == [event.event_id for event in expected]
    assert emulated.service.meter.total == 9


def test_what_was_read_ahead_is_not_given_to_who_may_no_longer_read_it(emulated: Emulated) -> None:
    emulated.create(4)
    stream = emulated.subscribe(2)
    stream.next()
    wait_for(lambda: emulated.service.next_due() != 0)
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
    wait_for(lambda: emulated.service.next_due() != 0)
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
        "GetTopic": lambda: stub.GetTopic(topic, metadata=metadata, timeout=DEADLINE),
        "GetSchema": lambda: stub.GetSchema(schema, metadata=metadata, timeout=DEADLINE),
        "Subscribe": lambda: next(stub.Subscribe(iter([]), metadata=metadata, timeout=DEADLINE)),
    }.items():
        with pytest.raises(grpc.RpcError) as raised:
            call()
        refused(raised.value, grpc.StatusCode.UNAUTHENTICATED, error_code, kind)
        assert "wrong" not in raised.value.details()


# -- topics, schemas, publishing


def test_a_topic_of_one_object_names_its_schema_and_the_channel_of_all_none(emulated: Emulated) -> None:
    one = emulated.stub.GetTopic(pb.TopicRequest(topic_name="/data/AccountChangeEvent"), metadata=emulated.metadata)
    assert one.schema_id == emulated.bus.newest_schema_id("Account")
    assert (one.can_subscribe, one.can_publish) == (True, False)
    assert one.tenant_guid == f"CORE/prod/{emulated.org.organization_id}"
    every = emulated.stub.GetTopic(pb.TopicRequest(topic_name=ALL), metadata=emulated.metadata)
    assert every.schema_id == ""


@pytest.mark.parametrize(
    ("schema_id", "status"),
    [("", grpc.StatusCode.INVALID_ARGUMENT), ("A" * 22, grpc.StatusCode.NOT_FOUND)],
)
def test_a_blank_or_unknown_schema_id_is_refused(emulated: Emulated, schema_id: str, status: grpc.StatusCode) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        emulated.stub.GetSchema(pb.SchemaRequest(schema_id=schema_id), metadata=emulated.metadata)
    refused(raised.value, status, "schema.validation.failed", "GetSchema")


def test_change_event_topics_cannot_be_published_to(emulated: Emulated) -> None:
    request = pb.PublishRequest(topic_name=ALL, events=[pb.ProducerEvent(id="1", payload=b"x")])
    with pytest.raises(grpc.RpcError) as raised:
        emulated.stub.Publish(request, metadata=emulated.metadata)
    assert raised.value.code() == grpc.StatusCode.PERMISSION_DENIED
    with pytest.raises(grpc.RpcError) as raised:
        next(emulated.stub.PublishStream(iter([request]), metadata=emulated.metadata, timeout=DEADLINE))
    assert raised.value.code() == grpc.StatusCode.PERMISSION_DENIED


# -- faults


def test_a_reset_stream_ends_as_internal_without_trailers(emulated: Emulated) -> None:
    stream = emulated.subscribe(5, preset=LATEST)
    wait_for(lambda: emulated.service.subscribed_streams == 1)
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
    wait_for(lambda: emulated.service.subscribed_streams == 1)
    emulated.clock.advance(270_000)
    stream.next()
    emulated.service.faults.arm(Fault.SILENT_STREAM)
    wait_for(lambda: emulated.service.faults.armed(Fault.SILENT_STREAM) == 0)
    emulated.create(1)
    other = emulated.subscribe(5)
    other.events(1)
    emulated.clock.advance(270_000)
    other.next()
    assert emulated.service.meter.total == 1
    stream.cancel()
    wait_for(lambda: emulated.service.open_streams == 1)


def test_a_custom_channel_has_no_schema_id_and_carries_its_members_only(emulated: Emulated) -> None:
    emulated.org.channels.create("Sales__chn")
    emulated.org.channels.add_member("Sales__chn", "Contact")
    topic = emulated.stub.GetTopic(pb.TopicRequest(topic_name="/data/Sales__chn"), metadata=emulated.metadata)
    assert (topic.schema_id, topic.can_subscribe, topic.can_publish) == ("", True, False)
    emulated.create(2)
    with emulated.org.transaction() as work:
        work.create("Contact", {"LastName": "c"})
    stream = emulated.subscribe(10, "/data/Sales__chn")
    (event,) = stream.events(1)
    assert event.event.id == emulated.subscribe(10).events(3)[2].event.id
    contact = emulated.stub.GetTopic(pb.TopicRequest(topic_name="/data/ContactChangeEvent"), metadata=emulated.metadata)
    assert event.event.schema_id == contact.schema_id
