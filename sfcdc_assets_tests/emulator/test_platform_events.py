"""Platform events of the emulated org: defined as data, published by REST and the Pub/Sub API, read by both protocols.

The forms of requests and answers are those of https://developer.salesforce.com/docs/platform/platform-events/guide/
platform-events-publish-api.html and https://developer.salesforce.com/docs/platform/pub-sub-api/references/methods/
publishstream-rpc.html.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace

import grpc
import pytest

from sfcdc_assets.emulator.avro.event_schema import schema_id, schema_json
from sfcdc_assets.emulator.clock import ManualClock
from sfcdc_assets.emulator.cometd.allowances import Allowance
from sfcdc_assets.emulator.errors import ObjectDefinitionError, RecordError
from sfcdc_assets.emulator.event_bus import EventBus
from sfcdc_assets.emulator.event_bus_errors import ReplayIdCorruptedError
from sfcdc_assets.emulator.faults import Fault
from sfcdc_assets.emulator.org import EmulatedOrg
from sfcdc_assets.emulator.platform_events.event_codec import platform_event_schema
from sfcdc_assets.emulator.platform_events.event_definition import event_definition
from sfcdc_assets.emulator.platform_events.event_publishing import EventPublisher
from sfcdc_assets.emulator.settings import HOUR
from sfcdc_assets.emulator.topic import find_topic
from sfcdc_assets.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets_tests.emulator.platform_event_client import (
    ORDER,
    TOPIC,
    EventClient,
    OpenPublishStream,
    event_client,
)
from sfcdc_assets_tests.eventually import BOUND_SECONDS

PREFIX = "sfdc.platform.eventbus.grpc."
CHANNEL = "/tooling/sobjects/PlatformEventChannel"
MEMBER = "/tooling/sobjects/PlatformEventChannelMember"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EventClient]:
    with event_client(tmp_path_factory.mktemp("org")) as client:
        yield client


@pytest.fixture(autouse=True)
def disarmed(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "client" in request.fixturenames:
        served = request.getfixturevalue("client")
        served.server.faults.disarm()
        served.org.hidden_objects.clear()
        served.org.unreadable_objects.clear()
        settings = replace(served.org.settings, hourly_published_events=50_000, daily_generic_deliveries=1_000_000)
        served.org.settings = settings


def error_of(raised: pytest.ExceptionInfo[grpc.RpcError] | grpc.RpcError) -> tuple[grpc.StatusCode, str]:
    error = raised.value if isinstance(raised, pytest.ExceptionInfo) else raised
    codes = dict(error.trailing_metadata() or ())
    return error.code(), str(codes.get("error-code", "")).removeprefix(PREFIX)


# -- definitions and schemas


def test_a_definition_gives_the_schema_that_a_real_org_gave() -> None:
    """`Order_Event__e` of a real org, whose GetSchema answered `_CADE3qaegX3ECEW0rlbYA` (docs/salesforce-streams.md,
    "Topics and schemas")."""
    definition = event_definition(
        {
            "name": ORDER,
            "label": "Order Event",
            "key_prefix": "e01",
            "fields": [
                {"Order_Number__c": {"type": "string"}},
                {"City__c": {"type": "string"}},
                {"Amount__c": {"type": "double"}},
            ],
        }
    )
    schema = platform_event_schema(definition)
    assert schema_id(schema) == "_CADE3qaegX3ECEW0rlbYA"
    assert schema_json(schema).startswith('{"type":"record","name":"Order_Event__e","namespace":"com.sforce.eventbus"')
    fields = schema["fields"]
    assert isinstance(fields, list)
    assert [field["doc"].split(":")[:2] for field in fields] == [
        ["CreatedDate", "DateTime"], ["CreatedBy", "EntityId"], ["Data", "Text"], ["Data", "Text"], ["Data", "Double"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "Order__c"}, "no name of a platform event"),
        ({"name": "Order"}, "no name of a platform event"),
        ({"key_prefix": "a01"}, "key_prefix"),
        ({"publish": "later"}, "publish must be"),
        ({"fields": [{"Note": {"type": "string"}}]}, "__c"),
        ({"fields": [{"Where__c": {"type": "location"}}]}, "a type is one of"),
        ({"fields": [{"A__c": {"type": "string"}}, {"a__c": {"type": "string"}}]}, "twice"),
    ],
)
def test_a_definition_that_is_wrong_is_refused_with_what_is_wrong(change: dict[str, object], reason: str) -> None:
    document = {"name": "Order__e", "label": "Order", "key_prefix": "e02", "fields": [], **change}
    with pytest.raises(ObjectDefinitionError, match=reason):
        event_definition(document)


def test_a_field_that_is_added_gives_the_next_event_another_schema_and_events_before_keep_theirs(
    client: EventClient,
) -> None:
    client.rest.post(
        "//emulator/platform-events",
        {"name": "Note__e", "label": "Note", "key_prefix": "e05", "fields": [{"Text__c": {"type": "string"}}]},
    ).raise_for_status()
    start = client.place()
    client.post_event("Note__e", Text__c="one").raise_for_status()
    client.rest.post("//emulator/platform-events/Note__e/fields", {"name": "Size__c", "type": "double"})
    client.post_event("Note__e", Text__c="two", Size__c=2).raise_for_status()
    client.rest.send("DELETE", "//emulator/platform-events/Note__e/fields/Text__c").raise_for_status()
    client.post_event("Note__e", Size__c=3).raise_for_status()
    events = client.received(3, "/event/Note__e", start)
    bodies = [client.decoded(event) for event in events]
    assert [sorted(body.keys() - {"CreatedDate", "CreatedById"}) for body in bodies] == [
        ["Text__c"], ["Size__c", "Text__c"], ["Size__c"],
    ]  # fmt: skip
    assert len({event.event.schema_id for event in events}) == 3
    assert client.topic("/event/Note__e").schema_id == events[-1].event.schema_id


def test_definitions_are_kept_with_the_org(tmp_path) -> None:
    definition = event_definition({"name": "Mine__e", "label": "Mine", "key_prefix": "e09", "fields": []})
    org = EmulatedOrg(tmp_path, platform_events=[definition])
    org.platform_events.add_field("Mine__e", "A__c", {"type": "date"})
    org.close()
    again = EmulatedOrg(tmp_path)
    assert list(again.platform_events.all) == ["Mine__e"]
    assert [field.name for field in again.platform_events.all["Mine__e"].custom_fields] == ["A__c"]
    again.close()


def test_describe_lists_it_as_something_that_can_only_be_created(client: EventClient) -> None:
    listed = {each["name"]: each for each in client.rest.get("/sobjects").json()["sobjects"]}
    assert {"Order_Event__e", "Low_Ink__e"} <= listed.keys()
    described = client.rest.get(f"/sobjects/{ORDER}/describe").json()
    assert (described["createable"], described["queryable"], described["updateable"]) == (True, False, False)
    assert [field["name"] for field in described["fields"]][:4] == [
        "ReplayId", "CreatedDate", "CreatedById", "Order_Number__c",
    ]  # fmt: skip
    client.org.hidden_objects.add(ORDER)
    assert client.rest.get(f"/sobjects/{ORDER}/describe").status_code == 404


def test_its_schema_is_there_by_name_and_by_id_in_both_forms(client: EventClient) -> None:
    compact = client.rest.get(f"/sobjects/{ORDER}/eventSchema?payloadFormat=COMPACT").json()
    assert compact["uuid"] == client.topic().schema_id
    assert client.rest.get(f"/event/eventSchema/{compact['uuid']}?payloadFormat=COMPACT").json() == compact
    assert compact["fields"] == client.schema(compact["uuid"])["fields"]
    expanded = client.rest.get(f"/sobjects/{ORDER}/eventSchema").json()
    assert expanded["type"] == "expanded-record"
    data = {each["name"]: each["type"] for each in expanded["fields"][0]["type"]["fields"]}
    types = {each["name"]: each["type"] for each in data["payload"]["fields"]}
    assert (types["CreatedDate"], types["Ordered_At__c"], types["Amount__c"]) == (
        "string", ["null", "string"], ["null", "double"],
    )  # fmt: skip


# -- publishing by REST


def test_rest_answers_that_the_event_is_on_its_way_with_its_uuid(client: EventClient) -> None:
    start = client.place()
    answer = client.post_event(Order_Number__c="17", Amount__c=12.345, Shipped_On__c="2026-01-31", Has_Shipped__c=True)
    assert answer.status_code == 201
    body = answer.json()
    assert (body["success"], body["id"][:3], len(body["id"])) == (True, "e01", 18)
    (error,) = body["errors"]
    assert (error["statusCode"], error["fields"]) == ("OPERATION_ENQUEUED", [])
    assert str(uuid.UUID(error["message"])) == error["message"]
    (event,) = client.received(1, after=start)
    assert event.event.id == error["message"]
    assert client.decoded(event) == {
        "CreatedDate": client.clock(),
        "CreatedById": client.org.users.integration,
        "Order_Number__c": "17",
        "City__c": None,
        "Amount__c": 12.35,
        "Has_Shipped__c": True,
        "Shipped_On__c": 1_769_817_600_000,
        "Ordered_At__c": None,
        "Remarks__c": None,
    }


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({}, "REQUIRED_FIELD_MISSING"),
        ({"Order_Number__c": "1", "Nothing__c": "x"}, "INVALID_FIELD"),
        ({"Order_Number__c": "1", "ReplayId": "5"}, "INVALID_FIELD_FOR_INSERT_UPDATE"),
        ({"Order_Number__c": "x" * 41}, "STRING_TOO_LONG"),
        ({"Order_Number__c": "1", "Amount__c": "much"}, "JSON_PARSER_ERROR"),
    ],
)
def test_values_that_do_not_fit_are_refused_and_nothing_is_published(
    client: EventClient, values: dict[str, str], code: str
) -> None:
    before = len(client.server.publisher.published())
    answer = client.rest.post(f"/sobjects/{ORDER}", values)
    assert (answer.status_code, answer.json()[0]["errorCode"]) == (400, code)
    assert len(client.server.publisher.published()) == before


def test_collections_publish_each_event_with_a_result_of_its_own_beside_records(client: EventClient) -> None:
    start = client.place()
    records = [
        {"attributes": {"type": ORDER}, "Order_Number__c": "a"},
        {"attributes": {"type": "Account"}, "Name": "A record"},
        {"attributes": {"type": ORDER}},
        {"attributes": {"type": ORDER}, "Order_Number__c": "b"},
    ]
    results = client.rest.post("/composite/sobjects", {"records": records}).json()
    assert [each["success"] for each in results] == [True, True, False, True]
    assert [[error["statusCode"] for error in each["errors"]] for each in results] == [
        ["OPERATION_ENQUEUED"], [], ["REQUIRED_FIELD_MISSING"], ["OPERATION_ENQUEUED"],
    ]  # fmt: skip
    events = client.received(2, after=start)
    assert [event.event.id for event in events] == [results[n]["errors"][0]["message"] for n in (0, 3)]
    assert "survives" not in results[0]


def test_what_is_published_immediately_survives_a_rollback_and_what_waits_for_the_commit_does_not(
    client: EventClient,
) -> None:
    client.org.platform_events.define(
        event_definition(
            {
                "name": "After__e",
                "label": "After",
                "key_prefix": "e06",
                "publish": "after_commit",
                "fields": [{"Text__c": {"type": "string"}}],
            }
        )
    )
    before, start = len(client.server.publisher.published()), client.place()
    records = [
        {"attributes": {"type": ORDER}, "Order_Number__c": "immediately"},
        {"attributes": {"type": "After__e"}, "Text__c": "never"},
        {"attributes": {"type": "Account"}},
    ]
    results = client.rest.post("/composite/sobjects", {"allOrNone": True, "records": records}).json()
    assert [each["errors"][0]["statusCode"] for each in results] == [
        "OPERATION_ENQUEUED", "ALL_OR_NONE_OPERATION_ROLLED_BACK", "REQUIRED_FIELD_MISSING",
    ]  # fmt: skip
    client.post_event("After__e", Text__c="committed").raise_for_status()
    published = client.server.publisher.published()[before:]
    assert [each.name for each in published] == [ORDER, "After__e"]
    (event,) = client.received(1, "/event/After__e", start)
    assert client.decoded(event)["Text__c"] == "committed"


def test_a_composite_request_publishes_with_the_records_it_makes(client: EventClient) -> None:
    start = client.place()
    url = "/services/data/v59.0/sobjects"
    requests_ = [
        {"method": "POST", "url": f"{url}/Account", "referenceId": "made", "body": {"Name": "Composite"}},
        {"method": "POST", "url": f"{url}/{ORDER}", "referenceId": "told", "body": {"Order_Number__c": "@{made.id}"}},
    ]
    answer = client.rest.post("/composite", {"allOrNone": True, "compositeRequest": requests_}).json()
    assert [each["httpStatusCode"] for each in answer["compositeResponse"]] == [201, 201]
    (event,) = client.received(1, after=start)
    assert client.decoded(event)["Order_Number__c"] == answer["compositeResponse"][0]["body"]["id"]


def test_an_event_can_be_neither_read_nor_changed(client: EventClient) -> None:
    record_id = client.post_event(Order_Number__c="1").json()["id"]
    assert client.rest.get(f"/sobjects/{ORDER}/{record_id}").status_code == 404
    assert client.rest.send("PATCH", f"/sobjects/{ORDER}/{record_id}", json={}).status_code == 404
    assert client.rest.query(f"SELECT CreatedDate FROM {ORDER}").status_code == 400
    assert client.rest.get(f"/sobjects/{ORDER}").json()["objectDescribe"]["name"] == ORDER


# -- publishing by the Pub/Sub API


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


# -- reading


def test_cometd_brings_every_field_with_the_uuid_and_the_replay_id(client: EventClient) -> None:
    start = int.from_bytes(client.place()[:8], "big")
    uuid_ = client.post_event(Order_Number__c="9", Ordered_At__c="2026-01-31T10:00:00Z").json()["errors"][0]["message"]
    (message,) = client.bayeux(TOPIC, replay=start)
    published = client.server.publisher.published()[-1]
    assert message == {
        "data": {
            "schema": published.schema_id,
            "payload": {
                "CreatedDate": message["data"]["payload"]["CreatedDate"],
                "CreatedById": client.org.users.integration,
                "Order_Number__c": "9",
                "City__c": None,
                "Amount__c": None,
                "Has_Shipped__c": False,
                "Shipped_On__c": None,
                "Ordered_At__c": "2026-01-31T10:00:00.000Z",
                "Remarks__c": None,
            },
            "event": {"replayId": int.from_bytes(published.replay_id[:8], "big"), "EventUuid": uuid_},
        },
        "channel": TOPIC,
    }
    assert message["data"]["payload"]["CreatedDate"].endswith("Z")


@pytest.mark.parametrize("channel", ["/event/No__e", "/event/order_event__e", "/event/No__chn"])
def test_a_channel_that_does_not_exist_is_refused_with_the_vendors_text(client: EventClient, channel: str) -> None:
    (reply,) = client.bayeux(channel, replay=-1)
    assert reply["error"] == f"400::The channel you requested to subscribe to doesn't exist {{{channel}}}"


def test_a_channel_without_read_permission_is_refused_by_both_protocols(client: EventClient) -> None:
    client.org.unreadable_objects.add(ORDER)
    (reply,) = client.bayeux(TOPIC, replay=-1)
    assert reply["error"].startswith("403::")
    assert not client.topic().can_subscribe
    with pytest.raises(grpc.RpcError) as raised:
        client.received(1)
    assert error_of(raised)[1] == "subscription.topic.cannot.subscribe"


def test_a_custom_channel_has_the_events_of_its_members_that_pass_their_filters(client: EventClient) -> None:
    client.org.platform_events.define(
        event_definition(
            {"name": "Region__e", "label": "R", "key_prefix": "e07", "fields": [{"City__c": {"type": "string"}}]}
        )
    )
    made = client.rest.post(CHANNEL, {"FullName": "Orders__chn", "Metadata": {"channelType": "event", "label": "O"}})
    assert made.status_code == 201
    for entity, expression in ((ORDER, "City__c = 'Rome'"), ("Region__e", None)):
        given = {"eventChannel": "Orders__chn", "selectedEntity": entity, "filterExpression": expression}
        client.rest.post(MEMBER, {"FullName": f"Orders_chn_{entity}", "Metadata": given}).raise_for_status()
    start = client.place()
    client.post_event(Order_Number__c="1", City__c="Oslo")
    client.post_event(Order_Number__c="2", City__c="Rome")
    client.post_event("Region__e", City__c="Oslo")
    client.publish(client.producer_event("by Pub/Sub", City__c="Rome"))
    events = client.received(3, "/event/Orders__chn", start)
    assert [client.decoded(event)["City__c"] for event in events] == ["Rome", "Oslo", "Rome"]
    own = client.received(3, after=start)
    assert [event.event.id for event in events if event.event.id != events[1].event.id] == [
        event.event.id for event in own[1:]
    ]
    messages = client.bayeux("/event/Orders__chn", replay=int.from_bytes(start[:8], "big"))
    assert [each["data"]["event"]["EventUuid"] for each in messages] == [event.event.id for event in events]
    rows = client.rest.get("/tooling/query", params={"q": "SELECT SelectedEntity FROM PlatformEventChannelMember"})
    assert {ORDER, "Region__e"} <= {row["SelectedEntity"] for row in rows.json()["records"]}


@pytest.mark.parametrize(
    ("channel", "entity"),
    [
        ("Data__chn", ORDER),
        ("Events__chn", "AccountChangeEvent"),
        ("Events__chn", "Low_Ink__e"),
        ("ChangeEvents", ORDER),
    ],
)
def test_a_channel_holds_events_of_one_product_and_none_of_standard_volume(
    client: EventClient, channel: str, entity: str
) -> None:
    for name, kind in (("Data__chn", "data"), ("Events__chn", "event")):
        client.rest.post(CHANNEL, {"FullName": name, "Metadata": {"channelType": kind, "label": name}})
    given = {"eventChannel": channel, "selectedEntity": entity}
    answer = client.rest.post(MEMBER, {"FullName": "x", "Metadata": given})
    assert answer.json()[0]["errorCode"] == "FIELD_INTEGRITY_EXCEPTION"


def test_usage_counts_platform_events_apart_from_change_events(client: EventClient) -> None:
    def usage() -> dict[str, float]:
        soql = "SELECT Name, Value FROM PlatformEventUsageMetric"
        return {row["Name"]: row["Value"] for row in client.rest.query(soql).json()["records"]}

    def next_hour() -> None:
        client.clock.advance(HOUR - client.clock() % HOUR)
        client.log_in()

    next_hour()
    before, start = usage(), client.place()
    client.post_event(Order_Number__c="1")
    client.received(1, after=start)
    client.post_event("Low_Ink__e", Printer_Model__c="p")
    assert client.bayeux("/event/Low_Ink__e", replay=-2)
    next_hour()
    after = usage()
    changed = {name: after[name] - before.get(name, 0) for name in after}
    assert changed["PLATFORM_EVENTS_PUBLISHED"] == changed["PLATFORM_EVENTS_DELIVERED"] == 2
    assert changed.get("CHANGE_EVENTS_PUBLISHED", 0) == changed.get("CHANGE_EVENTS_DELIVERED", 0) == 0


def test_limits_count_what_the_streaming_api_really_delivered_and_who_listens(client: EventClient) -> None:
    def limits() -> dict[str, dict[str, int]]:
        return client.rest.get("/limits").json()

    channels = client.server.cometd.topics.channels
    channel = channels.create({"Name": "/u/Counted"})
    before = limits()
    channels.push(channel.id, [{"payload": text} for text in ("a", "b")], [])
    assert len(client.bayeux("/u/Counted", replay=-2)) == 2
    after = limits()
    used = {name: before[name]["Remaining"] - after[name]["Remaining"] for name in after}
    assert {name for name, count in used.items() if count == 2 and "Generic" in name} == {
        "DailyGenericStreamingApiEvents", "DailyDurableGenericStreamingApiEvents",
    }  # fmt: skip
    assert used["DailyStreamingApiEvents"] == used["DailyDeliveredPlatformEvents"] == 0
    assert after["StreamingApiConcurrentClients"] == {"Max": 2_000, "Remaining": 2_000}


def test_events_of_standard_volume_have_an_allowance_of_their_own(client: EventClient) -> None:
    def remaining() -> tuple[int, int]:
        limits = client.rest.get("/limits").json()
        names = ("DailyStandardVolumePlatformEvents", "DailyDeliveredPlatformEvents")
        standard, delivered = (limits[name]["Remaining"] for name in names)
        return standard, delivered

    (standard, delivered), place = remaining(), len(client.bayeux("/event/Low_Ink__e", replay=-2))
    client.post_event("Low_Ink__e", Printer_Model__c="p")
    assert len(client.bayeux("/event/Low_Ink__e", replay=-2)) == place + 1
    assert remaining() == (standard - 2 * place - 1, delivered)
    settings = client.org.settings
    used = settings.daily_standard_event_deliveries - remaining()[0]
    client.org.settings = replace(settings, daily_standard_event_deliveries=used)
    try:
        (refused,) = client.connects("/event/Low_Ink__e", replay=-2)
        assert refused["error"].startswith("403::Organization total events daily limit exceeded")
    finally:
        client.org.settings = settings


def test_notifications_beyond_the_days_allowance_end_the_session_with_the_vendors_text(client: EventClient) -> None:
    channels = client.server.cometd.topics.channels
    channel = channels.create({"Name": "/u/Exhausted"})
    channels.push(channel.id, [{"payload": text} for text in "abc"], [])
    most = client.server.cometd.allowances.most(Allowance.GENERIC)
    left = client.server.cometd.allowances.left(Allowance.GENERIC)
    client.org.settings = replace(client.org.settings, daily_generic_deliveries=most - left + 2)
    assert [each["data"]["payload"] for each in client.bayeux("/u/Exhausted", replay=-2)] == ["a", "b"]
    (refused,) = client.connects("/u/Exhausted", replay=-2)
    assert refused["error"] == "403::Organization total events daily limit exceeded"
    assert client.bayeux("/event/Order_Event__e", replay=-2), "platform events have another allowance"


# -- faults and the oracle


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


# -- retention, without sockets


def test_high_volume_events_are_kept_for_72_hours_and_those_of_standard_volume_for_24() -> None:
    clock = ManualClock()
    org = EmulatedOrg(clock=clock)
    bus = EventBus(org)
    publisher = EventPublisher(org, bus)
    publisher.publish(ORDER, {"Order_Number__c": "1"})
    publisher.publish("Low_Ink__e", {"Printer_Model__c": "XZO-5"})
    places = {each.name: each.replay_id for each in publisher.published()}

    def kept(name: str) -> int:
        topic = find_topic(org, f"/event/{name}")
        assert topic is not None
        start = bus.start(pb.ReplayPreset.EARLIEST, retention_ms=topic.retention_ms)
        batch = bus.read([name], after=start, max_events=9, max_bytes=10**6, channels=topic.channels)
        return len(batch.events)

    clock.advance(24 * HOUR)
    assert (kept(ORDER), kept("Low_Ink__e")) == (1, 1)
    clock.advance(1)
    assert (kept(ORDER), kept("Low_Ink__e")) == (1, 0)
    with pytest.raises(ReplayIdCorruptedError):
        bus.start(pb.ReplayPreset.CUSTOM, places["Low_Ink__e"], 24 * HOUR)
    bus.start(pb.ReplayPreset.CUSTOM, places[ORDER])
    clock.advance(48 * HOUR)
    assert kept(ORDER) == 0
    with pytest.raises(RecordError, match="INVALID_FIELD"):
        publisher.publish(ORDER, {"No__c": 1})
    org.close()
