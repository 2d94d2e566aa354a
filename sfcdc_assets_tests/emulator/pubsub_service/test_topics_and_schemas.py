"""Topics and schemas of the emulated org by `GetTopic` and `GetSchema`."""

from __future__ import annotations

import grpc
import pytest

from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets_tests.emulator.pubsub_service.emulated import ALL, Emulated, refused
from sfcdc_assets_tests.eventually import BOUND_SECONDS


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
        next(emulated.stub.PublishStream(iter([request]), metadata=emulated.metadata, timeout=BOUND_SECONDS))
    assert raised.value.code() == grpc.StatusCode.PERMISSION_DENIED


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
