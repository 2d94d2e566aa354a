"""Tables and examples of the guide about PushTopics that are not in `test_push_topics` and
`test_streaming_guide_examples`: geolocations, the values of NotifyForOperations, notification scenarios, the security
example, the order of messages (Streaming API Developer Guide, chapters 4, 5 and 8)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from sfcdc_assets_tests.emulator.cometd_service.emulated import Emulated
from sfcdc_assets_tests.emulator.rest_server import rest_client
from sfcdc_assets_tests.emulator.test_push_topics import create, follow, kinds, messages

INVOICE = "Invoice_Statement__c"


@pytest.fixture(scope="module")
def shared() -> Iterator[Emulated]:
    with closing(Emulated()) as emulated:
        yield emulated


@pytest.fixture
def emulated(shared: Emulated) -> Iterator[Emulated]:
    """The module's org, without the topics of the test before."""
    yield shared
    topics = shared.service.topics.push_topics
    for each in topics.all():
        topics.delete(each.id)
    for name in shared.org.field_security.hidden(INVOICE):
        shared.org.field_security.show(INVOICE, name)


def invoice(emulated: Emulated, **values: Any) -> str:
    with emulated.org.transaction() as work:
        return work.create(INVOICE, values)


def change(emulated: Emulated, record_id: str, **values: Any) -> None:
    with emulated.org.transaction() as work:
        work.update(INVOICE, record_id, values)


PLACES = [
    (f"SELECT Id, Location__c FROM {INVOICE}", False),
    (f"SELECT Id, Location__c, Location__Latitude__s, Location__Longitude__s FROM {INVOICE}", True),
    (f"SELECT Id, Location__Latitude__s, Location__Longitude__s FROM {INVOICE}", True),
]


@pytest.mark.parametrize(("query", "is_supported"), PLACES)
def test_a_geolocation_is_noticed_by_its_parts(emulated: Emulated, query: str, is_supported: bool) -> None:
    create(emulated, query)
    record = invoice(emulated, Location__Latitude__s=1.0, Location__Longitude__s=2.0)
    follow(emulated)
    change(emulated, record, Location__Latitude__s=3.0)
    assert kinds(emulated) == ["updated"] * is_supported


@pytest.mark.parametrize(
    ("creates", "updates", "shown"),
    [(True, True, "All"), (True, False, "Create"), (False, True, "Update"), (False, False, "Extended")],
)
def test_notify_for_operations_tells_older_clients_of_creates_and_updates(
    emulated: Emulated, creates: bool, updates: bool, shown: str
) -> None:
    operations = {"NotifyForOperationCreate": creates, "NotifyForOperationUpdate": updates}
    topic = create(emulated, "SELECT Id, Name FROM Account", **operations)
    with rest_client(emulated.org, cometd=emulated.service) as client:
        assert client.get(f"/sobjects/PushTopic/{topic}").json()["NotifyForOperations"] == shown


SCENARIOS: list[tuple[str, str, str, dict[str, Any], bool]] = [
    ("all updates", f"SELECT Id, Name, Description__c FROM {INVOICE}", "All", {"Paid__c": True}, True),
    ("a list view", f"SELECT Id, Name, Amount__c FROM {INVOICE}", "Referenced", {"Amount__c": 2}, True),
    ("a list view", f"SELECT Id, Name, Amount__c FROM {INVOICE}", "Referenced", {"Paid__c": True}, False),
    ("a record", f"SELECT Id, Name, Amount__c FROM {INVOICE} WHERE Id='{{0}}'", "All", {"Paid__c": True}, True),
    ("a page", f"SELECT Id, Name, Amount__c FROM {INVOICE} WHERE Id='{{0}}'", "Referenced", {"Amount__c": 3}, True),
    ("a page", f"SELECT Id, Name, Amount__c FROM {INVOICE} WHERE Id='{{0}}'", "Referenced", {"Paid__c": True}, False),
    ("a state", f"SELECT Id, Name FROM {INVOICE} WHERE Status__c = 'Open'", "All", {"Paid__c": True}, True),
    ("a state", f"SELECT Id, Name FROM {INVOICE} WHERE Status__c = 'Closed'", "All", {"Paid__c": True}, False),
    ("an amount", f"SELECT Id, Name FROM {INVOICE} WHERE Amount__c > 999", "Referenced", {"Amount__c": 1000}, True),
    ("an amount", f"SELECT Id, Name FROM {INVOICE} WHERE Amount__c > 999", "Referenced", {"Amount__c": 999}, False),
]


