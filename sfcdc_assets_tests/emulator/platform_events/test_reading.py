"""Platform events are read by both protocols, over their own channels and custom ones, within allowances, for as long
as they are kept."""

from __future__ import annotations

from dataclasses import replace

import grpc
import pytest

from sfcdc_assets.emulator.cometd.allowances import Allowance
from sfcdc_assets.emulator.definitions.platform_event_definition import event_definition
from sfcdc_assets.emulator.errors import RecordError, ReplayIdCorruptedError
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.events.platform_events.event_publishing import EventPublisher
from sfcdc_assets.emulator.events.topic import find_topic
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import HOUR
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets_tests.emulator.platform_event_client import ORDER, TOPIC, EventClient, error_of

CHANNEL = "/tooling/sobjects/PlatformEventChannel"
MEMBER = "/tooling/sobjects/PlatformEventChannelMember"


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
