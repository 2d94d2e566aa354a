"""Platform events that are doubled, lost, unreadable or refused, and what the oracle and the control resource say."""

from __future__ import annotations

import grpc
import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets_tests.emulator.platform_event_client import ORDER, EventClient, error_of


def test_an_event_that_is_published_twice_has_one_uuid_and_two_replay_ids(client: EventClient) -> None:
    start = client.place()
    client.server.faults.arm(Fault.DUPLICATE, after=1)
    for number in "12":
        client.post_event(Order_Number__c=number)
    first, second, copy = client.received(3, after=start)
    assert copy.event == first.event
    assert copy.replay_id > second.replay_id > first.replay_id
    log = client.server.publisher.published()[-2:]
    assert [each.event_id for each in log] == [first.event.id, second.event.id]


def test_a_lost_event_and_one_that_cannot_be_read_are_as_the_oracle_says(client: EventClient) -> None:
    start = client.place()
    client.server.faults.arm(Fault.LOST_EVENT)
    client.server.faults.arm(Fault.GARBLED_BODY)
    for number in "12":
        assert client.post_event(Order_Number__c=number).status_code == 201
    (event,) = client.received(1, after=start)
    published = client.server.publisher.published()[-1]
    assert published.event_id == event.event.id
    assert published.values is not None
    assert published.values["Order_Number__c"] == "2"
    assert event.event.payload != published.payload


def test_a_publisher_is_refused_while_publishing_fails(client: EventClient) -> None:
    client.server.faults.arm(Fault.PUBLISH_FAILED, 2)
    (result,) = client.publish(client.producer_event("f")).results
    assert (result.error.code, result.correlation_key) == (pb.ErrorCode.PUBLISH, "f")
    answer = client.post_event(Order_Number__c="1")
    assert (answer.status_code, answer.json()[0]["errorCode"]) == (503, "PLATFORM_EVENT_PUBLISHING_UNAVAILABLE")
    client.server.faults.arm(Fault.UNAVAILABLE)
    with pytest.raises(grpc.RpcError) as raised:
        client.publish(client.producer_event())
    assert error_of(raised)[1] == "service.unavailable"


def test_the_control_resource_has_the_log(client: EventClient) -> None:
    after = len(client.server.publisher.published())
    client.post_event(Order_Number__c="logged")
    (entry,) = client.rest.get(f"//emulator/platform-events?after={after}").json()
    assert (entry["name"], entry["values"]["Order_Number__c"]) == (ORDER, "logged")
    answer = client.rest.post(
        "//emulator/platform-events", {"name": "No", "label": "n", "key_prefix": "e0", "fields": []}
    )
    assert answer.status_code == 400
