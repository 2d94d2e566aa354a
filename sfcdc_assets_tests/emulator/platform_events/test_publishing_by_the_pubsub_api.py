"""Platform events are published by the Pub/Sub API: `Publish` and `PublishStream`, with a result for each event.

The forms are those of https://developer.salesforce.com/docs/platform/pub-sub-api/references/methods/
publishstream-rpc.html.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

import grpc
import pytest

from sfcdc_assets.emulator.org.settings import HOUR
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets_tests.emulator.platform_event_client import TOPIC, EventClient, OpenPublishStream, error_of
from sfcdc_assets_tests.eventually import BOUND_SECONDS


def test_a_topic_of_a_platform_event_can_be_published_to_and_a_channel_cannot(client: EventClient) -> None:
    client.org.channels.create("Plain__chn", kind="event")
    topic, channel = client.topic(), client.topic("/event/Plain__chn")
    assert (topic.can_publish, topic.can_subscribe, bool(topic.schema_id)) == (True, True, True)
    assert (channel.can_publish, channel.can_subscribe, channel.schema_id) == (False, True, "")
    with pytest.raises(grpc.RpcError) as raised:
        client.publish(client.producer_event(), topic="/event/Plain__chn")
    assert error_of(raised) == (grpc.StatusCode.PERMISSION_DENIED, "publish.topic.cannot.publish")


def test_results_are_in_the_order_of_events_and_say_where_each_is(client: EventClient) -> None:
    start = client.place()
    given = [client.producer_event("mine-1", City__c="Rome"), client.producer_event(City__c="Oslo")]
    response = client.publish(*given)
    first, second = response.results
    assert response.schema_id == given[0].schema_id
    assert (first.correlation_key, first.HasField("error")) == ("mine-1", False)
    assert uuid.UUID(second.correlation_key)
    events = client.received(2, after=start)
    assert [event.replay_id for event in events] == [first.replay_id, second.replay_id]
    assert [event.event.id for event in events] == [first.correlation_key, second.correlation_key]
    assert [event.event.payload for event in events] == [event.payload for event in given]


def test_an_event_that_is_refused_has_an_error_and_the_others_are_published(client: EventClient) -> None:
    start = client.place()
    good = client.producer_event("good", City__c="Rome")
    change = client.topic("/data/AccountChangeEvent").schema_id
    wrong = [
        pb.ProducerEvent(id="blank", payload=good.payload),
        pb.ProducerEvent(id="another", schema_id=change, payload=good.payload),
        pb.ProducerEvent(id="unknown", schema_id="A" * 22, payload=good.payload),
        pb.ProducerEvent(id="large", schema_id=good.schema_id, payload=b"x" * (1024 * 1024 + 1)),
        pb.ProducerEvent(id="x" * 37, schema_id=good.schema_id, payload=good.payload),
        pb.ProducerEvent(schema_id="no id", payload=good.payload),
    ]
    results = client.publish(*wrong, good).results
    assert [result.error.code for result in results[:-1]] == [pb.ErrorCode.PUBLISH] * len(wrong)
    assert [result.correlation_key for result in results[:-1]] == [event.id for event in wrong]
    assert not any(result.replay_id for result in results[:-1])
    (event,) = client.received(1, after=start)
    assert (event.event.id, event.replay_id) == ("good", results[-1].replay_id)


def test_nobody_looks_into_a_payload(client: EventClient) -> None:
    start = client.place()
    schema_id_ = client.topic().schema_id
    (result,) = client.publish(pb.ProducerEvent(id="g", schema_id=schema_id_, payload=b"\xff\xff")).results
    assert not result.HasField("error")
    (event,) = client.received(1, after=start)
    assert event.event.payload == b"\xff\xff"
    assert client.server.publisher.published()[-1].values is None
    (message,) = client.bayeux(TOPIC, replay=int.from_bytes(start[:8], "big"))
    assert message["data"]["event"]["EventUuid"] == "g"


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (pb.PublishRequest(topic_name=TOPIC), grpc.StatusCode.INVALID_ARGUMENT, "publish.event.count.invalid"),
        (pb.PublishRequest(topic_name=""), grpc.StatusCode.INVALID_ARGUMENT, "publish.topic.validation.empty"),
        (pb.PublishRequest(topic_name="/event/No__e"), grpc.StatusCode.NOT_FOUND, "topic.not.found"),
        (pb.PublishRequest(topic_name="/event/Low_Ink__e"), grpc.StatusCode.NOT_FOUND, "topic.not.found"),
        (
            pb.PublishRequest(topic_name=TOPIC, events=[pb.ProducerEvent(payload=bytes(1024 * 1024))] * 5),
            grpc.StatusCode.UNAVAILABLE,
            "",
        ),
    ],
)
def test_a_request_that_cannot_be_one_ends_the_call(
    client: EventClient, request_: pb.PublishRequest, status: grpc.StatusCode, code: str
) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        client.stub.Publish(request_, metadata=client.metadata, timeout=BOUND_SECONDS)
    assert error_of(raised) == (status, code)
    with pytest.raises(grpc.RpcError) as raised:
        client.streamed(request_)
    assert error_of(raised) == (status, code)


def test_a_stream_answers_each_request_and_ends_when_its_client_has_no_more(client: EventClient) -> None:
    start = client.place()
    first = pb.PublishRequest(topic_name=TOPIC, events=[client.producer_event(str(n)) for n in range(3)])
    second = pb.PublishRequest(events=[client.producer_event("3")])
    responses = client.streamed(first, second)
    assert [[each.correlation_key for each in one.results] for one in responses] == [["0", "1", "2"], ["3"]]
    assert [event.event.id for event in client.received(4, after=start)] == ["0", "1", "2", "3"]


def test_a_stream_that_changes_its_topic_ends(client: EventClient) -> None:
    stream = OpenPublishStream(client)
    stream.send(client.producer_event(), topic=TOPIC)
    with pytest.raises(grpc.RpcError) as raised:
        stream.send(client.producer_event(), topic="/event/Other__e")
    assert error_of(raised) == (grpc.StatusCode.INVALID_ARGUMENT, "publish.topic.mismatch")


def test_a_stream_without_an_event_for_70_seconds_ends(client: EventClient) -> None:
    stream = OpenPublishStream(client)
    stream.send(client.producer_event(), topic=TOPIC)
    client.clock.advance(69_000)
    stream.send(client.producer_event())
    client.clock.advance(70_000)
    assert error_of(stream.error())[1] == "publish.stream.sweeper.timeout"


def test_publishing_beyond_the_hours_allowance_is_refused_and_limits_say_what_is_left(client: EventClient) -> None:
    def left() -> int:
        return client.rest.get("/limits").json()["HourlyPublishedPlatformEvents"]["Remaining"]

    used = 50_000 - left()
    client.org.settings = replace(client.org.settings, hourly_published_events=used + 2)
    results = client.publish(*(client.producer_event(str(n)) for n in range(3))).results
    assert [each.error.msg.partition(":")[0] for each in results] == ["", "", "LIMIT_EXCEEDED"]
    assert left() == 0
    answer = client.post_event(Order_Number__c="1")
    assert (answer.status_code, answer.json()[0]["errorCode"]) == (403, "LIMIT_EXCEEDED")
    client.clock.advance(HOUR + 60_000)
    client.post_event(Order_Number__c="1").raise_for_status()