@pytest.mark.parametrize(("scenario", "query", "notify", "values", "is_reported"), SCENARIOS)
def test_notification_scenarios(
    emulated: Emulated, scenario: str, query: str, notify: str, values: dict[str, Any], is_reported: bool
) -> None:
    record = invoice(emulated, Status__c="Open", Amount__c=1, Paid__c=False)
    create(emulated, query.format(record), NotifyForFields=notify)
    follow(emulated)
    change(emulated, record, **values)
    assert kinds(emulated) == ["updated"] * is_reported, scenario


def test_messages_of_two_records_say_when_each_event_occurred(emulated: Emulated) -> None:
    create(emulated, f"SELECT Id, Name, Status__c, Description__c FROM {INVOICE}", Name="InvoiceStatementUpdates")
    second = invoice(emulated, Description__c="Invoice statement #2")
    follow(emulated, "/topic/InvoiceStatementUpdates")
    third = invoice(emulated, Description__c="New invoice statement #1")
    emulated.clock.advance(30_000)
    change(emulated, second, Status__c="Negotiating", Description__c="Update to invoice statement #2")
    created, updated = messages(emulated)
    assert (created["event"]["type"], created["sobject"]["Id"]) == ("created", third)
    assert (updated["event"]["type"], updated["sobject"]["Id"]) == ("updated", second)
    assert updated["sobject"]["Status__c"] == "Negotiating"
    assert created["event"]["createdDate"] < updated["event"]["createdDate"]


def test_a_session_that_is_not_known_begins_again_with_a_handshake(emulated: Emulated) -> None:
    emulated.handshake()
    (reply,) = emulated.call(
        {"channel": "/meta/connect", "clientId": "nobody", "connectionType": "long-polling", "id": "78"}
    ).messages
    assert (reply["id"], reply["error"], reply["successful"]) == ("78", "403::Unknown client", False)
    assert reply["advice"]["reconnect"] == "handshake"


def test_a_deactivated_topic_keeps_its_record_and_notifies_of_nothing(emulated: Emulated) -> None:
    topic = create(emulated, "SELECT Id, Name FROM Account")
    follow(emulated)
    with rest_client(emulated.org, cometd=emulated.service) as client:
        assert client.send("PATCH", f"/sobjects/PushTopic/{topic}", json={"IsActive": False}).status_code == 204
        assert client.get(f"/sobjects/PushTopic/{topic}").json()["IsActive"] is False
        emulated.update(Name="nobody hears")
        assert messages(emulated) == []
        assert client.send("PATCH", f"/sobjects/PushTopic/{topic}", json={"IsActive": True}).status_code == 204
    emulated.update(Name="heard")
    assert kinds(emulated) == ["updated"]


def test_bonus_and_number_of_the_security_example(emulated: Emulated) -> None:
    """`SELECT Id, Name, SSN__c ... WHERE Bonus_Received__c = true AND Bonus_Amount__c > 20000`, on an invoice."""
    create(emulated, f"SELECT Id, Name, Bank_Account__c FROM {INVOICE} WHERE Paid__c = true AND Amount__c > 20000")
    security = emulated.org.field_security
    security.hide(INVOICE, "Bank_Account__c")
    follow(emulated)
    record = invoice(emulated, Paid__c=True, Amount__c=20_001, Bank_Account__c="1")
    (message,) = messages(emulated)
    assert message["sobject"].keys() == {"Id", "Name"}
    assert message["sobject"]["Id"] == record
    security.hide(INVOICE, "Amount__c")
    emulated.handshake()
    assert "fields referenced in the where clause" in emulated.subscribe("/topic/Accounts")["error"]
