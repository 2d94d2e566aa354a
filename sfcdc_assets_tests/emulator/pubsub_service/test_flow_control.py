"""What a subscriber of the emulated org gets: the events it asked for, in order, once, from where it asked."""

from __future__ import annotations

import json
from io import BytesIO

from fastavro import parse_schema, schemaless_reader

from sfcdc_assets.emulator.pubsub.topic_reader import MAX_PAYLOAD_BYTES
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets_tests.emulator.pubsub_service.emulated import ALL, CUSTOM, EARLIEST, LATEST, Emulated
from sfcdc_assets_tests.eventually import eventually


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
    eventually(lambda: emulated.service.subscribed_streams == 1, "the stream to be begun")
    emulated.create(1)
    (event,) = stream.events(1)
    assert event.replay_id == emulated.bus.read({"Account"}, after=2, max_events=1, max_bytes=1).events[0].replay_id


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
    eventually(lambda: emulated.service.outstanding == 100, "the second request")
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
